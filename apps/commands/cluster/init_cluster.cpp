// `troupe init-cluster`: makes the certificates of a cluster.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/job.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe {
namespace {

struct init_cluster_arguments {
  std::string cluster;
  bool overwrite = false;
};

// The host of "host:port" or "[v6]:port".
std::string host_of(const std::string& address) {
  const auto colon = address.rfind(':');
  auto host = colon == std::string::npos ? address : address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return host;
}

int run_init_cluster(const init_cluster_arguments& a, const output& out) {
  auto read = read_cluster_file(a.cluster);
  if (!read) return out.wrong(read.error());
  const auto& c = *read;
  std::vector<certificate_subject> nodes;
  for (const auto& n : c.nodes) {
    nodes.push_back({n.name, {host_of(n.address)}});
    if (const auto host = host_of(n.data_address); !host.empty() && host != nodes.back().hosts[0])
      nodes.back().hosts.push_back(host);
  }
  certificate_options options;
  options.overwrite = a.overwrite;
  options.one_folder_each = true;
  if (auto made = make_cluster_certificates(c.tls_dir, c.name, nodes, options); !made) {
    const auto& e = made.error();
    const bool theirs = e.code == "exists" || e.code == "bad_name" || e.code == "directory_open";
    const auto text = e.message + (e.code == "exists" ? " (--overwrite replaces them; the old ones become invalid)" : "");
    return theirs ? out.wrong(a.cluster, text) : out.failed(a.cluster, text);
  }
  if (out.json()) {
    auto names = nlohmann::ordered_json::array();
    for (const auto& n : nodes) names.push_back(n.name);
    out.object({{"event", "init-cluster"}, {"cluster", c.name}, {"dir", c.tls_dir}, {"nodes", names}});
  }
  out.text("certificates of cluster " + c.name + " are in " + c.tls_dir + "\n");
  std::string which;
  for (const auto& n : nodes) which += (which.empty() ? "" : ", ") + n.name;
  out.text(
      "Copy to each node the cluster file and its own folder only (" + which +
      "); copy the folder client to operators.\nThe folder ca has the key that signs certificates: keep it on this machine.\n");
  return exit_done;
}

void add_options(CLI::App& c, init_cluster_arguments& a) {
  file_option(c, "--cluster", a.cluster, "Cluster file")->required();
  c.add_flag("--overwrite", a.overwrite, "Replace existing certificates; nodes with the old ones can no longer connect");
  json_option(c);
}

}  // namespace

cli_command init_cluster_command() {
  return make_command<init_cluster_arguments>(
      "init-cluster", "Make the certificates for a cluster file: a CA, one certificate for each node, one for operators",
      "  troupe init-cluster --cluster configs/clusters/local2.toml", add_options, run_init_cluster);
}

}  // namespace troupe
