#include "runtime/node/pki/authority.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "runtime/access/names.hpp"
#include "runtime/node/net/hello.hpp"
#include "runtime/node/pki/files.hpp"
#include "runtime/node/pki/openssl.hpp"

namespace troupe {

namespace fs = std::filesystem;

namespace {

constexpr const char* replaced_folder = "replaced";

struct place {
  fs::path file;
  bool client = false;
};
// The name without the prefix "client." that certificates of clients have.
std::string plain(const std::string& name) {
  const auto prefix = std::string(client_name) + ".";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

expected<place, coded_error> place_of(const fs::path& dir, const std::string& name) {
  if (name == "ca")
    return unexpected(
        coded_error{"bad_name", "[certificates] the CA cannot be replaced: `troupe init-cluster` makes a new cluster"});
  if (!valid_node_name(name))
    return unexpected(coded_error{"bad_name", "[certificates] '" + name + "' is not a valid name of a node or client"});
  const auto as_client = operator_folder(dir, name) / "client.pem";
  std::error_code ec;
  if (fs::exists(as_client, ec)) return place{as_client, true};
  const auto as_node = certificate_folder(dir, name) / (name + ".pem");
  if (fs::exists(as_node, ec)) return place{as_node, false};
  return unexpected(coded_error{"unknown_name", "[certificates] " + dir.string() + " has no certificate of " + name});
}

expected<std::string, coded_error> text_of_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad())
    return unexpected(coded_error{"certificate_missing", "[certificates] cannot read " + file.string()});
  return text;
}

// Certificates of `name` that have been replaced.
std::vector<fs::path> replaced_of(const fs::path& dir, const std::string& name) {
  std::vector<fs::path> all;
  std::error_code ec;
  for (fs::directory_iterator i(certificate_folder(dir, "ca") / replaced_folder, ec), end; !ec && i != end; i.increment(ec)) {
    const auto file = i->path().filename().string();  // <name>.<serial>.pem
    const auto serial = file.rfind('.', file.size() - 5);
    if (file.ends_with(".pem") && serial != std::string::npos && file.substr(0, serial) == name) all.push_back(i->path());
  }
  std::sort(all.begin(), all.end());
  return all;
}

expected<void, coded_error> keep_replaced(const fs::path& dir, const std::string& name, const fs::path& file,
                                          const certificate_info& what) {
  auto text = text_of_file(file);
  if (!text) return unexpected(text.error());
  const auto folder = certificate_folder(dir, "ca") / replaced_folder;
  if (auto ready = prepare_closed_folder(folder); !ready) return ready;
  return write_planned_files({{folder / (name + "." + what.serial + ".pem"), std::move(*text), 0644}}, folder, true);
}

// The list is valid as long as the CA, because an expired list would lock out all peers, and from
// one day in the past, to tolerate clocks that differ.
expected<pki::revocations, coded_error> begin_list(X509* ca, const pki::revocations& before) {
  pki::revocations list(X509_CRL_new());
  const std::unique_ptr<ASN1_TIME, pki::freer<ASN1_TIME_free>> from(X509_gmtime_adj(nullptr, -24L * 60 * 60));
  if (!list || !from || X509_CRL_set_version(list.get(), X509_CRL_VERSION_2) != 1 ||
      X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(ca)) != 1 ||
      X509_CRL_set1_lastUpdate(list.get(), from.get()) != 1 || X509_CRL_set1_nextUpdate(list.get(), X509_get0_notAfter(ca)) != 1)
    return unexpected(pki::openssl_error("making " + std::string(revoked_file)));
  if (!before) return list;
  STACK_OF(X509_REVOKED)* entries = X509_CRL_get_REVOKED(before.get());
  for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
    X509_REVOKED* entry = X509_REVOKED_dup(sk_X509_REVOKED_value(entries, i));
    if (entry != nullptr && X509_CRL_add0_revoked(list.get(), entry) == 1) continue;
    X509_REVOKED_free(entry);
    return unexpected(pki::openssl_error("copying " + std::string(revoked_file)));
  }
  return list;
}

expected<void, coded_error> add_to(const pki::revocations& list, X509* cert) {
  X509_REVOKED* entry = X509_REVOKED_new();
  const std::unique_ptr<ASN1_TIME, pki::freer<ASN1_TIME_free>> now(X509_gmtime_adj(nullptr, 0));
  if (entry != nullptr && now && X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(cert)) == 1 &&
      X509_REVOKED_set_revocationDate(entry, now.get()) == 1 && X509_CRL_add0_revoked(list.get(), entry) == 1)
    return {};
  X509_REVOKED_free(entry);
  return unexpected(pki::openssl_error("revoking a certificate"));
}

expected<std::string, coded_error> signed_text(const pki::revocations& list, EVP_PKEY* key) {
  const pki::bio out(BIO_new(BIO_s_mem()));
  if (!out || X509_CRL_sort(list.get()) != 1 || X509_CRL_sign(list.get(), key, EVP_sha256()) == 0 ||
      PEM_write_bio_X509_CRL(out.get(), list.get()) != 1)
    return unexpected(pki::openssl_error("signing " + std::string(revoked_file)));
  char* text = nullptr;
  const long n = BIO_get_mem_data(out.get(), &text);
  return std::string(text, static_cast<std::size_t>(n));
}

// All folders that contain the CA's certificate.
std::vector<fs::path> folders_with_ca(const fs::path& dir) {
  std::vector<fs::path> all;
  std::error_code ec;
  if (fs::exists(dir / "ca.pem", ec)) all.push_back(dir);
  for (fs::directory_iterator i(dir, ec), end; !ec && i != end; i.increment(ec))
    if (std::error_code no; i->is_directory(no) && fs::exists(i->path() / "ca.pem", no)) all.push_back(i->path());
  return all;
}

expected<std::vector<std::string>, coded_error> revoke_files(const fs::path& dir, const std::vector<fs::path>& files) {
  const auto home = certificate_folder(dir, "ca");
  auto ca = pki::load_certificate(home / "ca.pem");
  if (!ca) return unexpected(ca.error());
  auto key = pki::load_key(home / "ca.key");
  if (!key) return unexpected(key.error());
  auto before = pki::load_revocations(home / "ca.pem");
  if (!before) return unexpected(before.error());
  auto list = begin_list(ca->get(), *before);
  if (!list) return unexpected(list.error());
  std::vector<std::string> serials;
  for (const auto& file : files) {
    auto cert = pki::load_certificate(file);
    if (!cert) return unexpected(cert.error());
    const auto serial = pki::serial_of(cert->get());
    if (pki::is_in(*before, cert->get()) || std::count(serials.begin(), serials.end(), serial) > 0) continue;
    if (auto done = add_to(*list, cert->get()); !done) return unexpected(done.error());
    serials.push_back(serial);
  }
  auto text = signed_text(*list, key->get());
  if (!text) return unexpected(text.error());
  for (const auto& folder : folders_with_ca(dir))
    if (auto done = write_planned_files({{folder / revoked_file, *text, 0644}}, folder, true); !done)
      return unexpected(done.error());
  return serials;
}

void list_file(std::vector<listed_certificate>& all, const std::string& name, const fs::path& file,
               const pki::revocations& revoked) {
  auto info = read_certificate(file);
  if (!info) return;
  auto cert = pki::load_certificate(file);
  const bool is_revoked = cert && pki::is_in(revoked, cert->get());
  all.push_back({name, file, std::move(*info), is_revoked});
}

}  // namespace

expected<std::vector<listed_certificate>, coded_error> list_certificates(const fs::path& dir) {
  std::vector<listed_certificate> all;
  const auto home = certificate_folder(dir, "ca");
  std::error_code ec;
  if (!fs::is_directory(dir, ec))
    return unexpected(coded_error{"certificate_missing", "[certificates] " + dir.string() + " is not a folder"});
  pki::revocations revoked;
  if (fs::exists(home / "ca.pem", ec)) {
    auto found = pki::load_revocations(home / "ca.pem");
    if (!found) return unexpected(found.error());
    revoked = std::move(*found);
    list_file(all, "ca", home / "ca.pem", revoked);
  }
  const auto authority = all.size();
  for (fs::directory_iterator i(dir, ec), end; !ec && i != end; i.increment(ec)) {
    const auto file = i->path().filename().string();
    std::error_code no;
    if (i->is_directory(no)) {
      const auto client = std::string(client_name) + ".";
      if (file.starts_with(client))
        list_file(all, file.substr(client.size()), i->path() / "client.pem", revoked);
      else if (file != "ca")
        list_file(all, file, i->path() / (file + ".pem"), revoked);
    } else if (file.ends_with(".pem") && file != "ca.pem" && file != revoked_file) {
      list_file(all, file.substr(0, file.size() - 4), i->path(), revoked);
    }
  }
  std::sort(all.begin() + static_cast<std::ptrdiff_t>(authority), all.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

expected<void, coded_error> renew_certificate(const fs::path& dir, const std::string& of, bool revoke,
                                              const certificate_options& options) {
  const auto name = plain(of);
  auto at = place_of(dir, name);
  if (!at) return unexpected(at.error());
  auto info = read_certificate(at->file);
  if (!info) return unexpected(info.error());
  if (!info->role)
    return unexpected(coded_error{"certificate_unreadable",
                                  "[certificates] " + at->file.string() + " has no role that a certificate of a cluster may have"});
  if (auto kept = keep_replaced(dir, name, at->file, *info); !kept) return kept;
  auto again = options;
  again.overwrite = true;
  std::erase(info->hosts, info->name);
  if (auto made = at->client ? add_operator_certificate(dir, name, *info->role, again)
                             : add_node_certificate(dir, {name, info->hosts}, again);
      !made)
    return made;
  if (!revoke) return {};
  if (auto gone = revoke_files(dir, replaced_of(dir, name)); !gone) return unexpected(gone.error());
  return {};
}

expected<std::vector<std::string>, coded_error> revoke_certificates(const fs::path& dir, const std::string& of) {
  const auto name = plain(of);
  auto at = place_of(dir, name);
  auto files = replaced_of(dir, name);
  if (!at && files.empty()) return unexpected(at.error());
  if (at) files.push_back(at->file);
  return revoke_files(dir, files);
}

int days_left(const certificate_info& c, std::chrono::system_clock::time_point now) {
  return static_cast<int>(std::chrono::floor<std::chrono::hours>(c.until - now) / std::chrono::hours(24));
}

std::optional<std::string> expiry_warning(const certificate_info& c, const std::string& name,
                                          std::chrono::system_clock::time_point now) {
  const int days = days_left(c, now);
  if (days >= warn_days) return std::nullopt;
  const auto whose = c.ca ? std::string("the CA's certificate") : "the certificate of " + name;
  const auto mend = c.ca ? std::string("`troupe init-cluster` makes new certificates for the cluster")
                         : "`troupe certs renew " + name + "` makes a new one; copy it to the node and send SIGHUP to the daemon";
  if (c.until <= now) return whose + " has expired: " + mend;
  return whose + " expires in " + std::to_string(days) + " days: " + mend;
}

void expiry_notes::read(const fs::path& ca, const fs::path& certificate, const std::string& name) {
  name_ = name;
  mine_.clear();
  notified_.reset();
  for (const auto& file : {certificate, ca})
    if (auto info = read_certificate(file)) mine_.push_back(std::move(*info));
}

std::vector<std::string> expiry_notes::due(std::chrono::system_clock::time_point now) {
  std::vector<std::string> lines;
  if (notified_ && now >= *notified_ && now - *notified_ < std::chrono::hours(24)) return lines;
  notified_ = now;
  for (const auto& c : mine_)
    if (auto line = expiry_warning(c, name_, now)) lines.push_back(std::move(*line));
  return lines;
}

}  // namespace troupe
