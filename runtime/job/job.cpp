#include "runtime/job/job.hpp"

#include <algorithm>
#include <optional>

#include "ops/device.hpp"
#include "ops/filler.hpp"
#include "runtime/graph/plan_check.hpp"
#include "runtime/pipeline/carried.hpp"
#include "runtime/pipeline/coordinator.hpp"
#include "runtime/pipeline/data_server.hpp"
#include "runtime/pipeline/gather_stage.hpp"
#include "runtime/pipeline/joint_stage.hpp"
#include "runtime/pipeline/loader.hpp"
#include "runtime/pipeline/lost_role.hpp"
#include "runtime/pipeline/stage.hpp"
#include "runtime/pipeline/tester.hpp"
#include "runtime/reduce/reducer.hpp"
#include "runtime/sync/mode_host.hpp"

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

split eval_split(const prepared_job& j) { return j.spec.eval.on_training ? split::train : split::test; }

std::unique_ptr<eval_sampler> make_eval_sampler(const prepared_job& j) {
  const auto& s = j.spec.eval.sampler;
  return j.all->eval_samplers.find(s.kind)->make(s.values,
                                                 {j.spec.seed, j.data->size(eval_split(j)), eval_examples(j) * j.plan.packets});
}

// `seed` is an argument because a loader that is sent a seed for each step (sampler `seeded`) is built without the job's.
std::unique_ptr<sampler> make_sampler(const prepared_job& j, std::uint32_t worker, std::uint64_t seed) {
  const auto* type = j.all->samplers.find(j.spec.data.sampler.kind);
  sampler_config c;
  c.seed = seed;
  c.examples = j.data->size(split::train);
  c.batch = j.spec.data.batch;
  c.worker = worker;
  c.workers = static_cast<std::uint32_t>(std::max<std::size_t>(1, j.plan.ranges.size()));
  const auto n = j.graph.packet_examples;
  for (const auto& r : j.plan.ranges) c.shares.push_back({r.first * n, r.count * n});
  return type->make(j.spec.data.sampler.values, c);
}

std::shared_ptr<const model_graph> graph_of(const job_ptr& j) { return {j, &j->graph}; }
std::shared_ptr<const job_plan> plan_of(const job_ptr& j) { return {j, &j->plan}; }

reading_config reading_of(const job_ptr& j) {
  reading_config c;
  c.graph = graph_of(j);
  c.data = j->data;
  c.augment = j->augment;
  c.type = j->spec.type();
  c.eval = make_eval_sampler(*j);
  c.eval_split = eval_split(*j);
  c.eval_examples = eval_examples(*j);
  return c;
}

mode_facts facts_of(const sync_mode& m, const options& o);
std::optional<mode_facts> find_mode(const prepared_job& j, const std::string& name,
                                    const std::vector<std::pair<std::string, std::string>>& given, std::string& error);

std::unique_ptr<role> make_coordinator(const job_ptr& j, role_id r) {
  coordinator_config c;
  c.job = j->id;
  c.self = r;
  c.graph = graph_of(j);
  c.plan = plan_of(j);
  c.finish = make_finish(j->spec.train.finish, j->all->finishes, {j->steps_per_epoch});
  if (j->before && j->before->finish && !j->before->finish->empty()) c.finish = std::move(*j->before->finish);
  c.before = j->before;
  c.first_step = j->first_step;
  c.last_step = j->last_step;
  c.steps_per_epoch = j->steps_per_epoch;
  c.eval_every = static_cast<std::uint64_t>(j->spec.eval.every);
  c.eval_packets = eval_packets(make_eval_sampler(*j)->examples(), eval_examples(*j));
  c.batch = j->spec.data.batch;
  c.window = j->plan.window();
  c.keeps = j->keeps();
  c.rule_states = j->all->rules.find(j->spec.train.rule.kind)->make(j->spec.train.rule.values)->states();
  c.any_worker_ends = j->spec.train.finish.who == "any";
  c.mode = facts_of(*j->all->modes.find(j->spec.train.sync.kind), j->spec.train.sync.values);
  c.find_mode = [j](const auto& name, const auto& options, std::string& error) { return find_mode(*j, name, options, error); };
  return std::make_unique<coordinator>(std::move(c));
}

std::unique_ptr<role> make_loader(const job_ptr& j, role_id r, std::uint32_t incarnation) {
  loader_config c;
  c.job = j->id;
  c.self = r;
  c.plan = plan_of(j);
  c.read = reading_of(j);
  c.first_step = j->first_step;
  if (j->plan[r].tester) return std::make_unique<loader>(std::move(c));
  c.how = j->spec.data.how;
  c.order = make_sampler(*j, j->plan[r].worker, c.how == delivery::seeds ? 0 : j->spec.seed);
  c.dynamic = j->all->modes.find(j->spec.train.sync.kind)->portions;
  c.await_resume = incarnation > 0;
  c.incarnation = incarnation;
  c.keeps = j->keeps();
  return std::make_unique<loader>(std::move(c));
}

std::unique_ptr<role> make_data_server(const job_ptr& j, role_id r) {
  data_server_config c;
  c.job = j->id;
  c.self = r;
  c.plan = plan_of(j);
  c.read = reading_of(j);
  c.how = j->spec.data.how;
  c.order = [j](std::uint32_t worker) { return make_sampler(*j, worker, j->spec.seed); };
  return std::make_unique<data_server>(std::move(c));
}

// What the stage's packets begin with, where a checkpoint has it.
void set_carried(const prepared_job& j, const role_plan& me, stage_config& c) {
  if (!j.graph.carries() || me.tester || j.continued) return;
  for (auto k = me.packets.first; k < me.packets.first + me.packets.count; ++k)
    for (auto l : me.layers) c.carried[k].push_back(carried_from(j.initial, j.graph.layers[l], k));
}

std::unique_ptr<role> make_stage(const job_ptr& j, role_id r, std::uint32_t incarnation) {
  const auto& me = j->plan[r];
  stage_config c;
  c.job = j->id;
  c.self = r;
  c.worker = me.tester ? j->plan.tester : j->plan.workers[me.worker];
  for (const auto& stages : j->plan.stages)
    for (auto s : stages)
      if (j->plan[s].layers == me.layers) c.peers.push_back(s);
  c.graph = graph_of(j);
  c.plan = plan_of(j);
  c.slots = me.tester ? 1 : me.slots;
  c.first_step = j->first_step;
  c.await_carried = j->continued;
  set_carried(*j, me, c);
  c.type = j->spec.type();
  c.seed = j->spec.seed;
  c.keeps = j->keeps() && !me.tester;
  c.incarnation = incarnation;
  if (me.layers.size() == 1) {
    const auto& l = j->graph.layers[me.layers[0]];
    if (const auto* own = j->all->stages.find(l.type)) return own->make(std::move(c));
    if (l.maths->joint() && !me.tester) return std::make_unique<joint_stage>(std::move(c));
  }
  const auto gathers = [&](std::uint32_t l) { return j->graph.layers[l].gather; };
  if (!me.tester && std::any_of(me.layers.begin(), me.layers.end(), gathers)) return std::make_unique<gather_stage>(std::move(c));
  return std::make_unique<stage>(std::move(c));
}

std::unique_ptr<role> make_tester(const job_ptr& j, role_id r, std::uint32_t incarnation) {
  return std::make_unique<tester>(tester_config{j->id, r, graph_of(j), plan_of(j), j->spec.parameter_type(), incarnation});
}

std::unique_ptr<role> make_reducer(const job_ptr& j, role_id r, std::uint32_t incarnation) {
  return std::make_unique<tree_reducer>(reducer_config{j->id, r, j->plan[r].worker, plan_of(j), j->first_step, incarnation});
}

// What goes down with this role and cannot be had from anybody else; empty: it comes back.
std::string gone_with(const prepared_job& j, role_id r) {
  const auto& me = j.plan[r];
  if (me.kind == role_kind::coordinator) return "what it knew of the job is gone";
  if (me.kind == role_kind::shard) return "its parameters are gone";
  // The stage of an actor-based or joint layer has been told things about the step by the same stage of other workers, which will
  // not say them again.
  if (me.kind == role_kind::stage && !me.tester && me.layers.size() == 1 && j.plan.workers.size() > 1 &&
      (j.all->stages.find(j.graph.layers[me.layers[0]].type) || j.graph.layers[me.layers[0]].maths->joint()))
    return "what its peers had told it is gone";
  if (j.graph.carries() && !me.tester &&
      (me.kind == role_kind::stage || me.kind == role_kind::loader || me.kind == role_kind::worker))
    return "the state that its lanes carried is gone";
  // Packets cross nodes where layers are placed: unless all keep what they sent, nobody sends again what was on its way through this one.
  const bool on_the_way = me.kind == role_kind::stage || me.kind == role_kind::loader || me.kind == role_kind::worker;
  if (j.plan.placed && !j.keeps() && on_the_way && !me.tester) return "the packets that were under way there are gone";
  return {};
}

// What the shards begin with: given weights and states of the rule, by parameter.
void set_initial(const prepared_job& j, half_config& c) {
  auto values = std::make_shared<std::vector<tensor>>(j.graph.params.size());
  auto rule = std::make_shared<std::vector<tensors>>(j.graph.params.size());
  const auto states = c.update->states();
  for (std::size_t p = 0; p < j.graph.params.size(); ++p) {
    for (const auto& [name, value] : j.initial) {
      if (name == j.graph.params[p].full_name) (*values)[p] = value;
      for (const auto& s : states)
        if (name == j.graph.params[p].full_name + "@" + s) (*rule)[p].push_back(value);
    }
    if ((*rule)[p].size() != states.size()) (*rule)[p].clear();
  }
  c.initial = values;
  c.initial_rule = rule;
}

// A worker's or a shard's half of the job's mode.
std::unique_ptr<role> make_half(const job_ptr& j, role_id r, std::uint32_t incarnation) {
  const auto& t = j->spec.train;
  half_config c;
  c.job = j->id;
  c.self = r;
  c.worker = j->plan[r].worker;
  c.graph = graph_of(j);
  c.plan = plan_of(j);
  c.update = j->all->rules.find(t.rule.kind)->make(t.rule.values);
  c.rate = make_rate(j->spec, *j->all);
  c.lr = t.lr;
  c.decay = t.decay;
  c.clip_value = t.clip.value;
  c.clip_norm = t.clip.norm;
  if (t.when && j->plan[r].kind == role_kind::worker) c.when = j->all->conditions.find(t.when->kind)->make(t.when->values);
  c.mode = t.sync.values;
  c.type = j->spec.parameter_type();
  c.seed = j->spec.seed;
  c.first_step = j->first_step;
  c.incarnation = incarnation;
  c.keeps = j->keeps();
  c.continued = j->continued;
  if (j->plan[r].kind == role_kind::shard && !c.continued) set_initial(*j, c);
  return std::make_unique<mode_host>(std::move(c), j->all->modes, t.sync.kind);
}

mode_facts facts_of(const sync_mode& m, const options& o) {
  mode_facts f;
  f.name = m.name;
  f.options = options_to_text(o);
  f.lockstep = m.lockstep;
  if (m.portions) f.portion = static_cast<std::uint32_t>(o.integer("portion"));
  return f;
}

// What layers that keep statistics, or whose packets compute together, want of a mode (with these options); empty: it does.
std::string wrong_for_statistics(const prepared_job& j, const sync_mode& m, const options& o) {
  for (const auto& l : j.graph.layers)
    if ((l.maths->joint() || l.gather) && l.in_train && (!m.lockstep || m.portions))
      return "mode '" + m.name +
             "' has workers at different steps, or portions of one: the packets of a step cannot compute layer '" + l.name +
             "' together (mode bsp can)";
  for (const auto& p : j.graph.params)
    if (auto why = p.spec.trainable || !m.no_statistics ? "" : m.no_statistics(o, j.plan); !why.empty())
      return "mode '" + m.name + "' cannot keep the running statistics of layer '" + j.graph.layers[p.layer].name + "' ('" +
             p.spec.name + "'): " + why;
  return {};
}

// A mode that a person asks for while the job runs.
std::optional<mode_facts> find_mode(const prepared_job& j, const std::string& name,
                                    const std::vector<std::pair<std::string, std::string>>& given, std::string& error) {
  const auto* m = j.all->modes.find(name);
  if (!m) {
    error = "unknown mode '" + name + "' (there is:";
    for (const auto& n : j.all->modes.names()) error += " " + n;
    error += ")";
    return std::nullopt;
  }
  if (j.plan.placed && !m->places) {
    error = "mode " + name + " needs every layer beside every worker: this job has placed layers";
    return std::nullopt;
  }
  if (j.plan.rule != weight_rule::drain) {
    error = "with weights = \"" + j.spec.pipeline.weights + "\" the mode is fixed";
    return std::nullopt;
  }
  try {
    const auto o = options_from_text(given, m->specs);
    if (m->check) m->check(o, j.spec, j.plan);
    error = wrong_for_statistics(j, *m, o);
    if (!error.empty()) return std::nullopt;
    return facts_of(*m, o);
  } catch (const option_error& e) {
    error = "mode " + name + ": " + e.what();
    return std::nullopt;
  }
}

// Does the mode suit the job? Else where in the file and why.
std::optional<diagnostic> check_mode(const prepared_job& j) {
  const auto& t = j.spec.train;
  const auto* m = j.all->modes.find(t.sync.kind);
  if (!m) return diagnostic{t.sync.at, "unknown mode '" + t.sync.kind + "'"};
  if (t.when && !m->takes_when)
    return diagnostic{position(t.key_at, "sync.when", t.at),
                      "mode '" + m->name + "' decides by itself when to exchange: it takes no 'when'"};
  if (t.clip.norm > 0 && !m->clips_by_norm)
    return diagnostic{position(t.key_at, "dynamics.clip.norm", t.at),
                      "mode '" + m->name + "' cannot clip by the norm over all parameters; clip by value, or use another mode"};
  if (j.plan.placed && !m->places) {
    std::string with;
    for (const auto& name : j.all->modes.names())
      if (j.all->modes.find(name)->places) with += (with.empty() ? "" : ", ") + name;
    return diagnostic{t.sync.at,
                      "mode '" + m->name +
                          "' needs every layer beside every worker, and this job places or splits some (modes that can: " + with +
                          ")"};
  }
  if (j.plan.rule != weight_rule::drain && !m->delays)
    return diagnostic{position(j.spec.pipeline.key_at, "weights", j.spec.pipeline.at),
                      "weights = \"" + j.spec.pipeline.weights + "\" needs mode bsp: mode '" + m->name +
                          "' has its own idea of which weights a step may use"};
  if (auto wrong = wrong_for_statistics(j, *m, t.sync.values); !wrong.empty()) return diagnostic{t.sync.at, wrong};
  if (m->portions && make_sampler(j, 0, j.spec.seed)->by_worker())
    return diagnostic{j.spec.data.sampler.at, "sampler '" + j.spec.data.sampler.kind +
                                                  "' gives each worker its own examples; mode '" + m->name +
                                                  "' deals packets to whoever is free"};
  try {
    if (m->check) m->check(t.sync.values, j.spec, j.plan);
  } catch (const option_error& e) {
    auto at = position(t.key_at, "sync." + e.key, t.sync.at);
    if (e.key.starts_with("topology"))
      at = position(j.spec.topology.key_at, e.key.size() > 9 ? e.key.substr(9) : "", j.spec.topology.at);
    else if (e.key.starts_with("exchange"))
      at = position(t.key_at, e.key, t.at);
    return diagnostic{at, e.what()};
  }
  return std::nullopt;
}

// Readers beside one another: as the file says; else one where reading is copying, and where it decodes one for each device of the
// best node, within bounds.
std::uint32_t readers_of(const prepared_job& j) {
  constexpr std::size_t least = 2, most = 8;
  if (j.spec.data.readers > 0) return static_cast<std::uint32_t>(j.spec.data.readers);
  if (!j.data->decodes()) return 1;
  std::size_t devices = 0;
  for (const auto& n : j.nodes) devices = std::max(devices, n.devices.size());
  return static_cast<std::uint32_t>(std::clamp(devices, least, most));
}

// Does everything suit layers that carry state?
std::optional<diagnostic> check_carries(const prepared_job& j) {
  if (!j.graph.carries()) return std::nullopt;
  const auto& s = j.spec.data.sampler;
  if (!make_sampler(j, 0, j.spec.seed)->keeps_lanes())
    return diagnostic{s.at, "algorithm = \"bptt\" carries state from step to step, but with sampler '" + s.kind +
                                "' an example does not go on where the one before it stopped; sampler 'lanes' sees to that"};
  if (const auto& mode = *j.all->modes.find(j.spec.train.sync.kind); mode.portions)
    return diagnostic{j.spec.train.sync.at, "algorithm = \"bptt\" keeps the state of a lane with its worker; mode '" + mode.name +
                                                "' deals packets to whoever is free"};
  return std::nullopt;
}

// Layers with a will of their own talk to their likes on all workers, and have none at a tester.
plan_options options_of_plan(const prepared_job& j) {
  plan_options o;
  o.own_stage = j.all->stages.types();
  o.readers = readers_of(j);
  o.rule_states =
      static_cast<std::uint32_t>(j.all->rules.find(j.spec.train.rule.kind)->make(j.spec.train.rule.values)->states().size());
  try {
    o.tester = j.all->eval_samplers.find(j.spec.eval.sampler.kind) && make_eval_sampler(j)->examples() > 0;
  } catch (const option_error&) {
    o.tester = false;  // check_samplers says what is wrong
  }
  for (const auto& l : j.graph.layers) o.tester = o.tester && !o.own_stage.count(l.type);
  return o;
}

// Every layer, input and parameter of the plan once: whoever is about to run it does not take the planner's word for that.
diagnostics whole_or_not(const prepared_job& j) {
  diagnostics wrong;
  for (const auto& f : check_plan(j.plan, j.graph)) {
    const auto* of = f.layer < 0 ? nullptr : j.graph.layers[static_cast<std::size_t>(f.layer)].spec;
    wrong.push_back({of ? of->at : j.spec.at, "the plan is refused: " + f.text});
  }
  return wrong;
}

// What only the opened data can tell about [data] augment.
std::optional<diagnostic> add_augmentation(prepared_job& j) {
  const auto& d = j.spec.data;
  if (!d.augment) return std::nullopt;
  try {
    j.augment = std::make_shared<const augmentation>(*d.augment, j.data->example(), j.data->ids(), j.spec.seed);
  } catch (const option_error& e) {
    const auto at = position(d.key_at, "augment", d.at);
    return diagnostic{position(d.key_at, "augment." + e.key, at), "[data.augment]: " + std::string(e.what())};
  }
  return std::nullopt;
}

// What only the data's size can tell about the samplers of training and of evaluation.
std::optional<diagnostic> check_samplers(const prepared_job& j) {
  const auto& d = j.spec.data;
  const auto& e = j.spec.eval;
  try {
    if (make_sampler(j, 0, j.spec.seed)->steps_per_epoch() < 1) return diagnostic{d.sampler.at, "an epoch has no whole step"};
  } catch (const option_error& x) {
    return diagnostic{d.sampler.at, "sampler '" + d.sampler.kind + "': " + x.what()};
  }
  if (!j.all->eval_samplers.find(e.sampler.kind))
    return diagnostic{e.sampler.at, "unknown evaluation sampler '" + e.sampler.kind + "'"};
  try {
    make_eval_sampler(j);
  } catch (const option_error& x) {
    return diagnostic{position(e.key_at, "sampler." + x.key, e.sampler.at), "[eval] sampler: " + std::string(x.what())};
  }
  const auto packets = j.spec.pipeline.packets;
  if (e.batch % packets != 0)
    return diagnostic{position(e.key_at, "batch", e.at), "packets must divide the batch of [eval] too: " + std::to_string(e.batch) +
                                                             " examples, " + std::to_string(packets) + " packets"};
  return std::nullopt;
}

}  // namespace

std::variant<std::shared_ptr<prepared_job>, diagnostics> prepare_job(job_spec spec, std::shared_ptr<const tables> all,
                                                                     const std::vector<node_spec>& nodes,
                                                                     std::shared_ptr<const source> opened) {
  auto j = std::make_shared<prepared_job>();
  j->spec = std::move(spec);
  j->all = std::move(all);
  j->nodes = nodes;
  j->data = std::move(opened);
  const auto& d = j->spec.data;
  const auto* type = j->all->sources.find(d.source);
  if (!type) return diagnostics{{d.at, "unknown data source '" + d.source + "'"}};
  try {
    if (!j->data) j->data = type->open(d.values, j->spec.seed);
  } catch (const option_error& e) {
    return diagnostics{{position(d.key_at, e.key, d.at), e.what()}};
  }
  if (auto wrong = add_augmentation(*j)) return diagnostics{*wrong};
  const auto example = j->augment ? j->augment->example() : j->data->example();
  auto graph = build_graph(j->spec, j->all->layers, example, j->data->classes(), j->data->label(), j->data->ids());
  if (auto* bad = std::get_if<diagnostics>(&graph)) return std::move(*bad);
  j->graph = std::move(std::get<model_graph>(graph));
  const auto* order = j->all->samplers.find(d.sampler.kind);
  if (!order) return diagnostics{{d.sampler.at, "unknown sampler '" + d.sampler.kind + "'"}};
  j->spec.data.how = order->how;
  auto plan = make_plan(j->spec, j->graph, nodes, options_of_plan(*j));
  if (auto* bad = std::get_if<diagnostics>(&plan)) return std::move(*bad);
  j->plan = std::move(std::get<job_plan>(plan));
  if (auto wrong = whole_or_not(*j); !wrong.empty()) return wrong;
  if (auto wrong = check_mode(*j)) return diagnostics{*wrong};
  for (const auto& l : j->graph.layers) {
    if (!l.in_train) continue;
    if (auto wrong = joint_stage::check(j->plan, l); !wrong.empty())
      return diagnostics{{l.spec->at, "layer '" + l.name + "': " + wrong}};
    if (auto wrong = gather_stage::check(j->plan, l); !wrong.empty())
      return diagnostics{{position(l.spec->key_at, "gather", l.spec->at), "layer '" + l.name + "': " + wrong}};
  }
  for (const auto& l : j->graph.layers)
    if (const auto* own = j->all->stages.find(l.type); own && own->check)
      if (auto wrong = own->check(j->plan, l); !wrong.empty()) return diagnostics{{l.spec->at, "layer '" + l.name + "': " + wrong}};
  if (j->data->size(split::train) < d.batch)
    return diagnostics{{position(d.key_at, "batch", d.at), "batch " + std::to_string(d.batch) +
                                                               " is larger than the training split of " +
                                                               std::to_string(j->data->size(split::train)) + " examples"}};
  if (auto wrong = check_samplers(*j)) return diagnostics{*wrong};
  if (auto wrong = check_carries(*j)) return diagnostics{*wrong};
  j->plan.eval_lanes = j->graph.carries() && make_eval_sampler(*j)->keeps_lanes();
  j->steps_per_epoch = static_cast<std::uint64_t>(make_sampler(*j, 0, j->spec.seed)->steps_per_epoch());
  try {
    j->last_step = last_step_of(make_finish(j->spec.train.finish, j->all->finishes, {j->steps_per_epoch}));
  } catch (const option_error& e) {
    const auto& t = j->spec.train;
    return diagnostics{{position(t.key_at, "finish.custom." + e.key, t.finish.custom->at), e.what()}};
  }
  return j;
}

std::unique_ptr<schedule> make_rate(const job_spec& s, const tables& all) {
  auto rate = all.schedules.find(s.train.schedule.kind)->make(s.train.schedule.values);
  rate = with_warmup(std::move(rate), static_cast<std::uint64_t>(s.train.warmup.steps), s.train.warmup.from);
  const auto batch = static_cast<double>(s.data.batch), base = static_cast<double>(s.train.base_batch);
  return scaled_by(std::move(rate), batch_factor(s.train.lr_scale, batch, base));
}

std::unique_ptr<role> make_role(const job_ptr& j, role_id r, std::uint32_t incarnation) {
  if (incarnation > 0)
    if (auto gone = gone_with(*j, r); !gone.empty()) return std::make_unique<lost_role>(j->id, r, plan_of(j), std::move(gone));
  switch (j->plan[r].kind) {
    case role_kind::coordinator: return make_coordinator(j, r);
    case role_kind::loader: return make_loader(j, r, incarnation);
    case role_kind::stage: return make_stage(j, r, incarnation);
    case role_kind::worker:
    case role_kind::shard: return make_half(j, r, incarnation);
    case role_kind::reducer: return make_reducer(j, r, incarnation);
    case role_kind::tester: return make_tester(j, r, incarnation);
    case role_kind::data_server: return make_data_server(j, r);
  }
  return nullptr;
}

std::vector<std::pair<std::string, tensor>> initial_weights(const prepared_job& j, device& d) {
  std::vector<std::pair<std::string, tensor>> list;
  for (const auto& p : j.graph.params) {
    auto t = tensor::allocate(d, p.spec.dims, j.spec.parameter_type());
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
