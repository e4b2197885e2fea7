#include "runtime/job/job.hpp"

#include <algorithm>

#include "ops/device.hpp"
#include "ops/filler.hpp"
#include "runtime/pipeline/coordinator.hpp"
#include "runtime/pipeline/loader.hpp"
#include "runtime/pipeline/stage.hpp"

namespace troupe {
namespace {

using job_ptr = std::shared_ptr<const prepared_job>;

source_position position(const std::map<std::string, source_position>& keys, const std::string& key,
                         const source_position& else_at) {
  auto i = keys.find(key);
  return i == keys.end() ? else_at : i->second;
}

std::int64_t eval_examples(const prepared_job& j) {
  return j.spec.eval.batch > 0 ? std::max<std::int64_t>(1, j.spec.eval.batch / j.spec.pipeline.packets) : j.graph.packet_examples;
}

std::unique_ptr<sampler> make_sampler(const prepared_job& j, std::uint32_t worker) {
  const auto* type = j.all->samplers.find(j.spec.data.sampler.kind);
  sampler_config c;
  c.seed = j.spec.seed;
  c.examples = j.data->size(split::train);
  c.batch = j.spec.data.batch;
  c.worker = worker;
  c.workers = static_cast<std::uint32_t>(std::max<std::size_t>(1, j.plan.ranges.size()));
  return type->make(j.spec.data.sampler.values, c);
}

std::shared_ptr<const model_graph> graph_of(const job_ptr& j) { return {j, &j->graph}; }
std::shared_ptr<const job_plan> plan_of(const job_ptr& j) { return {j, &j->plan}; }

std::unique_ptr<role> make_coordinator(const job_ptr& j, role_id r) {
  coordinator_config c;
  c.job = j->id;
  c.self = r;
  c.graph = graph_of(j);
  c.plan = plan_of(j);
  c.finish = make_finish(j->spec.train.finish, j->all->finishes, {j->steps_per_epoch});
  c.first_step = j->first_step;
  c.last_step = j->last_step;
  c.steps_per_epoch = j->steps_per_epoch;
  c.eval_every = static_cast<std::uint64_t>(j->spec.eval.every);
  c.eval_packets = eval_packets(j->data->size(split::test), eval_examples(*j));
  c.batch = j->spec.data.batch;
  c.rule_states = j->all->rules.find(j->spec.train.rule.kind)->make(j->spec.train.rule.values)->states();
  return std::make_unique<coordinator>(std::move(c));
}

std::unique_ptr<role> make_loader(const job_ptr& j, role_id r) {
  loader_config c;
  c.job = j->id;
  c.self = r;
  c.graph = graph_of(j);
  c.plan = plan_of(j);
  c.data = j->data;
  c.order = make_sampler(*j, j->plan[r].worker);
  c.type = j->spec.type();
  c.first_step = j->first_step;
  c.eval_examples = eval_examples(*j);
  return std::make_unique<loader>(std::move(c));
}

std::unique_ptr<role> make_stage(const job_ptr& j, role_id r) {
  const auto& me = j->plan[r];
  stage_config c;
  c.job = j->id;
  c.self = r;
  c.worker = j->plan.workers[me.worker];
  for (const auto& stages : j->plan.stages)
    for (auto s : stages)
      if (j->plan[s].layers == me.layers) c.peers.push_back(s);
  c.graph = graph_of(j);
  c.plan = plan_of(j);
  c.slots = j->plan.sub_solvers;
  c.type = j->spec.type();
  c.seed = j->spec.seed;
  if (me.layers.size() == 1)
    if (const auto* own = j->all->stages.find(j->graph.layers[me.layers[0]].type)) return own->make(std::move(c));
  return std::make_unique<stage>(std::move(c));
}

std::unique_ptr<role> make_worker(const job_ptr& j, role_id r) {
  worker_config c;
  c.job = j->id;
  c.self = r;
  c.worker = j->plan[r].worker;
  c.graph = graph_of(j);
  c.plan = plan_of(j);
  c.mode = j->spec.train.sync.values;
  if (const auto& w = j->spec.train.when) c.when = j->all->conditions.find(w->kind)->make(w->values);
  c.type = j->spec.type();
  return j->all->modes.find(j->spec.train.sync.kind)->make_worker(std::move(c));
}

std::unique_ptr<role> make_shard(const job_ptr& j, role_id r) {
  shard_config c;
  c.job = j->id;
  c.self = r;
  c.graph = graph_of(j);
  c.plan = plan_of(j);
  c.update = j->all->rules.find(j->spec.train.rule.kind)->make(j->spec.train.rule.values);
  c.rate = make_rate(j->spec, *j->all);
  c.lr = j->spec.train.lr;
  c.decay = j->spec.train.decay;
  c.clip_value = j->spec.train.clip.value;
  c.clip_norm = j->spec.train.clip.norm;
  c.mode = j->spec.train.sync.values;
  c.type = j->spec.type();
  c.seed = j->spec.seed;
  c.first_step = j->first_step;
  auto values = std::make_shared<std::vector<tensor>>(j->graph.params.size());
  auto rule = std::make_shared<std::vector<tensors>>(j->graph.params.size());
  const auto states = c.update->states();
  for (std::size_t p = 0; p < j->graph.params.size(); ++p) {
    for (const auto& [name, value] : j->initial) {
      if (name == j->graph.params[p].full_name) (*values)[p] = value;
      for (const auto& s : states)
        if (name == j->graph.params[p].full_name + "@" + s) (*rule)[p].push_back(value);
    }
    if ((*rule)[p].size() != states.size()) (*rule)[p].clear();
  }
  c.initial = values;
  c.initial_rule = rule;
  return j->all->modes.find(j->spec.train.sync.kind)->make_shard(std::move(c));
}

// What the chosen mode cannot do, and what only the options' own code can say.
diagnostics check_training(const prepared_job& j) {
  const auto& t = j.spec.train;
  const auto* mode = j.all->modes.find(t.sync.kind);
  if (!mode) return {{t.at, "unknown mode '" + t.sync.kind + "'"}};
  if (t.when && !mode->takes_when)
    return {{position(t.key_at, "sync.when", t.at),
             "mode '" + mode->name + "' decides by itself when to exchange: it takes no 'when'"}};
  if (t.clip.norm > 0 && !mode->clips_by_norm)
    return {{position(t.key_at, "dynamics.clip.norm", t.at),
             "mode '" + mode->name + "' cannot clip by the norm over all parameters; clip by value, or use another mode"}};
  return {};
}

}  // namespace

std::variant<std::shared_ptr<prepared_job>, diagnostics> prepare_job(job_spec spec, std::shared_ptr<const tables> all,
                                                                     const std::vector<node_spec>& nodes) {
  auto j = std::make_shared<prepared_job>();
  j->spec = std::move(spec);
  j->all = std::move(all);
  const auto& d = j->spec.data;
  const auto* type = j->all->sources.find(d.source);
  if (!type) return diagnostics{{d.at, "unknown data source '" + d.source + "'"}};
  try {
    j->data = type->open(d.values, j->spec.seed);
  } catch (const option_error& e) {
    return diagnostics{{position(d.key_at, e.key, d.at), e.what()}};
  }
  auto graph = build_graph(j->spec, j->all->layers, j->data->example(), j->data->classes());
  if (auto* bad = std::get_if<diagnostics>(&graph)) return std::move(*bad);
  j->graph = std::move(std::get<model_graph>(graph));
  for (const auto& p : j->graph.params)
    if (!p.spec.trainable)
      return diagnostics{{j->spec.layers.empty() ? j->spec.at : j->graph.layers[p.layer].spec->at,
                          "layer '" + j->graph.layers[p.layer].name + "' keeps running statistics ('" + p.spec.name +
                              "'), which no sync mode folds yet"}};
  auto plan = make_plan(j->spec, j->graph, nodes, j->all->stages.types());
  if (auto* bad = std::get_if<diagnostics>(&plan)) return std::move(*bad);
  j->plan = std::move(std::get<job_plan>(plan));
  for (const auto& l : j->graph.layers)
    if (const auto* own = j->all->stages.find(l.type); own && own->check)
      if (auto wrong = own->check(j->plan, l); !wrong.empty()) return diagnostics{{l.spec->at, "layer '" + l.name + "': " + wrong}};
  if (j->data->size(split::train) < d.batch)
    return diagnostics{{position(d.key_at, "batch", d.at), "batch " + std::to_string(d.batch) +
                                                               " is larger than the training split of " +
                                                               std::to_string(j->data->size(split::train)) + " examples"}};
  j->steps_per_epoch = static_cast<std::uint64_t>(make_sampler(*j, 0)->steps_per_epoch());
  try {
    j->last_step = last_step_of(make_finish(j->spec.train.finish, j->all->finishes, {j->steps_per_epoch}));
  } catch (const option_error& e) {
    const auto& t = j->spec.train;
    return diagnostics{{position(t.key_at, "finish.custom." + e.key, t.finish.custom->at), e.what()}};
  }
  if (auto wrong = check_training(*j); !wrong.empty()) return wrong;
  return j;
}

std::unique_ptr<schedule> make_rate(const job_spec& s, const tables& all) {
  auto rate = all.schedules.find(s.train.schedule.kind)->make(s.train.schedule.values);
  rate = with_warmup(std::move(rate), static_cast<std::uint64_t>(s.train.warmup.steps), s.train.warmup.from);
  const auto batch = static_cast<double>(s.data.batch), base = static_cast<double>(s.train.base_batch);
  return scaled_by(std::move(rate), batch_factor(s.train.lr_scale, batch, base));
}

std::unique_ptr<role> make_role(const job_ptr& j, role_id r) {
  switch (j->plan[r].kind) {
    case role_kind::coordinator: return make_coordinator(j, r);
    case role_kind::loader: return make_loader(j, r);
    case role_kind::stage: return make_stage(j, r);
    case role_kind::worker: return make_worker(j, r);
    case role_kind::shard: return make_shard(j, r);
  }
  return nullptr;
}

std::vector<std::pair<std::string, tensor>> initial_weights(const prepared_job& j, device& d) {
  std::vector<std::pair<std::string, tensor>> list;
  for (const auto& p : j.graph.params) {
    auto t = tensor::allocate(d, p.spec.dims, j.spec.type());
    bool given = false;
    for (const auto& [name, value] : j.initial) {
      if (name != p.full_name) continue;
      d.copy(value, t);
      given = true;
    }
    if (!given) fill_param(d, p.spec, j.spec.seed, p.layer, p.index_in_layer, t);
    list.emplace_back(p.full_name, t);
  }
  return list;
}

std::string check_weights(const model_graph& g, const std::vector<std::pair<std::string, tensor>>& named) {
  for (const auto& p : g.params) {
    auto at = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == p.full_name; });
    if (at == named.end()) return "weights have no tensor '" + p.full_name + "'";
    if (!(at->second.dims() == p.spec.dims))
      return "tensor '" + p.full_name + "' has shape " + at->second.dims().to_string() + ", the model wants " +
             p.spec.dims.to_string();
  }
  return {};
}

}  // namespace troupe
