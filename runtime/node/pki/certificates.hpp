// The cluster's certificates: one CA, one certificate and key per node, one pair for operators. EC
// P-256, PEM. The same files serve the data plane (net/tls.cpp) and CAF's openssl module.
//
//   ca.pem  ca.key   the CA; ca.key signs further nodes and does not leave the machine where it was made
//   <node>.pem .key  common name = node name, organization = cluster, SAN = its hosts; proves the node as server and as client
//   client.pem .key  a client: "client", who may do everything, or one with a name and a role of its own (roles.hpp)
//   revoked.pem      what the CA has revoked, signed by it (X.509 CRL); where it lies beside ca.pem, it holds there
//
// All in one folder; or (`one_folder_each`, as `troupe init-cluster` has it) in folders that can be
// given away as they are: <node>/ and client/ with the pair and ca.pem, ca/ with the CA's pair.
// Whoever reads takes either: certificate_folder(). A client with a name has the folder
// client.<name>/ always, and its files there are called as those of client/.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/node/net/error.hpp"
#include "runtime/node/pki/roles.hpp"

namespace troupe {

inline constexpr std::string_view client_name = "client";
inline constexpr const char* revoked_file = "revoked.pem";

struct certificate_subject {
  std::string name;
  std::vector<std::string> hosts;  // addresses or host names it is reached at
};

struct certificate_options {
  bool overwrite = false;
  bool one_folder_each = false;
  // Counted from now. The day in the past is for clocks that disagree.
  std::chrono::seconds from = -std::chrono::hours(24);
  std::chrono::seconds until = std::chrono::hours(24) * 3650;
};

// Makes `dir` (mode 0700; an existing one must be empty or already closed to others) and all files
// in it, keys with mode 0600, each written whole or not at all. Errors: "bad_name", "exists"
// (nothing is touched then), "directory_open", "cannot_write", "openssl".
net::expected<void> make_cluster_certificates(const std::filesystem::path& dir, const std::string& cluster,
                                              const std::vector<certificate_subject>& nodes,
                                              const certificate_options& options = {});

// Where the files of a node, or of client_name, are: in their own folder below `dir`, where there
// is one, else in `dir` itself.
std::filesystem::path certificate_folder(const std::filesystem::path& dir, std::string_view name);

// One more node for an existing cluster, laid out as it is: needs ca.pem and ca.key in `dir`, or in
// its folder ca.
net::expected<void> add_node_certificate(const std::filesystem::path& dir, const certificate_subject& node,
                                         const certificate_options& options = {});

// One more client, in operator_folder(), with what is to be given to whom it is for. Errors:
// "bad_name", "bad_role", "exists", and as above.
net::expected<void> add_operator_certificate(const std::filesystem::path& dir, const std::string& name, certificate_role as,
                                             const certificate_options& options = {});
std::filesystem::path operator_folder(const std::filesystem::path& dir, std::string_view name);

struct certificate_info {
  std::string name;     // common name
  std::string cluster;  // organization
  std::optional<certificate_role> role;
  std::string serial;
  std::vector<std::string> hosts;
  std::chrono::system_clock::time_point from, until;
  bool ca = false;
};
// Errors: "certificate_missing", "certificate_unreadable".
net::expected<certificate_info> read_certificate(const std::filesystem::path& file);

// Whether `certificate` would be accepted by peers that trust `ca`, carries `name` and fits `key`.
// Errors: those of read_certificate, "certificate_expired", "certificate_not_yet_valid",
// "certificate_revoked", "wrong_ca", "name_mismatch", "key_mismatch", "key_exposed" (others may
// read it).
net::expected<void> check_certificate(const std::filesystem::path& ca, const std::filesystem::path& certificate,
                                      const std::filesystem::path& key, std::string_view name);

}  // namespace troupe
