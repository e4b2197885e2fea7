// Small jobs for the tests of recovery, as job files: the least squares of tests/sim/mode_job.hpp.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "tests/recovery/fleet.hpp"
#include "tests/sim/mode_job.hpp"

namespace troupe::recovery {

struct small_mode {
  std::string name;
  std::string sync;           // value of train.sync, without braces
  bool lockstep = false;      // the weights equal those of an undisturbed run bit for bit
  std::string topology = {};  // {W}: number of workers
  std::string exchange = {};
};

inline const std::vector<small_mode>& modes() {
  static const std::vector<small_mode> all = {
      {"bsp", "mode = \"bsp\"", true},
      {"tree", "mode = \"bsp\"", true, {}, "{ reducer = \"tree\", arity = 2 }"},
      {"sharded", "mode = \"bsp\"", true, "{ workers_per_group = {W} }", "{ reducer = \"sharded\" }"},
      {"hierarchical", "mode = \"bsp\"", true, {}, "{ reducer = \"hierarchical\", between = \"tree\" }"},
      {"ring", "mode = \"bsp\"", true, "{ workers_per_group = {W} }", "{ reducer = \"ring\" }"},
      {"ssp0", "mode = \"ssp\", staleness = 0", true},
      {"sandblaster", "mode = \"sandblaster\"", true},
      {"ssp", "mode = \"ssp\", staleness = 2"},
      {"downpour", "mode = \"downpour\", n_push = 2, n_fetch = 2", false,
       "{ worker_groups = {W}, workers_per_group = 1, servers_per_group = 2 }"},
      {"easgd", "mode = \"easgd\", tau = 4, alpha = 0.3"},
      {"easgd_sync", "mode = \"easgd\", tau = 4, variant = \"sync\""},
      {"eamsgd", "mode = \"eamsgd\", tau = 4, alpha = 0.3"},
      {"gossip", "mode = \"gossip\", every = 2"},
      {"group_sync", "mode = \"group_sync\", sync_freq = 4", false,
       "{ worker_groups = {W}, server_groups = {W}, workers_per_group = 1, servers_per_group = 1 }"},
      {"hogwild", "mode = \"hogwild\", sync_freq = 4", false,
       "{ worker_groups = {W}, server_groups = {W}, workers_per_group = 1, servers_per_group = 1 }"}};
  return all;
}

inline const small_mode& mode_named(const std::string& name) {
  for (const auto& m : modes())
    if (m.name == name) return m;
  ADD_FAILURE() << name << " is not one of these modes";
  return modes().front();
}

struct small_text {
  std::uint32_t workers = 3, shards = 2, packets = 4, layers = 1;
  std::uint64_t steps = 24;
  std::string checkpoint = "6";  // checkpoint.every; empty: none
  std::string rule = "momentum", sampler = "shuffle", max_failures;
  double lr = 0.03;
  std::uint64_t eval_every = 0;
  std::int64_t columns = 4, examples = 24;
  bool falling = false;  // a falling rate; least squares need it outside lockstep
};

inline std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) text.replace(at, what.size(), by);
  return text;
}

inline std::string text_of(const small_mode& m, const small_text& s) {
  std::ostringstream t;
  const bool whole = s.sampler == "whole";
  t << "[job]\nname = \"laws\"\nseed = 3\nprecision = \"f64\"\n";
  if (!s.max_failures.empty()) t << "max_failures = " << s.max_failures << "\n";
  t << "[data]\nsource = \"regression\"\ncolumns = " << s.columns
    << "\nnoise = 3\nexamples = " << (whole ? s.packets : 4) * s.examples << "\ntest = " << (s.eval_every > 0 ? 8 : 0)
    << "\nbatch = " << (whole ? s.examples : 2) * s.packets << "\n";
  for (std::uint32_t l = 0; l < s.layers; ++l)
    t << "[[layer]]\nname = \"loss" << l << "\"\ntype = \"squares\"\ninputs = [\"data\", \"label\"]\n";
  t << "[train]\nsampler = { kind = \"" << s.sampler << "\" }\nsync = { " << m.sync << " }\nfinish = { steps = " << s.steps
    << " }\n";
  if (!m.exchange.empty()) t << "exchange = " << m.exchange << "\n";
  t << "[train.dynamics]\nrule = \"" << (m.name == "eamsgd" ? "nesterov" : s.rule) << "\"\nlr = " << s.lr << "\n";
  if (s.falling) t << "schedule = { kind = \"exponential\", every = 100, factor = 0.9 }\n";
  if (s.eval_every > 0) t << "[eval]\nevery = " << s.eval_every << "\n";
  if (!s.checkpoint.empty()) t << "[checkpoint]\nevery = " << s.checkpoint << "\n";
  t << "[pipeline]\npackets = " << s.packets << "\n";
  const auto w = std::to_string(s.workers);
  t << "[topology]\n";
  if (m.topology.empty())
    t << "workers_per_group = " << w << "\nservers_per_group = " << s.shards << "\n";
  else
    return replaced(t.str(), "[topology]\n", "") + "[topology]\n" +
           replaced(replaced(replaced(replaced(m.topology, "{W}", w), "{ ", ""), " }", ""), ", ", "\n") + "\n";
  return t.str();
}

}  // namespace troupe::recovery
