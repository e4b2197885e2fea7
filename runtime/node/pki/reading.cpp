// Reads and checks certificates, keys and revocation lists.
#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <array>
#include <ctime>
#include <system_error>
#include <utility>

#include "runtime/node/pki/certificates.hpp"
#include "runtime/node/pki/openssl.hpp"

namespace troupe {

namespace fs = std::filesystem;

namespace {

expected<pki::bio, coded_error> open_pem(const fs::path& file) {
  pki::bio in(BIO_new_file(file.c_str(), "r"));
  if (in) return in;
  ERR_clear_error();
  return unexpected(coded_error{"certificate_missing", "[certificates] cannot open " + file.string()});
}

coded_error unreadable(const fs::path& file) {
  ERR_clear_error();
  return {"certificate_unreadable", "[certificates] " + file.string() + " is not a PEM file of the kind that its name states"};
}

std::chrono::system_clock::time_point time_of(const ASN1_TIME* t) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(t, &parts) != 1) return {};
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

std::vector<std::string> hosts_of(X509* cert) {
  std::vector<std::string> hosts;
  const pki::alternative_names names(static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(cert, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* n = sk_GENERAL_NAME_value(names.get(), i);
    int type = 0;
    const auto* value = static_cast<const ASN1_STRING*>(GENERAL_NAME_get0_value(n, &type));
    const unsigned char* data = type == GEN_DNS || type == GEN_IPADD ? ASN1_STRING_get0_data(value) : nullptr;
    if (data == nullptr) continue;
    if (type == GEN_DNS) {
      hosts.emplace_back(reinterpret_cast<const char*>(data), static_cast<std::size_t>(ASN1_STRING_length(value)));
      continue;
    }
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = ASN1_STRING_length(value) == 4 ? AF_INET : AF_INET6;
    if (::inet_ntop(family, data, text.data(), text.size()) != nullptr) hosts.emplace_back(text.data());
  }
  return hosts;
}

std::string first_of(const X509_NAME* name, int nid) {
  auto all = pki::texts_of(name, nid);
  return all.empty() ? std::string() : std::move(all.front());
}

}  // namespace

namespace pki {

coded_error openssl_error(const std::string& doing) {
  const unsigned long e = ERR_get_error();
  std::array<char, 256> text{};
  ERR_error_string_n(e, text.data(), text.size());
  ERR_clear_error();
  return {"openssl", "[certificates] " + doing + ": " + (e == 0 ? "failed" : text.data())};
}

expected<certificate, coded_error> load_certificate(const fs::path& file) {
  auto in = open_pem(file);
  if (!in) return unexpected(in.error());
  certificate c(PEM_read_bio_X509(in->get(), nullptr, nullptr, nullptr));
  if (!c) return unexpected(unreadable(file));
  return c;
}

expected<private_key, coded_error> load_key(const fs::path& file) {
  struct stat s {};
  if (::stat(file.c_str(), &s) == 0 && (s.st_mode & (S_IRWXO | S_IWGRP)) != 0)
    return unexpected(coded_error{"key_exposed", "[certificates] " + file.string() + " is open to other users: chmod 600 it"});
  auto in = open_pem(file);
  if (!in) return unexpected(in.error());
  // A key with a pass phrase is refused; OpenSSL would prompt on the terminal.
  const auto no_phrase = [](char*, int, int, void*) { return -1; };
  private_key k(PEM_read_bio_PrivateKey(in->get(), nullptr, no_phrase, nullptr));
  if (!k) return unexpected(unreadable(file));
  return k;
}

expected<revocations, coded_error> load_revocations(const fs::path& ca_file) {
  const auto file = ca_file.parent_path() / revoked_file;
  std::error_code ec;
  if (!fs::exists(fs::symlink_status(file, ec))) return revocations();
  auto in = open_pem(file);
  if (!in) return unexpected(in.error());
  revocations list(PEM_read_bio_X509_CRL(in->get(), nullptr, nullptr, nullptr));
  if (!list) return unexpected(unreadable(file));
  auto ca = load_certificate(ca_file);
  if (!ca) return unexpected(ca.error());
  EVP_PKEY* key = X509_get0_pubkey(ca->get());
  if (key != nullptr && X509_CRL_verify(list.get(), key) == 1) return list;
  ERR_clear_error();
  return unexpected(
      coded_error{"certificate_unreadable", "[certificates] " + file.string() + " is not signed by " + ca_file.string()});
}

bool is_in(const revocations& list, X509* cert) {
  X509_REVOKED* entry = nullptr;
  return list && cert != nullptr && X509_CRL_get0_by_cert(list.get(), &entry, cert) == 1;
}

std::vector<std::string> texts_of(const X509_NAME* name, int nid) {
  std::vector<std::string> all;
  for (int at = X509_NAME_get_index_by_NID(name, nid, -1); at >= 0; at = X509_NAME_get_index_by_NID(name, nid, at)) {
    const ASN1_STRING* s = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at));
    all.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(s)), static_cast<std::size_t>(ASN1_STRING_length(s)));
  }
  return all;
}

bool is_of_another_ca(long verify_error) {
  switch (verify_error) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:  // a CA of the same name
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: return true;
    default: return false;
  }
}

std::string serial_of(X509* cert) {
  const std::unique_ptr<BIGNUM, freer<BN_free>> n(ASN1_INTEGER_to_BN(X509_get0_serialNumber(cert), nullptr));
  char* text = n ? BN_bn2hex(n.get()) : nullptr;
  std::string serial = text != nullptr ? text : "";
  OPENSSL_free(text);
  return serial;
}

}  // namespace pki

expected<certificate_info, coded_error> read_certificate(const fs::path& file) {
  auto cert = pki::load_certificate(file);
  if (!cert) return unexpected(cert.error());
  X509* c = cert->get();
  certificate_info info;
  info.name = first_of(X509_get_subject_name(c), NID_commonName);
  info.cluster = first_of(X509_get_subject_name(c), NID_organizationName);
  info.role = role_of_subject(info.name, pki::texts_of(X509_get_subject_name(c), NID_organizationalUnitName));
  info.serial = pki::serial_of(c);
  info.hosts = hosts_of(c);
  info.from = time_of(X509_get0_notBefore(c));
  info.until = time_of(X509_get0_notAfter(c));
  info.ca = X509_check_ca(c) == 1;
  return info;
}

expected<void, coded_error> check_certificate(const fs::path& ca, const fs::path& certificate_file, const fs::path& key_file,
                                              std::string_view name) {
  auto root = pki::load_certificate(ca);
  if (!root) return unexpected(root.error());
  auto cert = pki::load_certificate(certificate_file);
  if (!cert) return unexpected(cert.error());
  auto key = pki::load_key(key_file);
  if (!key) return unexpected(key.error());
  const std::string shown = "[certificates] " + certificate_file.string();
  if (X509_check_private_key(cert->get(), key->get()) != 1) {
    ERR_clear_error();
    return unexpected(
        coded_error{"key_mismatch", "[certificates] " + key_file.string() + " is not the key of " + certificate_file.string()});
  }
  const std::string carried = first_of(X509_get_subject_name(cert->get()), NID_commonName);
  if (carried != name)
    return unexpected(coded_error{"name_mismatch", shown + " has the common name " + carried + ", expected " + std::string(name)});
  const std::unique_ptr<X509_STORE, pki::freer<X509_STORE_free>> store(X509_STORE_new());
  const std::unique_ptr<X509_STORE_CTX, pki::freer<X509_STORE_CTX_free>> check(X509_STORE_CTX_new());
  if (!store || !check || X509_STORE_add_cert(store.get(), root->get()) != 1 ||
      X509_STORE_CTX_init(check.get(), store.get(), cert->get(), nullptr) != 1)
    return unexpected(pki::openssl_error("checking " + certificate_file.string()));
  if (X509_verify_cert(check.get()) == 1) {
    const auto revoked = pki::load_revocations(ca);
    if (!revoked) return unexpected(revoked.error());
    if (!pki::is_in(*revoked, cert->get())) return {};
    return unexpected(coded_error{"certificate_revoked",
                                  shown + " has been revoked: `troupe certs renew " + std::string(name) + "` makes a new one"});
  }
  const int why = X509_STORE_CTX_get_error(check.get());
  ERR_clear_error();
  const std::string text = shown + ": " + X509_verify_cert_error_string(why);
  if (why == X509_V_ERR_CERT_HAS_EXPIRED) return unexpected(coded_error{"certificate_expired", text});
  if (why == X509_V_ERR_CERT_NOT_YET_VALID) return unexpected(coded_error{"certificate_not_yet_valid", text});
  if (!pki::is_of_another_ca(why)) return unexpected(coded_error{"wrong_ca", text});
  return unexpected(coded_error{"wrong_ca", shown + " is signed by another CA than " + ca.string() +
                                                ": copy the folder that `troupe init-cluster` or `troupe certs` has made for " +
                                                std::string(name) + " as a whole, with its ca.pem (" +
                                                X509_verify_cert_error_string(why) + ")"});
}

}  // namespace troupe
