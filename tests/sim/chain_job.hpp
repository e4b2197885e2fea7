// A chain of fully connected layers over nodes, as a pipeline: stage i has replicas that share the
// packets of a step.
#pragma once

#include "tests/sim/small_job.hpp"

namespace troupe::testing {

struct chain_shape {
  std::vector<std::uint32_t> replicas{1, 1, 1, 1};  // by stage; each replica is on its own node
  std::string weights = "stash";
  std::uint32_t packets = 1, sub_solvers = 1;
  std::uint64_t steps = 12;
  std::int64_t eval_every = 0;
  std::string rule = "momentum", precision = "f64", fuse = "none";
  std::int64_t width = 10;
  std::uint32_t shards = 1;
};

inline std::uint32_t nodes_of(const chain_shape& c) {
  std::uint32_t n = 0;
  for (auto r : c.replicas) n += r;
  return n;
}

inline std::vector<node_spec> chain_nodes(std::uint32_t count) {
  std::vector<node_spec> list(count);
  for (std::uint32_t i = 0; i < count; ++i) list[i].name = "n" + std::to_string(i + 1);
  return list;
}

// Layers "a0", "a1", ...: one with parameters per stage, with a relu between them. `placed` =
// false: the same net colocated with one worker.
inline job_spec chain_spec(const chain_shape& c, bool placed = true) {
  shape_of_job s;
  s.packets = c.packets;
  s.sub_solvers = c.sub_solvers;
  s.fuse = c.fuse;
  s.steps = c.steps;
  s.eval_every = c.eval_every;
  s.rule = c.rule;
  s.shards = c.shards;
  auto j = small_spec(s);
  j.precision = c.precision;
  j.pipeline.weights = placed ? c.weights : "drain";
  j.layers.clear();
  std::string at = "data";
  std::uint32_t node = 1;
  for (std::size_t i = 0; i < c.replicas.size(); ++i) {
    const bool last = i + 1 == c.replicas.size();
    const auto place = [&](layer_spec l) {
      if (!placed) return j.layers.push_back(std::move(l));
      for (std::uint32_t r = 0; r < c.replicas[i]; ++r) l.place.push_back("n" + std::to_string(node + r));
      l.partition = c.replicas[i] > 1 ? "batch" : "none";
      l.key_at["partition"] = {};
      j.layers.push_back(std::move(l));
    };
    const auto name = "a" + std::to_string(i);
    place(layer_of(name, "linear", {at}, with({{"outputs", last ? std::int64_t{4} : c.width}})));
    at = name;
    if (last) {
      place(layer_of("loss", "softmax_loss", {at, "label"}));
    } else {
      place(layer_of("r" + std::to_string(i), "relu", {at}));
      at = "r" + std::to_string(i);
    }
    node += c.replicas[i];
  }
  return j;
}

inline std::shared_ptr<prepared_job> prepared(job_spec spec, std::uint32_t nodes) {
  auto made = prepare_job(std::move(spec), shared_tables(), chain_nodes(nodes));
  if (!made) {
    for (const auto& d : made.error()) ADD_FAILURE() << d.to_string();
    return nullptr;
  }
  return *made;
}

// Nodes for a chain. The coordinator and the shards are on an extra node.
inline std::vector<node_spec> apart_nodes(std::uint32_t chain) {
  auto list = chain_nodes(chain + 1);
  for (std::uint32_t i = 0; i < chain; ++i) list[i].roles = {"worker"};
  list.back().roles = {"coordinator", "server", "data"};
  return list;
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
