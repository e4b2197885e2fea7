// Prepares a job: opens its data, makes graph and plan, and checks them.
#include "runtime/job/job.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "ops/device.hpp"
#include "ops/filler.hpp"
#include "runtime/base/diagnostic.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/coordinator/rate_plateau.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/job/auto_reducer.hpp"
#include "runtime/job/elastic.hpp"
#include "runtime/job/job_data.hpp"
#include "runtime/job/job_mode.hpp"
#include "runtime/job/job_rule.hpp"
#include "runtime/job/options_of_plan.hpp"
#include "runtime/job/position.hpp"
#include "runtime/plan/plan_check.hpp"
#include "runtime/stage/gather_stage.hpp"
#include "runtime/stage/joint_stage.hpp"

namespace troupe {
namespace {

// What the training of a job needs and can be checked before it starts: layers that learn from the
// packets that they get, and evaluations that produce what its conditions compare.

bool has_accuracy(const model_graph& g) {
  return std::any_of(g.layers.begin(), g.layers.end(),
                     [](const graph_layer& l) { return l.in_test && l.maths->is_metric() && l.maths->more_is_better(); });
}

// What a job waits for, as a key of its file.
struct wish {
  source_position at;
  std::string who;  // "[train.finish]: 'patience'"
  bool of_accuracy = false;
};

std::vector<wish> wishes_of(const prepared_job& j) {
  const auto& t = j.spec.train;
  const auto& f = t.finish;
  std::vector<wish> all;
  const auto finish = [&](const source_position& at, std::string who, const std::string& row, const options& given) {
    const auto* type = j.all->finishes.find(row);
    if (!type || !type->needs_evaluations) return;
    all.push_back({at, std::move(who), type->needs_accuracy && type->needs_accuracy(given)});
  };
  const auto stock = [&](const std::string& row, const options& given) {
    finish(position(t.key_at, "finish." + row, t.at), "[train.finish]: " + in_quotes(row), row, given);
  };
  if (f.target_accuracy) stock("target_accuracy", {});
  if (f.patience) stock("patience", {{{"measure", f.measure}}});
  if (f.custom) finish(f.custom->at, "[train.finish.custom]: " + in_quotes(f.custom->kind), f.custom->kind, f.custom->values);
  if (const auto& s = t.schedule; s.kind == rate_plateau::name)
    all.push_back({s.at, "[train.dynamics.schedule]: 'plateau'", s.values.text("measure") == "accuracy"});
  return all;
}

// The mean of a packet's loss is over its own labels: packets of which fewer labels count would
// have as much weight as others, unless the job says so.
void check_means(const prepared_job& j, diagnostics& wrong) {
  if (!j.data->ignores_labels() || j.plan.packets < 2) return;
  for (const auto& l : j.graph.layers) {
    const auto& values = l.spec->values;
    const bool labelled =
        std::any_of(l.inputs.begin(), l.inputs.end(), [](const tensor_ref& r) { return r.layer == from_data && r.output == 1; });
    if (!l.in_train || !l.maths->is_loss() || !labelled || !values.has("mean") || l.spec->key_at.count("mean") > 0) continue;
    if (values.text("mean") == "packet")
      wrong.push_back({l.spec->at, "layer " + in_quotes(l.name) +
                                       ": some training labels do not count, and the mean of a packet would be over its own: "
                                       "set mean = \"batch\" (over the labels of the step, as in PyTorch), or mean = \"packet\" "
                                       "if that is meant"});
  }
}

// Returns a mistake for each layer that cannot be trained with the job's packets
// (layer::untrainable), and for each finish condition and schedule that waits for an evaluation
// or an accuracy which the job does not have. The plan must have been made.
diagnostics check_training(const prepared_job& j) {
  diagnostics wrong;
  if (!j.spec.trains) return wrong;
  for (const auto& l : j.graph.layers)
    if (l.in_train)
      if (const auto why = l.maths->untrainable(l.in, j.plan.packets); !why.empty())
        wrong.push_back({l.spec->at, "layer " + in_quotes(l.name) + ": " + why});
  check_means(j, wrong);
  const bool evaluates = make_eval_sampler(j)->examples() > 0, accuracy = has_accuracy(j.graph);
  for (const auto& w : wishes_of(j)) {
    if (!evaluates)
      wrong.push_back({w.at, w.who + " needs evaluations, but source " + in_quotes(j.spec.data.source) +
                                 " has no test data: give it some, or set [data] validation, or [eval] split = \"train\""});
    else if (w.of_accuracy && !accuracy)
      wrong.push_back({w.at, w.who + " needs an accuracy, but no layer of the net reports one in tests: add a layer of type "
                                     "'accuracy', or compare losses (measure = \"loss\" of patience and 'plateau')"});
  }
  return wrong;
}

// Checks independently of the planner that the plan has every layer, input and parameter exactly
// once.
diagnostics whole_or_not(const prepared_job& j) {
  diagnostics wrong;
  for (const auto& f : check_plan(j.plan, j.graph)) {
    const auto* of = f.layer < 0 ? nullptr : j.graph.layers[static_cast<std::size_t>(f.layer)].spec;
    wrong.push_back({of ? of->at : j.spec.at, "the plan is refused: " + f.text});
  }
  return wrong;
}

// A schedule of a plugin may return any number. Rates from a negative base, which no job file has,
// may be negative.
class checked_rate final : public schedule {
 public:
  checked_rate(std::string kind, std::unique_ptr<schedule> inner) : kind_(std::move(kind)), inner_(std::move(inner)) {}
  double lr(double base, std::uint64_t step) const override {
    const double rate = inner_->lr(base, step);
    if (!std::isfinite(rate) || (rate < 0 && base >= 0))
      throw std::runtime_error("schedule '" + kind_ + "' gives a learning rate of " + number_text(rate) + " for step " +
                               std::to_string(step + 1) + ", from a base rate of " + number_text(base) +
                               ". A rate must be finite and not negative: change the schedule's options, or its code");
    return rate;
  }

 private:
  std::string kind_;
  std::unique_ptr<schedule> inner_;
};

}  // namespace

// A job with actor-based layers has no tester, because their stages exchange messages with those of
// all workers.
plan_options options_of_plan(const prepared_job& j) {
  plan_options o;
  o.own_stage = j.all->stages.types();
  o.readers = readers_of(j);
  o.rule_states = static_cast<std::uint32_t>(make_rule(j)->states().size());
  try {
    o.tester = j.all->eval_samplers.find(j.spec.eval.sampler.kind) && make_eval_sampler(j)->examples() > 0;
  } catch (const option_error&) {
    o.tester = false;  // check_samplers says what is wrong
  }
  for (const auto& l : j.graph.layers) o.tester = o.tester && !o.own_stage.count(l.type);
  o.lay_out_reducers = reducers_of(j);
  o.placing = placing_of(j);
  return o;
}

namespace {

// Checks that the stages of the layers can run under the plan.
expected<void, diagnostic> check_stages(const prepared_job& j) {
  const auto refused = [](const graph_layer& l, const source_position& at, const error& why) {
    return unexpected(diagnostic{at, "layer '" + l.name + "': " + why.text});
  };
  for (const auto& l : j.graph.layers) {
    if (!l.in_train) continue;
    if (const auto ok = joint_stage::check(j.plan, l); !ok) return refused(l, l.spec->at, ok.error());
    if (const auto ok = gather_stage::check(j.plan, l); !ok)
      return refused(l, position(l.spec->key_at, "gather", l.spec->at), ok.error());
  }
  for (const auto& l : j.graph.layers)
    if (j.all->stages.find(l.type) && (l.shared_in > 0 || l.shared_out > 0))
      return refused(l, position(l.spec->key_at, "share", l.spec->at),
                     error("the stages of type '" + l.type + "' exchange messages of their own and cannot share parameters"));
  for (const auto& l : j.graph.layers)
    if (const auto* own = j.all->stages.find(l.type); own && own->check)
      if (const auto ok = own->check(j.plan, l); !ok) return refused(l, l.spec->at, ok.error());
  return {};
}

}  // namespace

expected<std::shared_ptr<prepared_job>, diagnostics> prepare_job(job_spec spec, std::shared_ptr<const tables> all,
                                                                 const std::vector<node_spec>& nodes,
                                                                 std::shared_ptr<const source> opened) {
  auto j = std::make_shared<prepared_job>();
  j->spec = std::move(spec);
  j->all = std::move(all);
  j->nodes = nodes;
  j->data = std::move(opened);
  const auto& d = j->spec.data;
  const auto* type = j->all->sources.find(d.source);
  if (!type) return unexpected(diagnostics{{d.at, "unknown data source '" + d.source + "'"}});
  try {
    if (!j->data) j->data = open_data(*type, d, j->spec.seed);
  } catch (const option_error& e) {
    return unexpected(diagnostics{{position(d.key_at, e.key, d.at), e.what()}});
  }
  if (auto ok = add_augmentation(*j); !ok) return unexpected(diagnostics{ok.error()});
  if (auto ok = balance_classes(*j); !ok) return unexpected(diagnostics{ok.error()});
  const auto example = j->augment ? j->augment->example() : j->data->example();
  auto graph = build_graph(j->spec, j->all->layers, example_facts_of(*j->data, example));
  if (!graph) return unexpected(std::move(graph).error());
  j->graph = std::move(*graph);
  const auto* order = j->all->samplers.find(d.sampler.kind);
  if (!order) return unexpected(diagnostics{{d.sampler.at, "unknown sampler '" + d.sampler.kind + "'"}});
  j->spec.data.how = order->how;
  auto used = nodes;
  fix_nodes(j->spec, nodes);
  j->asked = j->spec.topology;
  j->filed_mode = mode_text(*j);
  if (auto wrong = fit_to_nodes(j->spec, used); !wrong.empty()) return unexpected(wrong);
  choose_reducer(*j, used);
  auto plan = make_plan(j->spec, j->graph, used, options_of_plan(*j));
  if (!plan) return unexpected(std::move(plan).error());
  j->plan = std::move(*plan);
  if (auto wrong = whole_or_not(*j); !wrong.empty()) return unexpected(wrong);
  if (auto ok = check_mode(*j); !ok) return unexpected(diagnostics{ok.error()});
  if (auto ok = check_stages(*j); !ok) return unexpected(diagnostics{ok.error()});
  if (j->data->size(split::train) < d.batch)
    return unexpected(diagnostics{
        {position(d.key_at, "batch", d.at), "batch " + std::to_string(d.batch) + " is larger than the training split of " +
                                                std::to_string(j->data->size(split::train)) + " examples"}});
  if (auto ok = check_samplers(*j); !ok) return unexpected(diagnostics{ok.error()});
  if (auto ok = check_carries(*j); !ok) return unexpected(diagnostics{ok.error()});
  j->plan.eval_sequences = j->graph.carries() && make_eval_sampler(*j)->continues_sequences();
  j->steps_per_epoch = static_cast<std::uint64_t>(make_sampler(*j, 0, j->spec.seed)->steps_per_epoch());
  try {
    j->last_step = last_step_of(make_finish(j->spec.train.finish, j->all->finishes, {j->steps_per_epoch}));
  } catch (const option_error& e) {
    const auto& t = j->spec.train;
    return unexpected(diagnostics{{position(t.key_at, e.key, t.finish.custom ? t.finish.custom->at : t.at), e.what()}});
  }
  if (auto ok = check_average(*j); !ok) return unexpected(diagnostics{ok.error()});
  if (auto wrong = check_training(*j); !wrong.empty()) return unexpected(std::move(wrong));
  return j;
}

std::unique_ptr<schedule> make_rate(const job_spec& s, const tables& all) {
  auto rate = all.schedules.find(s.train.schedule.kind)->make(s.train.schedule.values);
  const auto& warmup = s.train.warmup;
  rate = with_warmup(std::move(rate), static_cast<std::uint64_t>(warmup.steps), warmup.from, warmup.prefix);
  const auto batch = static_cast<double>(s.data.batch), base = static_cast<double>(s.train.base_batch);
  rate = scaled_by(std::move(rate), batch_factor(s.train.lr_scale, batch, base));
  return std::make_unique<checked_rate>(s.train.schedule.kind, std::move(rate));
}

const std::vector<std::pair<std::string, tensor>>& given(const prepared_job& j) {
  static const std::vector<std::pair<std::string, tensor>> nothing;
  return j.before ? j.before->named : nothing;
}

std::vector<std::pair<std::string, tensor>> initial_weights(const prepared_job& j, device& d) {
  std::vector<std::pair<std::string, tensor>> list;
  for (const auto& p : j.graph.params) {
    auto t = tensor::allocate(d, p.spec.dims, j.spec.parameter_type());
    bool have = false;
    for (const auto& [name, value] : given(j)) {
      if (name != p.full_name) continue;
      d.copy(value, t);
      have = true;
    }
    if (!have) fill_param(d, p.spec, j.spec.seed, p.layer, p.index_in_layer, t);
    list.emplace_back(p.full_name, t);
  }
  return list;
}

expected<void> check_weights(const model_graph& g, const std::vector<std::pair<std::string, tensor>>& named) {
  for (const auto& p : g.params) {
    auto at = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == p.full_name; });
    if (at == named.end()) return unexpected(error("weights have no tensor '" + p.full_name + "'"));
    if (!(at->second.dims() == p.spec.dims))
      return unexpected(error("tensor '" + p.full_name + "' has shape " + at->second.dims().to_string() + ", but the model needs " +
                              p.spec.dims.to_string()));
  }
  return {};
}

}  // namespace troupe
