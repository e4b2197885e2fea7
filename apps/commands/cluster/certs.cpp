// `troupe certs`: manages a cluster's certificates after `troupe init-cluster` has made them. Runs
// on the machine that has the CA's key.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/job.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/net/transport.hpp"
#include "runtime/node/pki/authority.hpp"

namespace troupe {
namespace {

struct certs_arguments {
  std::string action, name, cluster, role;
  std::vector<std::string> hosts;
  bool revoke = false;
  int days = 3650;
};

std::string day_of(std::chrono::system_clock::time_point t) {
  const auto seconds = std::chrono::system_clock::to_time_t(t);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

// The folder of NAME's certificate on this machine.
std::string folder_of(const certs_arguments& a, const cluster_spec& c) {
  const auto of_client = operator_folder(c.tls_dir, a.name);
  return (std::filesystem::exists(of_client) ? of_client : certificate_folder(c.tls_dir, a.name)).string();
}

int refused(const certs_arguments& a, const coded_error& e, const output& out) {
  const bool theirs = e.code == "exists" || e.code == "bad_name" || e.code == "bad_role" || e.code == "unknown_name";
  return theirs ? out.wrong(a.cluster, e.message) : out.failed(a.cluster, e.message);
}

std::string role_text(const certificate_info& c) { return c.ca ? "ca" : c.role ? text_of(*c.role) : "none"; }

int run_list(const certs_arguments& a, const cluster_spec& c, const output& out) {
  const auto all = list_certificates(c.tls_dir);
  if (!all) return refused(a, all.error(), out);
  const auto now = std::chrono::system_clock::now();
  if (!out.json()) out.text("name              role      until       days\n");
  for (const auto& one : *all) {
    const int days = days_left(one.what, now);
    if (out.json()) {
      out.object({{"event", "certificate"},
                  {"name", one.name},
                  {"role", role_text(one.what)},
                  {"until", day_of(one.what.until)},
                  {"days", days},
                  {"serial", one.what.serial},
                  {"revoked", one.revoked},
                  {"file", one.file.string()}});
      continue;
    }
    auto line = one.name + std::string(18 - std::min<std::size_t>(17, one.name.size()), ' ');
    const auto role = role_text(one.what);
    line +=
        role + std::string(10 - std::min<std::size_t>(9, role.size()), ' ') + day_of(one.what.until) + "  " + std::to_string(days);
    if (one.revoked)
      line += "  revoked";
    else if (one.what.until <= now)
      line += "  expired";
    else if (days < warn_days)
      line += "  expires soon";
    out.text(line + "\n");
  }
  return exit_done;
}

constexpr const char* copy_revoked =
    "revoked.pem lists the revoked certificates. Copy it into the certificate folder of every node, next to ca.pem, and send the "
    "node's daemon SIGHUP. The daemon then closes connections that use a revoked certificate.\n";

// Reports a completed action: `text` says what was done and what the user must do next.
int done(const certs_arguments& a, const std::string& text, nlohmann::ordered_json more, const output& out) {
  nlohmann::ordered_json o{{"event", "certs"}, {"action", a.action}, {"name", a.name}};
  o.update(more);
  if (out.json()) out.object(o);
  out.text(text);
  return exit_done;
}

int run_renew(const certs_arguments& a, const cluster_spec& c, const certificate_options& options, const output& out) {
  if (const auto made = renew_certificate(c.tls_dir, a.name, a.revoke, options); !made) return refused(a, made.error(), out);
  return done(a,
              a.name + " has a new key and certificate" + (a.revoke ? ", and the old ones are revoked" : "") +
                  ".\nCopy its folder, " + folder_of(a, c) +
                  ", to its machine in place of the old one. Send a daemon SIGHUP to load it.\n" + (a.revoke ? copy_revoked : ""),
              {{"revoked", a.revoke}}, out);
}

int run_revoke(const certs_arguments& a, const cluster_spec& c, const output& out) {
  const auto gone = revoke_certificates(c.tls_dir, a.name);
  if (!gone) return refused(a, gone.error(), out);
  return done(a, std::to_string(gone->size()) + " certificates of " + a.name + " are revoked.\n" + copy_revoked,
              {{"serials", *gone}}, out);
}

int run_add_node(const certs_arguments& a, const cluster_spec& c, const certificate_options& options, const output& out) {
  auto hosts = a.hosts;
  for (const auto& n : c.nodes)
    if (const auto at = net::parse_address(n.address); at && n.name == a.name && hosts.empty()) hosts.push_back(at->host);
  if (hosts.empty())
    return out.wrong(a.cluster, a.cluster + " has no node " + in_quotes(a.name) +
                                    ": give its address, e.g. --host 10.0.0.4, or add its [[node]] table to the file first");
  if (const auto made = add_node_certificate(c.tls_dir, {a.name, hosts}, options); !made) return refused(a, made.error(), out);
  return done(a,
              "node " + a.name + " has a certificate.\nAdd a [[node]] table for " + a.name +
                  " to the cluster file, if there is none. Copy the file and the folder " + folder_of(a, c) +
                  " to the machine of " + a.name + ", and the file to those of all other nodes. Daemons read it at their start.\n",
              {{"hosts", hosts}}, out);
}

int run_add_client(const certs_arguments& a, const cluster_spec& c, const certificate_options& options, const output& out) {
  const auto role = client_role_named(a.role);
  if (!role) return out.wrong("--role", in_quotes(a.role) + " is not a client role; roles: " + client_roles_text());
  if (const auto made = add_operator_certificate(c.tls_dir, a.name, *role, options); !made) return refused(a, made.error(), out);
  const auto folder = operator_folder(c.tls_dir, a.name).string();
  return done(a,
              a.name + " has a certificate with the role " + a.role + ".\nCopy the folder " + folder + " to the machine of " +
                  a.name + ", as client/ in the folder that [cluster.tls] dir of its cluster file names.\n",
              {{"role", a.role}, {"folder", folder}}, out);
}

int run_certs(const certs_arguments& a, const output& out) {
  auto read = read_cluster_file(a.cluster);
  if (!read) return out.wrong(read.error());
  const auto& c = *read;
  if (a.action == "list") return run_list(a, c, out);
  if (a.name.empty()) return out.wrong("command line", "certs " + a.action + " needs a NAME (try: troupe certs --help)");
  certificate_options options;
  options.until = std::chrono::hours(24) * a.days;
  if (a.action == "renew") return run_renew(a, c, options, out);
  if (a.action == "revoke") return run_revoke(a, c, out);
  return a.action == "add-node" ? run_add_node(a, c, options, out) : run_add_client(a, c, options, out);
}

void add_options(CLI::App& c, certs_arguments& a) {
  c.add_option("ACTION", a.action, "list, renew, revoke, add-node or add-client")
      ->required()
      ->option_text(" ")
      ->check(CLI::IsMember(std::vector<std::string>{"list", "renew", "revoke", "add-node", "add-client"}));
  c.add_option("NAME", a.name, "Name of a node or client (client: the one that init-cluster makes)")->option_text(" ");
  file_option(c, "--cluster", a.cluster, "Cluster file")->required();
  c.add_option("--role", a.role, "add-client: role of the client: " + client_roles_text())->option_text("ROLE");
  c.add_option("--host", a.hosts, "add-node: address or host name of the node (default: from the cluster file)")
      ->option_text("HOST")
      ->allow_extra_args(false);
  c.add_flag("--revoke", a.revoke, "renew: also revoke the replaced certificates");
  c.add_option("--days", a.days, "Days until a new certificate expires (default: 3650)")
      ->option_text("N")
      ->check(CLI::Range(1, 36500));
  json_option(c);
}

}  // namespace

cli_command certs_command() {
  return make_command<certs_arguments>(
      "certs", "Manage the certificates of a cluster: list with expiry dates, renew, revoke, add nodes and clients",
      "  troupe certs list --cluster cluster.toml\n  troupe certs add-client alice --role submit --cluster cluster.toml\n"
      "  troupe certs renew n2 --cluster cluster.toml\n  troupe certs revoke alice --cluster cluster.toml\n"
      "  troupe certs add-node n4 --host 10.0.0.4 --cluster cluster.toml",
      add_options, run_certs);
}

}  // namespace troupe
