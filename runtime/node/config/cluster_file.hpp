// Cluster files: TOML -> cluster_spec. Errors: diagnostics with file, line and column, as many as
// can be found. Nothing is opened, resolved or connected to here (the daemon reports missing
// certificates).
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// Settings of a cluster file that only daemons use.
struct cluster_rules {
  bool inject = false;        // fault injection is allowed (runtime/cluster/view/injection.hpp)
  bool shared_memory = true;  // tensors are shared with nodes on the same machine (net/memory_sharing.hpp)
  std::int64_t exchange_memory =
      0;             // bytes that exchange clients may reserve of a daemon; 0: the daemon's default (actors/control)
  std::string page;  // where the coordinator's daemon serves the browser page (actors/page); empty: nowhere
  std::string page_role = "operator";  // of the holder of the page's token
};

// `rules`: set if the file is valid; may be null.
expected<cluster_spec, diagnostics> parse_cluster(const std::string& text, const std::string& file, cluster_rules* rules = nullptr);
expected<cluster_spec, diagnostics> read_cluster_file(const std::string& path, cluster_rules* rules = nullptr);

}  // namespace troupe
