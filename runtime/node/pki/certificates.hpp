// The cluster's certificates: one CA, one certificate and key per node, one pair for operators. EC
// P-256, PEM. Used by the transport (net/tls.cpp).
//
//   ca.pem, ca.key       the CA; ca.key signs further nodes and must not leave the machine where it
//                        was made
//   <node>.pem, .key     common name = node name, organization = cluster, SAN = its hosts; for the
//                        node as server and as client
//   client.pem, .key     a client: "client", which may do everything, or one with its name and role
//                        (roles.hpp)
//   revoked.pem          the certificates that the CA has revoked, signed by it (X.509 CRL); valid
//                        for the ca.pem in the same folder
//
// All files are in one folder or (`one_folder_each`, as `troupe init-cluster` sets it) in folders
// that can be copied to the machines as they are: <node>/ and client/ with the pair and ca.pem, ca/
// with the CA's pair. Readers accept both: certificate_folder(). A client with a name always has
// the folder client.<name>/; its files have the same names as those in client/.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/access/names.hpp"
#include "runtime/access/roles.hpp"
#include "runtime/base/result.hpp"

namespace troupe {

inline constexpr const char* revoked_file = "revoked.pem";

struct certificate_subject {
  std::string name;
  std::vector<std::string> hosts;  // addresses or host names at which it is reached
};

struct certificate_options {
  bool overwrite = false;
  bool one_folder_each = false;
  // Relative to now. Begins a day in the past, to tolerate clocks that differ.
  std::chrono::seconds from = -std::chrono::hours(24);
  std::chrono::seconds until = std::chrono::hours(24) * 3650;
};

// Makes `dir` (mode 0700; an existing one must be empty or already closed to others) and all files
// in it, keys with mode 0600. Each file is written whole or not at all. Errors: "bad_name",
// "exists" (nothing is changed then), "directory_open", "cannot_write", "openssl".
expected<void, coded_error> make_cluster_certificates(const std::filesystem::path& dir, const std::string& cluster,
                                                      const std::vector<certificate_subject>& nodes,
                                                      const certificate_options& options = {});

// The folder with the files of a node, or of client_name: its folder below `dir` if that exists,
// otherwise `dir`.
std::filesystem::path certificate_folder(const std::filesystem::path& dir, std::string_view name);

// Adds a node to an existing cluster, in the cluster's folder layout. Needs ca.pem and ca.key in
// `dir` or in its folder ca.
expected<void, coded_error> add_node_certificate(const std::filesystem::path& dir, const certificate_subject& node,
                                                 const certificate_options& options = {});

// Adds a client, in operator_folder(), with all files that its user needs. Errors: "bad_name",
// "bad_role", "exists", and as above.
expected<void, coded_error> add_operator_certificate(const std::filesystem::path& dir, const std::string& name, certificate_role as,
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
expected<certificate_info, coded_error> read_certificate(const std::filesystem::path& file);

// Checks that peers that trust `ca` would accept `certificate`, that its name is `name`, and that
// it fits `key`. Errors: those of read_certificate, "certificate_expired",
// "certificate_not_yet_valid", "certificate_revoked", "wrong_ca", "name_mismatch", "key_mismatch",
// "key_exposed" (others may read the key).
expected<void, coded_error> check_certificate(const std::filesystem::path& ca, const std::filesystem::path& certificate,
                                              const std::filesystem::path& key, std::string_view name);

}  // namespace troupe
