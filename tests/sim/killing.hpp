// Runs of placed jobs whose roles are killed and restarted while packets are in flight, and jobs
// for such runs.
#pragma once

#include "tests/sim/chain_job.hpp"
#include "tests/sim/mode_checkers.hpp"

namespace troupe::testing {

// Roles that are killed together and restarted together.
struct killing {
  std::vector<role_id> whom;
  bool node = false;  // kill the node of the first role, with all its roles
  time_point at{};
  duration down{};
};

inline std::string text_of(const std::vector<killing>& all, const job_plan& p) {
  std::string s;
  for (const auto& k : all) {
    s += std::to_string(k.at.count()) + " ns, " + (k.node ? "node of " : "");
    for (auto r : k.whom) s += p[r].name + " ";
    s += "for " + std::to_string(k.down.count()) + " ns; ";
  }
  return s;
}

inline void kill_in(sim::world& w, const std::vector<killing>& all, const job_plan& p) {
  for (const auto& k : all)
    w.at(k.at, [&w, &p, k] {
      if (k.node) w.crash(p[k.whom.front()].node);
      for (auto r : k.whom)
        if (!k.node) w.crash(r);
      w.at(w.now() + k.down, [&w, &p, k] {
        if (k.node) w.restart(p[k.whom.front()].node);
        for (auto r : k.whom)
          if (!k.node) w.restart(r);
      });
    });
}

// Returns true if the job survives when the role is killed: another role can restore its state.
inline bool mortal(const role_plan& r) {
  return !r.tester && (r.kind == role_kind::stage || r.kind == role_kind::loader || r.kind == role_kind::worker);
}

// Draws one to three killings up to `end`: of a stage, a loader, a worker sync, several of them,
// all roles of the job's pipeline on a node, or the node itself if it has no other roles. The same
// role may be killed again before it has caught up.
inline std::vector<killing> draw_killings(const job_plan& p, std::uint64_t seed, time_point end) {
  std::mt19937_64 g(seed * 6364136223846793005ull + 11);
  const auto below = [&](std::uint64_t n) { return g() % n; };
  std::vector<role_id> all, stages;
  for (const auto& r : p.roles) {
    if (mortal(r)) all.push_back(r.id);
    if (mortal(r) && r.kind == role_kind::stage) stages.push_back(r.id);
  }
  std::vector<killing> list(1 + below(3));
  for (auto& k : list) {
    k.at = time_point(1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(end.count()))));
    k.down = duration(static_cast<std::int64_t>(1000 * below(below(2) ? 3000 : 200)));
    const auto kind = below(5);
    k.whom = {kind < 2 ? stages[below(stages.size())] : all[below(all.size())]};
    const auto node = p[k.whom.front()].node;
    if (kind == 3)
      for (auto n = below(3) + 1; n > 0; --n) k.whom.push_back(all[below(all.size())]);
    if (kind < 4) continue;
    k.node = std::all_of(p.roles.begin(), p.roles.end(), [&](const role_plan& r) { return r.node != node || mortal(r); });
    k.whom.clear();
    for (auto r : all)
      if (p[r].node == node) k.whom.push_back(r);
  }
  return list;
}

// --- a pipeline whose weights are a ledger

// y = x, with one weight per packet and step: the gradient of packet p at step t is 1 at (p, t).
struct ledger_layer final : layer {
  std::int64_t steps = 1, packets = 1;
  shapes infer(const shapes& in) const override { return in; }
  signatures supported() const override { return alike({distribution::split_0, distribution::broadcast}, 1, 1); }
  param_specs params(const shapes&) const override {
    return {{.name = "weight", .dims = {steps * packets}, .filler = filler_from({}, "constant")}};
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    c.dev.copy(in[0], backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors& grad_params,
                bool accumulate) const override {
    if (wanted(grad_in, 0)) c.dev.copy(grad_out[0], backed(c.dev, grad_in[0]));
    assign_or_add(c.dev, grad_params[0], accumulate, [&](tensor& w) { enter(c, steps, w); });
  }
};

inline std::shared_ptr<const tables> ledger_tables() {
  static const auto all = [] {
    auto t = mode_tables();
    const auto count = [](const char* name) { return integer_option(name, 1, name, 1); };
    t.layers.add({.name = "ledger",
                  .doc = "",
                  .specs = {count("steps"), count("packets")},
                  .make =
                      [](const options& o) {
                        auto l = std::make_unique<ledger_layer>();
                        l->steps = o.integer("steps"), l->packets = o.integer("packets");
                        return l;
                      },
                  .cases = {},
                  .min_inputs = 1,
                  .max_inputs = 1});
    return std::make_shared<const tables>(std::move(t));
  }();
  return all;
}

// Nodes for the chain of chain_job.hpp. The coordinator and the shards are on an extra node, so
// that any node of the chain may be killed.
inline std::vector<node_spec> apart_nodes(std::uint32_t chain) {
  auto list = chain_nodes(chain + 1);
  for (std::uint32_t i = 0; i < chain; ++i) list[i].roles = {"worker"};
  list.back().roles = {"coordinator", "server", "data"};
  return list;
}

inline std::shared_ptr<prepared_job> ledger_chain(const chain_shape& c) {
  auto spec = chain_spec(c);
  const auto& t = *ledger_tables();
  const auto sizes = with({{"steps", static_cast<std::int64_t>(c.steps)}, {"packets", static_cast<std::int64_t>(c.packets)}});
  auto flat = spec.layers.front();
  flat.name = "flat";
  flat.type = "flatten";
  flat.values = checked({}, t.layers.find("flatten")->specs);
  spec.layers.front().inputs = {"flat"};
  for (auto& l : spec.layers)
    if (l.type == "linear") l.type = "ledger", l.values = check_options(sizes, t.layers.find("ledger")->specs);
  spec.layers.insert(spec.layers.begin(), flat);
  spec.train.rule = {"sgd", check_options({}, t.rules.find("sgd")->specs), {}};
  spec.train.lr = -static_cast<double>(c.packets);
  spec.train.decay = 0;
  auto made = prepare_job(std::move(spec), ledger_tables(), chain_nodes(nodes_of(c)));
  if (!made) {
    for (const auto& d : made.error()) ADD_FAILURE() << d.to_string();
    return nullptr;
  }
  auto j = *made;
  j->restarts = true;
  return j;
}

inline chain_shape draw_chain(std::uint64_t seed) {
  std::mt19937_64 g(seed * 2862933555777941757ull + 5);
  const auto draw = [&](std::uint64_t least, std::uint64_t most) {
    return static_cast<std::uint32_t>(least + g() % (most - least + 1));
  };
  chain_shape c;
  c.replicas.clear();
  for (auto n = draw(2, 4); n > 0; --n) c.replicas.push_back(g() % 4 == 0 ? 2 : 1);
  c.packets = 1u << draw(*std::max_element(c.replicas.begin(), c.replicas.end()) - 1, 3);
  c.sub_solvers = draw(1, 3);
  c.steps = draw(3, 8);
  c.eval_every = draw(0, 3);
  c.fuse = g() % 2 ? "auto" : "none";
  c.shards = draw(1, 2);
  return c;
}

// Returns the job's reports of every step and every evaluation, without durations.
inline std::string announced(const run_result& r) {
  std::ostringstream s;
  s.precision(17);
  for (const auto& e : r.events) {
    if (!e.is<step_event>() && !e.is<eval_event>()) continue;
    s << name_of(e).name << " " << e.step;
    for (const auto& [name, value] : flatten(e).values)
      if (name != "examples_per_s" && name != "step_seconds" && name != "seconds") s << " " << name << " " << value;
    s << "\n";
  }
  return s.str();
}

inline std::string differs(const run_result& got, const run_result& want) {
  if (got.weights.size() != want.weights.size() || got.weights.empty()) return "no weights";
  if (got.bytes() != want.bytes()) return "weights differ from those of the undisturbed run";
  return announced(got) == announced(want)
             ? ""
             : "losses differ from those of the undisturbed run:\n" + announced(got) + "and not\n" + announced(want);
}

}  // namespace troupe::testing
