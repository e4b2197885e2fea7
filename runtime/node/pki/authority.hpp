// What becomes of a cluster's certificates once they are made: which there are, new pairs, and
// those that are worth nothing any more. Where the CA's key is; nothing here talks to daemons:
// files are copied to their machines, and SIGHUP has a daemon read its own.
//
// A name is a node's, or a client's: "client", or as in add_operator_certificate(). Certificates
// that were replaced are kept in the CA's folder replaced/, since who takes a name out wants all
// that were ever made out to it.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/node/pki/certificates.hpp"

namespace troupe {

struct listed_certificate {
  std::string name;  // "ca", a node's or a client's
  std::filesystem::path file;
  certificate_info what;
  bool revoked = false;
};
// All that lie in `dir` and can be read: the CA first, then by name.
net::expected<std::vector<listed_certificate>> list_certificates(const std::filesystem::path& dir);

// A new key and certificate with the name, role and hosts of the one that is there, which is good
// until it expires, or (`revoke`) no longer.
net::expected<void> renew_certificate(const std::filesystem::path& dir, const std::string& name, bool revoke,
                                      const certificate_options& options = {});

// Everything that was ever made out to this name, as far as its certificates are here: its serials.
// The list goes into every folder of `dir`.
net::expected<std::vector<std::string>> revoke_certificates(const std::filesystem::path& dir, const std::string& name);

// Whole days left; negative: since. And the line for a log, if it is time to speak of it.
constexpr int warn_days = 30;
int days_left(const certificate_info& c, std::chrono::system_clock::time_point now);
std::optional<std::string> expiry_warning(const certificate_info& c, const std::string& name,
                                          std::chrono::system_clock::time_point now);

// What a daemon's log is told of its own certificate and of its CA's: at once, and once a day.
class expiry_notes {
 public:
  // Files as check_certificate() takes them; what cannot be read is not spoken of.
  void read(const std::filesystem::path& ca, const std::filesystem::path& certificate, const std::string& name);
  std::vector<std::string> due(std::chrono::system_clock::time_point now);

 private:
  std::string name_;
  std::vector<certificate_info> mine_;
  std::optional<std::chrono::system_clock::time_point> notified_;
};

}  // namespace troupe
