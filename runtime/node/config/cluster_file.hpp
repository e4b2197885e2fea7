// Cluster files: TOML -> cluster_spec. Errors: diagnostics with file, line and column, as many as
// can be found; nothing is opened, resolved or connected to here (missing certificates are the
// daemon's error).
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "runtime/spec/job_spec.hpp"

namespace troupe {

// What only daemons ask of it.
struct cluster_rules {
  bool inject = false;        // faults may be injected (actors/view/injection.hpp)
  bool shared_memory = true;  // tensors are lent to nodes of the same machine (net/memory_sharing.hpp)
  std::int64_t exchange_memory =
      0;  // bytes that clients of the exchange may reserve of a daemon; 0: as it has them (actors/control)
};

// `rules`: of a sound file, told as well.
std::variant<cluster_spec, diagnostics> parse_cluster(const std::string& text, const std::string& file,
                                                      cluster_rules* rules = nullptr);
std::variant<cluster_spec, diagnostics> read_cluster_file(const std::string& path, cluster_rules* rules = nullptr);

}  // namespace troupe
