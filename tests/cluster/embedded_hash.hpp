// SHA-256 of the weights that a job ends with in one process; daemons must end with the same.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/embedded.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/config/job_file.hpp"

namespace troupe::testing_cluster {

inline std::string embedded_hash(const std::string& text, const std::vector<std::string>& set) {
  const auto all = std::make_shared<const tables>(stock_tables());
  auto spec = parse_job(text, "job.toml", *all, set);
  node_spec local;
  local.name = "local";
  auto made = prepare_job(*std::move(spec), all, {local});
  embedded_options o;
  o.threads = 2;
  embedded_run run(*made, o);
  return run.run().weights_sha256;
}

}  // namespace troupe::testing_cluster
