// Fuzz target: cluster files, simulator files and fault traces; the first byte selects which.
#include "runtime/node/config/cluster_file.hpp"

#include "runtime/node/config/fault_trace.hpp"
#include "runtime/node/config/sim_file.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

template <class T>
void check(const expected<T, diagnostics>& r) {
  if (!r) must(!r.error().empty(), "refused without a reason");
}

void read_cluster_file(input in) {
  reader r(in);
  const auto which = r.number(1);
  const auto t = text(r.rest());
  if (which == 's') return check(parse_sim(t, "fuzz.toml"));
  if (which == 't') return check(parse_fault_trace(t, "fuzz"));
  check(parse_cluster(t, "fuzz.toml"));
}

std::vector<std::string> sound_cluster_file() {
  return {R"(cplugins = ["p.so#sha256=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"]
[cluster]
name = "lab"
data = ["/data", "."]
[cluster.tls]
dir = "certs"
[[node]]
name = "n1"
address = "127.0.0.1:4000"
roles = ["coordinator", "worker", "server", "data"]
devices = ["cpu:0", "cpu:1"]
memory_limit = "512MiB"
)",
          R"(s[network]
latency = "1ms"
bandwidth = "1Gbit/s"
[compute]
flops_per_second = 1e9
[[fault]]
kind = "crash"
node = 2
at = "3s"
for = "20s"
[run]
job = "job.toml"
nodes = 4
)",
          "t3.5h 17 20min\n# a comment\n4h 2\n"};
}

const entry cluster_file_entry({"cluster_file", read_cluster_file, sound_cluster_file});

}  // namespace
}  // namespace troupe::fuzz
