// `troupe data JOB|RUN`: reads a job's data and prints what it holds.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/job.hpp"
#include "apps/commands/prepare/data_card.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/text_table.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/toml_text.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

std::string number(double v) { return general_text(v, 5); }

std::string count(std::int64_t n) { return with_commas(static_cast<std::uint64_t>(n)); }

json extents(const shape& s) {
  auto list = json::array();
  for (int i = 0; i < s.rank(); ++i) list.push_back(s[i]);
  return list;
}

json json_of(const data_card::part& p) {
  json o{{"examples", p.examples}, {"classes", p.of_class}, {"channels", json::array()}, {"targets", json::array()}};
  const auto facts = [](const data_card::channel& c) {
    return json{{"mean", c.mean}, {"deviation", c.deviation}, {"min", c.least}, {"max", c.most}};
  };
  for (const auto& c : p.channels) o["channels"].push_back(facts(c));
  for (const auto& c : p.targets) o["targets"].push_back(facts(c));
  o["not_finite"] = p.not_finite;
  o["repeated"] = p.repeated;
  o["sha256"] = p.sha256;
  return o;
}

std::string class_table(const source& s, const data_card& c, bool validation) {
  if (c.train.of_class.empty()) return {};
  constexpr std::size_t most = 100;
  text_table t({"class", "training", validation ? "validation" : "test"});
  t.right(1), t.right(2);
  const auto names = s.class_names();
  const auto n = c.train.of_class.size();
  for (std::size_t k = 0; k < std::min(n, most); ++k)
    t.add({std::to_string(k) + (k < names.size() ? " " + in_quotes(names[k]) : ""), count(c.train.of_class[k]),
           count(c.test.of_class[k])});
  return "\n" + t.text() + "\n" + (n > most ? "and " + std::to_string(n - most) + " more; --json has all\n" : "");
}

std::string value_table(const data_card& c, bool validation, const char* title, const char* what,
                        std::vector<data_card::channel> data_card::part::*which) {
  if ((c.train.*which).empty()) return {};
  text_table t({title, what, "mean", "deviation", "min", "max"});
  for (const auto* p : {&c.train, &c.test})
    for (std::size_t k = 0; p->examples > 0 && k < (p->*which).size(); ++k) {
      const auto& x = (p->*which)[k];
      t.add({p == &c.train ? "training"
             : validation  ? "validation"
                           : "test",
             (p->*which).size() > 1 ? std::to_string(k) : "all", number(x.mean), number(x.deviation), number(x.least),
             number(x.most)});
    }
  return "\n" + t.text() + "\n";
}

// `validation`: the test split is a part of the training examples.
std::string text_of(const source& s, const data_card& c, bool validation) {
  const std::string tests = validation ? "validation" : "test";
  std::string text =
      count(c.train.examples) + " training and " + count(c.test.examples) + " " + tests + " examples of " + c.example.to_string() +
      (c.ids ? " ids" : "") + (c.vocabulary > 0 ? " below " + std::to_string(c.vocabulary) : "") +
      (s.targets() ? ", targets of " + c.label.to_string() : (c.label.count() > 1 ? ", labels of " + c.label.to_string() : "")) +
      "\n" + class_table(s, c, validation) + value_table(c, validation, "values", "channel", &data_card::part::channels) +
      value_table(c, validation, "targets", "value", &data_card::part::targets) + "\n";
  for (const auto* p : {&c.train, &c.test}) {
    const auto name = p == &c.train ? "training" : tests;
    if (p->not_finite > 0) text += name + ": " + count(p->not_finite) + " values are not finite\n";
    if (p->repeated > 0) text += name + ": " + count(p->repeated) + " examples are equal to an earlier one\n";
    if (!p->sha256.empty()) text += "sha256 " + p->sha256 + " (" + name + ")\n";
  }
  if (c.shared > 0) text += count(c.shared) + " " + tests + " examples are training examples, too: the accuracy is too high\n";
  return text;
}

// Short numbers. The mean belongs to the scale that is printed.
std::string scaling_text(const standard_scaling& s) {
  std::vector<double> scale, mean;
  for (std::size_t k = 0; k < s.scale.size(); ++k) {
    scale.push_back(rounded_to_unit(s.scale[k], s.scale[k]));
    const double changed = s.scale[k] == 0 ? 1 : scale[k] / s.scale[k];
    mean.push_back(rounded_to_unit(s.mean[k] * changed, 1));
  }
  const auto line = [&](const char* key, const std::vector<double>& list) {
    return std::string(key) + " = " + (s.list ? toml_text(list) : toml_text(list[0])) + "\n";
  };
  return "\nfor values of mean 0 and deviation 1, in [data]:\n" + line(s.scale_key, scale) + line(s.mean_key, mean);
}

int run_data(const job_arguments& a, const output& out) {
  auto loaded = load_job(a);
  if (!loaded) return out.wrong(loaded.error());
  const auto& s = *(*loaded)->data;
  const auto card = card_of(s);
  const bool validation = (*loaded)->spec.data.validation > 0;
  if (!card) return out.failed({}, card.error().text);
  const auto& data = (*loaded)->spec.data;
  const auto* type = (*loaded)->all->sources.find(data.source);
  const auto scaling = type ? standard_scaling_of(*card, type->specs, input_format_of(s, data.source, data.values)) : std::nullopt;
  if (out.json()) {
    json o({{"event", "data"},
            {"shape", extents(card->example)},
            {"label_shape", extents(card->label)},
            {"ids", card->ids},
            {"vocabulary", card->vocabulary},
            {"class_names", s.class_names()},
            {"validation", validation},
            {"train", json_of(card->train)},
            {"test", json_of(card->test)},
            {"shared", card->shared}});
    if (scaling) o["standard"] = {{scaling->scale_key, scaling->scale}, {scaling->mean_key, scaling->mean}};
    out.object(o);
  }
  out.text(text_of(s, *card, validation) + (scaling ? scaling_text(*scaling) : ""));
  return exit_done;
}

void add_options(CLI::App& c, job_arguments& a) { job_options(c, a); }

}  // namespace

cli_command data_command() {
  return make_command<job_arguments>("data", "Show what a job's data holds: counts, classes, values, repeated examples, a hash",
                                     "  troupe data configs/jobs/lenet_fashion.toml\n"
                                     "  troupe data 7                                      # of the job of run 7\n"
                                     "  troupe data job.toml --set data.path=other --json\n"
                                     "Values are those before [data] augment. Equal data has one hash, whatever file it is in.",
                                     add_options, run_data);
}

}  // namespace troupe
