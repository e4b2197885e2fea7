#include "runtime/node/config/entry_choices.hpp"

#include "runtime/data/augment.hpp"

namespace troupe {
namespace {

template <class Registry>
table_choice choice_of(const char* key, const Registry& entries) {
  table_choice c{key, entries.names(), {}};
  for (const auto& name : c.names) c.options[name] = entries.find(name)->specs;
  return c;
}

}  // namespace

std::map<std::string, table_choice> choices_of(const tables& all) {
  std::map<std::string, table_choice> m{{"data", choice_of("source", all.sources)},
                                        {"layer", choice_of("type", all.layers)},
                                        {"train.sampler", choice_of("kind", all.samplers)},
                                        {"train.dynamics", choice_of("rule", all.rules)},
                                        {"train.dynamics.schedule", choice_of("kind", all.schedules)},
                                        {"train.sync", choice_of("mode", all.modes)},
                                        {"train.sync.when", choice_of("kind", all.conditions)},
                                        {"train.exchange", choice_of("reducer", all.reducers)},
                                        {"train.finish.custom", choice_of("kind", all.finishes)},
                                        {"eval.sampler", choice_of("kind", all.eval_samplers)}};
  m["data.augment"].options[""] = augmentation::specs();
  return m;
}

}  // namespace troupe
