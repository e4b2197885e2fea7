// make_role(): constructs the roles of a plan.
#include <algorithm>
#include <utility>

#include "runtime/coordinator/coordinator.hpp"
#include "runtime/job/divergence.hpp"
#include "runtime/job/job.hpp"
#include "runtime/job/job_data.hpp"
#include "runtime/job/job_mode.hpp"
#include "runtime/job/job_rule.hpp"
#include "runtime/loader/data_server.hpp"
#include "runtime/loader/loader.hpp"
#include "runtime/reduce/sum_reducer.hpp"
#include "runtime/stage/gather_stage.hpp"
#include "runtime/stage/joint_stage.hpp"
#include "runtime/stage/stage.hpp"
#include "runtime/stage/tester.hpp"
#include "runtime/sync/mode_host.hpp"
#include "runtime/sync/replica.hpp"

namespace troupe {
namespace {

using job_ptr = std::shared_ptr<const prepared_job>;

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

std::unique_ptr<role> make_coordinator(const job_ptr& j, role_id r) {
  coordinator_config c;
  c.job = j->id;
  c.self = r;
  c.graph = graph_of(j);
  c.plan = plan_of(j);
  c.finish = make_finish(j->spec.train.finish, j->all->finishes, {j->steps_per_epoch});
  if (j->before) recall(c.finish, j->before->finish);
  if (const auto& s = j->spec.train.schedule; s.kind == rate_plateau::name) {
    c.plateau.emplace(s.values);
    if (j->before)
      if (const auto at = j->before->finish.find(rate_plateau::name); at != j->before->finish.end()) c.plateau->recall(at->second);
  }
  c.before = j->before;
  c.first_step = j->first_step;
  c.last_step = j->last_step;
  c.steps_per_epoch = j->steps_per_epoch;
  c.eval_every = static_cast<std::uint64_t>(j->spec.eval.every);
  c.eval_packets = eval_packets(make_eval_sampler(*j)->examples(), eval_examples(*j));
  c.max_skipped = static_cast<std::uint64_t>(j->spec.train.max_skipped);
  c.checkpoints = {static_cast<std::uint64_t>(j->spec.checkpoint.every_steps), j->spec.checkpoint.every_seconds};
  c.batch = j->spec.data.batch;
  c.window = j->plan.window();
  c.keeps_best = j->keeps_best;
  c.histograms_every = j->histograms_every;
  c.rule_states = make_rule(*j)->states();
  if (keeps_average(j->spec)) {
    const auto& a = j->spec.train.average;
    c.average = {a.evaluate != "weights" && j->plan.tester != no_role, a.evaluate != "average", a.write == "average"};
  }
  c.type = j->spec.parameter_type();
  c.any_worker_ends = j->spec.train.finish.who == "any";
  c.mode = facts_of(*j->all->modes.find(j->spec.train.sync.kind), j->spec.train.sync.values);
  c.reducer = j->spec.train.reducer;
  c.base_lr = j->spec.train.lr;
  c.rate = make_rate(j->spec, *j->all);
  c.if_diverged = divergence_advice(j->spec);
  c.find_mode = [j](const auto& name, const auto& options) { return find_mode(*j, name, options); };
  return std::make_unique<coordinator>(std::move(c));
}

std::unique_ptr<role> make_loader(const job_ptr& j, role_id r) {
  loader_config c;
  c.job = j->id;
  c.self = r;
  c.plan = plan_of(j);
  c.read = reading_of(j);
  c.first_step = j->first_step;
  if (j->plan[r].tester) return std::make_unique<loader>(std::move(c));
  c.how = j->spec.data.how;
  c.order = make_sampler(*j, j->plan[r].worker, c.how == delivery::seeds ? 0 : j->spec.seed);
  c.dynamic = j->all->modes.find(j->spec.train.sync.kind)->work_units;
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

// The same stage on every worker. Only stages that exchange messages with each other get this list,
// because all lists together grow with the square of the number of workers.
std::vector<role_id> peers_of(const job_plan& p, const role_plan& me) {
  std::vector<role_id> peers;
  for (const auto& stages : p.stages)
    for (auto s : stages)
      if (p[s].layers == me.layers) peers.push_back(s);
  return peers;
}

std::unique_ptr<role> make_stage(const job_ptr& j, role_id r) {
  const auto& me = j->plan[r];
  stage_config c;
  c.job = j->id;
  c.self = r;
  c.worker = me.tester ? j->plan.tester : j->plan.workers[me.worker];
  c.graph = graph_of(j);
  c.plan = plan_of(j);
  c.slots = me.tester ? 1 : me.slots;
  c.first_step = j->first_step;
  c.await_carried = j->continued;
  c.type = j->spec.type();
  c.eval_examples = eval_examples(*j);
  c.seed = j->spec.seed;
  if (me.layers.size() == 1) {
    const auto& l = j->graph.layers[me.layers[0]];
    const auto* own = j->all->stages.find(l.type);
    if (own || l.maths->joint()) c.peers = peers_of(j->plan, me);
    if (own) return own->make(std::move(c));
    if (l.maths->joint() && !me.tester) return std::make_unique<joint_stage>(std::move(c));
  }
  const auto gathers = [&](std::uint32_t l) { return j->graph.layers[l].gather; };
  if (!me.tester && std::any_of(me.layers.begin(), me.layers.end(), gathers)) return std::make_unique<gather_stage>(std::move(c));
  return std::make_unique<stage>(std::move(c));
}

std::unique_ptr<role> make_tester(const job_ptr& j, role_id r) {
  return std::make_unique<tester>(tester_config{j->id, r, graph_of(j), plan_of(j), j->spec.parameter_type()});
}

std::unique_ptr<role> make_reducer(const job_ptr& j, role_id r) {
  reducer_config c{j->id, r, plan_of(j), j->first_step, j->spec.parameter_type()};
  const auto& entry = *j->all->reducers.find(j->spec.train.reducer);
  return entry.make ? entry.make(std::move(c)) : std::make_unique<sum_reducer>(std::move(c));
}

// Makes the sync role (worker sync or shard sync) of the job's mode.
std::unique_ptr<role> make_sync(const job_ptr& j, role_id r) {
  const auto& t = j->spec.train;
  const bool owns = j->plan[r].does().owns_parameters;
  sync_config c;
  c.job = j->id;
  c.self = r;
  c.worker = j->plan[r].worker;
  c.graph = graph_of(j);
  c.plan = plan_of(j);
  c.update = make_rule(*j);
  c.rate = make_rate(j->spec, *j->all);
  c.lr = t.lr;
  c.decay = t.decay;
  c.decay_l1 = t.decay_l1;
  c.clip_value = t.clip.value;
  c.clip_norm = t.clip.norm;
  c.max_skipped = t.max_skipped;
  if (t.when && !owns) c.when = j->all->conditions.find(t.when->kind)->make(t.when->values);
  c.mode = t.sync.values;
  c.type = j->spec.parameter_type();
  c.seed = j->spec.seed;
  c.first_step = j->first_step;
  c.outlives = j->outlives_nodes();
  c.continued = j->continued;
  return std::make_unique<mode_host>(std::move(c), j->all->modes, t.sync.kind);
}

std::unique_ptr<role> make_replica(const job_ptr& j, role_id r) {
  return std::make_unique<replica>(replica_config{j->id, r, plan_of(j), make_rule(*j)->states().size(), j->spec.parameter_type()});
}

// A kind of role and the function that constructs it.
struct casting_descriptor {
  role_kind kind;
  std::unique_ptr<role> (*make)(const job_ptr& j, role_id r);
};
constexpr casting_descriptor cast[] = {
    {role_kind::coordinator, make_coordinator},
    {role_kind::loader, make_loader},
    {role_kind::stage, make_stage},
    {role_kind::worker, make_sync},
    {role_kind::shard, make_sync},
    {role_kind::reducer, make_reducer},
    {role_kind::tester, make_tester},
    {role_kind::data_server, make_data_server},
    {role_kind::replica, make_replica},
};

}  // namespace

std::unique_ptr<role> make_role(const job_ptr& j, role_id r) {
  for (const auto& entry : cast)
    if (entry.kind == j->plan[r].kind) return entry.make(j, r);
  return nullptr;
}

}  // namespace troupe
