// A small job on a cluster of some nodes, and a node that only notes what its job executor asks of
// it: for tests of runtime/node/executor.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/node/executor/job_executor.hpp"
#include "runtime/node/node_tables.hpp"
#include "tests/node/job_fixture.hpp"

namespace troupe::executor_test {

inline cluster_spec cluster_of(int nodes) {
  cluster_spec c;
  c.name = "lab";
  for (int i = 1; i <= nodes; ++i) {
    node_spec n;
    n.name = "n" + std::to_string(i);
    n.address = "127.0.0.1:" + std::to_string(7700 + i);
    n.roles = {"worker", "server"};
    if (i == 1) n.roles = {"coordinator", "data", "worker", "server"};
    c.nodes.push_back(n);
  }
  return c;
}

inline std::shared_ptr<const tables> all_tables() {
  static const auto all = std::make_shared<const tables>(node_tables());
  return all;
}

// No state folder, as in a simulation.
inline control::job_place place_of(const cluster_spec& c, const std::string& node) { return {c, node, "", all_tables(), {}}; }

inline control::job_text small_job(std::vector<std::string> set = {}) {
  return {"job.toml", job_test::text_of(job_test::sound_lines()), std::move(set)};
}

struct noting_host final : job_host, job_routes {
  std::shared_ptr<const prepared_job> spawned;
  void spawn(std::uint32_t, const std::shared_ptr<const prepared_job>& j, std::uint32_t, std::uint32_t) override { spawned = j; }
  void end(std::uint32_t) override { spawned.reset(); }
  void open(std::uint32_t, std::vector<std::string>, std::vector<std::uint32_t>) override {}
  void close(std::uint32_t) override {}
};

}  // namespace troupe::executor_test
