// Manages the certificates of a cluster after init-cluster: lists, renews and revokes them. For the
// machine with the CA's key. Daemons are not contacted: the operator copies the files to their
// machines, and SIGHUP makes a daemon read its files again.
//
// A name is that of a node, or of a client: "client", or a name as in add_operator_certificate().
// Certificates that were replaced are kept in the CA's folder replaced/, because revoking a name
// revokes all certificates that it ever had.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe {

struct listed_certificate {
  std::string name;  // "ca", a node's or a client's
  std::filesystem::path file;
  certificate_info what;
  bool revoked = false;
};
// All readable certificates in `dir`: the CA first, then by name.
expected<std::vector<listed_certificate>, coded_error> list_certificates(const std::filesystem::path& dir);

// Makes a new key and certificate with the name, role and hosts of the existing one. The old one
// stays valid until it expires, unless `revoke` is set.
expected<void, coded_error> renew_certificate(const std::filesystem::path& dir, const std::string& name, bool revoke,
                                              const certificate_options& options = {});

// Revokes all certificates of this name that `dir` has, replaced ones included. Returns the serials
// of those that were not revoked before. Writes the list into every folder of `dir`.
expected<std::vector<std::string>, coded_error> revoke_certificates(const std::filesystem::path& dir, const std::string& name);

// days_left: whole days until expiry, negative after it. expiry_warning: a log line if fewer than
// warn_days are left, otherwise empty.
constexpr int warn_days = 30;
int days_left(const certificate_info& c, std::chrono::system_clock::time_point now);
std::optional<std::string> expiry_warning(const certificate_info& c, const std::string& name,
                                          std::chrono::system_clock::time_point now);

// Warnings for a daemon's log about its certificate and its CA's: at once, then once a day.
class expiry_notes {
 public:
  // Files as for check_certificate(); unreadable ones are skipped.
  void read(const std::filesystem::path& ca, const std::filesystem::path& certificate, const std::string& name);
  std::vector<std::string> due(std::chrono::system_clock::time_point now);

 private:
  std::string name_;
  std::vector<certificate_info> mine_;
  std::optional<std::chrono::system_clock::time_point> notified_;
};

}  // namespace troupe
