#include "runtime/node/pki/certificates.hpp"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "runtime/node/net/hello.hpp"
#include "runtime/node/pki/files.hpp"

namespace troupe {

namespace fs = std::filesystem;
using net::error;
using net::expected;

namespace {

template <auto free_it>
struct freer {
  template <class T>
  void operator()(T* p) const {
    free_it(p);
  }
};
using certificate = std::unique_ptr<X509, freer<X509_free>>;
using private_key = std::unique_ptr<EVP_PKEY, freer<EVP_PKEY_free>>;
using bio = std::unique_ptr<BIO, freer<BIO_free_all>>;
using alternative_names = std::unique_ptr<GENERAL_NAMES, freer<GENERAL_NAMES_free>>;

error openssl_error(const std::string& doing) {
  const unsigned long e = ERR_get_error();
  std::array<char, 256> text{};
  ERR_error_string_n(e, text.data(), text.size());
  ERR_clear_error();
  return {"openssl", "[certificates] " + doing + ": " + (e == 0 ? "failed" : text.data())};
}

struct identity {
  certificate cert;
  private_key key;
};
enum class role { ca, node, client };

bool add_extension(X509* cert, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, freer<X509_EXTENSION_free>> e(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  return e && X509_add_ext(cert, e.get(), -1) == 1;
}

bool push_name(GENERAL_NAMES* names, const std::string& host) {
  GENERAL_NAME* name = nullptr;
  if (ASN1_OCTET_STRING* ip = a2i_IPADDRESS(host.c_str()); ip != nullptr) {
    name = GENERAL_NAME_new();
    if (name == nullptr) return ASN1_OCTET_STRING_free(ip), false;
    GENERAL_NAME_set0_value(name, GEN_IPADD, ip);
  } else {
    ERR_clear_error();
    ASN1_IA5STRING* dns = ASN1_IA5STRING_new();
    name = GENERAL_NAME_new();
    if (dns == nullptr || name == nullptr || ASN1_STRING_set(dns, host.data(), static_cast<int>(host.size())) != 1)
      return ASN1_IA5STRING_free(dns), GENERAL_NAME_free(name), false;
    GENERAL_NAME_set0_value(name, GEN_DNS, dns);
  }
  if (sk_GENERAL_NAME_push(names, name) > 0) return true;
  GENERAL_NAME_free(name);
  return false;
}

// Built as values, never by pasting text into an extension's configuration syntax.
bool add_alternative_names(X509* cert, const certificate_subject& who) {
  const alternative_names names(GENERAL_NAMES_new());
  if (!names || !push_name(names.get(), who.name)) return false;
  for (const std::string& host : who.hosts)
    if (host != who.name && !push_name(names.get(), host)) return false;
  return X509_add1_ext_i2d(cert, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) == 1;
}

bool set_name(X509_NAME* name, const std::string& cluster, const std::string& common) {
  const auto add = [&](int nid, const std::string& text) {
    return X509_NAME_add_entry_by_NID(name, nid, MBSTRING_ASC, reinterpret_cast<const unsigned char*>(text.data()),
                                      static_cast<int>(text.size()), -1, 0) == 1;
  };
  return add(NID_organizationName, cluster) && add(NID_commonName, common);
}

bool set_random_serial(X509* cert) {
  const std::unique_ptr<BIGNUM, freer<BN_free>> n(BN_new());
  return n && BN_rand(n.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(n.get(), X509_get_serialNumber(cert)) != nullptr;
}

bool add_extensions(X509* cert, X509* issuer, role as, const certificate_subject& who) {
  const bool ca = as == role::ca;
  if (!add_extension(cert, issuer, NID_basic_constraints, ca ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") ||
      !add_extension(cert, issuer, NID_key_usage, ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") ||
      !add_extension(cert, issuer, NID_subject_key_identifier, "hash") ||
      !add_extension(cert, issuer, NID_authority_key_identifier, "keyid:always"))
    return false;
  if (ca) return true;
  return add_extension(cert, issuer, NID_ext_key_usage, as == role::node ? "serverAuth,clientAuth" : "clientAuth") &&
         add_alternative_names(cert, who);
}

// `signer` is null for the CA, which signs itself.
expected<identity> issue(role as, const std::string& cluster, const certificate_subject& who, const identity* signer,
                         const certificate_options& options) {
  identity made{certificate(X509_new()), private_key(EVP_EC_gen("P-256"))};
  X509* cert = made.cert.get();
  if (cert == nullptr || !made.key) return openssl_error("making a key");
  X509* issuer = signer != nullptr ? signer->cert.get() : cert;
  EVP_PKEY* sign_with = signer != nullptr ? signer->key.get() : made.key.get();
  if (X509_set_version(cert, X509_VERSION_3) != 1 || !set_random_serial(cert) ||
      X509_gmtime_adj(X509_getm_notBefore(cert), options.from.count()) == nullptr ||
      X509_gmtime_adj(X509_getm_notAfter(cert), options.until.count()) == nullptr || X509_set_pubkey(cert, made.key.get()) != 1 ||
      !set_name(X509_get_subject_name(cert), cluster, who.name) || X509_set_issuer_name(cert, X509_get_subject_name(issuer)) != 1 ||
      !add_extensions(cert, issuer, as, who) || X509_sign(cert, sign_with, EVP_sha256()) == 0)
    return openssl_error("making the certificate of " + who.name);
  return made;
}

expected<std::string> pem_of(const identity& id, bool key) {
  const bio out(BIO_new(BIO_s_secmem()));
  const bool fine = out && (key ? PEM_write_bio_PKCS8PrivateKey(out.get(), id.key.get(), nullptr, nullptr, 0, nullptr, nullptr)
                                : PEM_write_bio_X509(out.get(), id.cert.get())) == 1;
  if (!fine) return openssl_error("writing PEM");
  char* text = nullptr;
  const long n = BIO_get_mem_data(out.get(), &text);
  return std::string(text, static_cast<std::size_t>(n));
}

// The pair of `name` in `dir`; in a folder of its own below it, with the CA's certificate beside it, when `ca` is given.
expected<void> plan(std::vector<planned_file>& files, fs::path dir, std::string_view name, const identity& id, const identity* ca) {
  auto cert = pem_of(id, false), key = pem_of(id, true);
  if (!cert) return cert.error();
  if (!key) return key.error();
  if (ca) dir /= name;
  if (ca && ca != &id) {
    auto root = pem_of(*ca, false);
    if (!root) return root.error();
    files.push_back({dir / "ca.pem", std::move(*root), 0644});
  }
  files.push_back({dir / (std::string(name) + ".pem"), std::move(*cert), 0644});
  files.push_back({dir / (std::string(name) + ".key"), std::move(*key), 0600});
  return {};
}

expected<void> check_subject(const certificate_subject& who) {
  if (!net::valid_node_name(who.name) || net::is_operator(who.name) || who.name == "ca")
    return error{"bad_name", "[certificates] '" + who.name + "' cannot be a node's name"};
  for (const std::string& host : who.hosts) {
    std::array<unsigned char, sizeof(in6_addr)> ignored{};
    const bool ip =
        ::inet_pton(AF_INET, host.c_str(), ignored.data()) == 1 || ::inet_pton(AF_INET6, host.c_str(), ignored.data()) == 1;
    const bool dns =
        host.size() < 254 &&
        host.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == std::string::npos;
    if (host.empty() || (!ip && !dns)) return error{"bad_name", "[certificates] '" + host + "' is no address of " + who.name};
  }
  return {};
}

expected<bio> open_pem(const fs::path& file) {
  bio in(BIO_new_file(file.c_str(), "r"));
  if (in) return in;
  ERR_clear_error();
  return error{"certificate_missing", "[certificates] cannot open " + file.string()};
}

error unreadable(const fs::path& file) {
  ERR_clear_error();
  return {"certificate_unreadable", "[certificates] " + file.string() + " is not what its name says"};
}

expected<certificate> load_certificate(const fs::path& file) {
  auto in = open_pem(file);
  if (!in) return in.error();
  certificate c(PEM_read_bio_X509(in->get(), nullptr, nullptr, nullptr));
  if (!c) return unreadable(file);
  return c;
}

expected<private_key> load_key(const fs::path& file) {
  struct stat s {};
  if (::stat(file.c_str(), &s) == 0 && (s.st_mode & (S_IRWXO | S_IWGRP)) != 0)
    return error{"key_exposed", "[certificates] " + file.string() + " is open to other users: chmod 600 it"};
  auto in = open_pem(file);
  if (!in) return in.error();
  // A key with a pass phrase is refused rather than asked for on the terminal.
  const auto no_phrase = [](char*, int, int, void*) { return -1; };
  private_key k(PEM_read_bio_PrivateKey(in->get(), nullptr, no_phrase, nullptr));
  if (!k) return unreadable(file);
  return k;
}

std::string text_of(const X509_NAME* name, int nid) {
  const int at = X509_NAME_get_index_by_NID(name, nid, -1);
  if (at < 0) return {};
  const ASN1_STRING* s = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at));
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(s)), static_cast<std::size_t>(ASN1_STRING_length(s))};
}

std::chrono::system_clock::time_point time_of(const ASN1_TIME* t) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(t, &parts) != 1) return {};
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

std::vector<std::string> hosts_of(X509* cert) {
  std::vector<std::string> hosts;
  const alternative_names names(static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(cert, NID_subject_alt_name, nullptr, nullptr)));
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

}  // namespace

expected<void> make_cluster_certificates(const fs::path& dir, const std::string& cluster,
                                         const std::vector<certificate_subject>& nodes, const certificate_options& options) {
  if (!net::valid_node_name(cluster)) return error{"bad_name", "[certificates] '" + cluster + "' cannot be a cluster's name"};
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (auto fine = check_subject(nodes[i]); !fine) return fine;
    for (std::size_t k = 0; k < i; ++k)
      if (nodes[k].name == nodes[i].name) return error{"bad_name", "[certificates] two nodes are called " + nodes[i].name};
  }
  auto ca = issue(role::ca, cluster, {cluster + " CA", {}}, nullptr, options);
  if (!ca) return ca.error();
  const identity* each = options.one_folder_each ? &*ca : nullptr;
  std::vector<planned_file> files;
  if (auto done = plan(files, dir, "ca", *ca, each); !done) return done;
  for (const certificate_subject& who : nodes) {
    auto id = issue(role::node, cluster, who, &*ca, options);
    if (!id) return id.error();
    if (auto done = plan(files, dir, who.name, *id, each); !done) return done;
  }
  auto client = issue(role::client, cluster, {std::string(client_name), {}}, &*ca, options);
  if (!client) return client.error();
  if (auto done = plan(files, dir, client_name, *client, each); !done) return done;
  if (auto ready = prepare_closed_folder(dir); !ready) return ready;
  return write_planned_files(files, dir, options.overwrite);
}

fs::path certificate_folder(const fs::path& dir, std::string_view name) {
  std::error_code ec;
  return fs::is_directory(dir / name, ec) ? dir / name : dir;
}

expected<void> add_node_certificate(const fs::path& dir, const certificate_subject& node, const certificate_options& options) {
  if (auto fine = check_subject(node); !fine) return fine;
  const auto home = certificate_folder(dir, "ca");
  auto cert = load_certificate(home / "ca.pem");
  if (!cert) return cert.error();
  auto key = load_key(home / "ca.key");
  if (!key) return key.error();
  const identity ca{std::move(*cert), std::move(*key)};
  auto id = issue(role::node, text_of(X509_get_subject_name(ca.cert.get()), NID_organizationName), node, &ca, options);
  if (!id) return id.error();
  std::vector<planned_file> files;
  if (auto done = plan(files, dir, node.name, *id, home == dir ? nullptr : &ca); !done) return done;
  return write_planned_files(files, dir, options.overwrite);
}

expected<certificate_info> read_certificate(const fs::path& file) {
  auto cert = load_certificate(file);
  if (!cert) return cert.error();
  X509* c = cert->get();
  certificate_info info;
  info.name = text_of(X509_get_subject_name(c), NID_commonName);
  info.cluster = text_of(X509_get_subject_name(c), NID_organizationName);
  info.hosts = hosts_of(c);
  info.from = time_of(X509_get0_notBefore(c));
  info.until = time_of(X509_get0_notAfter(c));
  info.ca = X509_check_ca(c) == 1;
  return info;
}

expected<void> check_certificate(const fs::path& ca, const fs::path& certificate_file, const fs::path& key_file,
                                 std::string_view name) {
  auto root = load_certificate(ca);
  if (!root) return root.error();
  auto cert = load_certificate(certificate_file);
  if (!cert) return cert.error();
  auto key = load_key(key_file);
  if (!key) return key.error();
  const std::string shown = "[certificates] " + certificate_file.string();
  if (X509_check_private_key(cert->get(), key->get()) != 1) {
    ERR_clear_error();
    return error{"key_mismatch", "[certificates] " + key_file.string() + " is not the key of " + certificate_file.string()};
  }
  const std::string carried = text_of(X509_get_subject_name(cert->get()), NID_commonName);
  if (carried != name) return error{"name_mismatch", shown + " is made out to " + carried + ", not to " + std::string(name)};
  const std::unique_ptr<X509_STORE, freer<X509_STORE_free>> store(X509_STORE_new());
  const std::unique_ptr<X509_STORE_CTX, freer<X509_STORE_CTX_free>> check(X509_STORE_CTX_new());
  if (!store || !check || X509_STORE_add_cert(store.get(), root->get()) != 1 ||
      X509_STORE_CTX_init(check.get(), store.get(), cert->get(), nullptr) != 1)
    return openssl_error("checking " + certificate_file.string());
  if (X509_verify_cert(check.get()) == 1) return {};
  const int why = X509_STORE_CTX_get_error(check.get());
  ERR_clear_error();
  const std::string text = shown + ": " + X509_verify_cert_error_string(why);
  if (why == X509_V_ERR_CERT_HAS_EXPIRED) return error{"certificate_expired", text};
  if (why == X509_V_ERR_CERT_NOT_YET_VALID) return error{"certificate_not_yet_valid", text};
  return error{"wrong_ca", text};
}

}  // namespace troupe
