// The end of `troupe sim`: the network and compute model that held, the faults that happened, and
// the bottleneck, i.e. the resource that was busy for the largest part of the virtual time.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/node/simulation/sim_setup.hpp"
#include "runtime/sim/world.hpp"

namespace troupe {

// The faults that happened: those that are not 0 as a list for people; all of them.
std::string text_of(const sim::fault_counts& c);
nlohmann::ordered_json json_of(const sim::fault_counts& c);

// The resource that limits the run.
struct sim_bottleneck {
  enum class kind : std::uint8_t { link, uplink, cores, role, latency };
  kind what = kind::latency;
  std::string name;    // of the link, node or role: "n1 in", "n3", "shard0"; latency: of the busiest one
  double busy = 0;     // part of the virtual time, 0 to 1
  std::string why;     // what uses it: "shard0 receives 1,000 pushes a step"; empty: nothing to say
  std::string advice;  // what to change; empty: nothing to say
};
const char* name_of(sim_bottleneck::kind k);

// Collects what a world does. Its functions are called by the world's hooks.
class sim_report {
 public:
  explicit sim_report(const sim_setup& s);

  void span(role_id r, const char* kind, time_point begin, time_point end);
  void delivered(const envelope& e);

  std::string models_text() const;  // lines "network" and "compute"
  std::string faults_text(const sim::world& w) const;
  // `steps`: of this run.
  sim_bottleneck bottleneck(const sim::world& w, double steps) const;

 private:
  std::string exchange_advice(std::uint32_t node) const;
  std::string why_busy(std::uint32_t node, bool in, std::uint64_t messages, double steps) const;
  void consider_links(sim_bottleneck& b, const sim::world& w, double steps, double all) const;
  void consider_cores(sim_bottleneck& b, double all) const;
  void consider_roles(sim_bottleneck& b, double all) const;

  const sim_setup& s_;
  std::vector<double> role_busy_, node_busy_;  // seconds of tasks
  std::vector<std::uint64_t> pushes_;          // messages of kind push that a role received
};

}  // namespace troupe
