#include "runtime/node/pki/certificates.hpp"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <array>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "runtime/access/names.hpp"
#include "runtime/node/net/hello.hpp"
#include "runtime/node/pki/files.hpp"
#include "runtime/node/pki/openssl.hpp"

namespace troupe {

namespace fs = std::filesystem;

using pki::alternative_names;
using pki::bio;
using pki::certificate;
using pki::freer;
using pki::load_certificate;
using pki::load_key;
using pki::openssl_error;
using pki::private_key;

namespace {

struct identity {
  certificate cert;
  private_key key;
};
using role = std::optional<certificate_role>;  // empty: the CA

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

// Built as values, not as text in the syntax of extension configurations.
bool add_alternative_names(X509* cert, const certificate_subject& who) {
  const alternative_names names(GENERAL_NAMES_new());
  if (!names || !push_name(names.get(), who.name)) return false;
  for (const std::string& host : who.hosts)
    if (host != who.name && !push_name(names.get(), host)) return false;
  return X509_add1_ext_i2d(cert, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) == 1;
}

bool set_name(X509_NAME* name, const std::string& cluster, role as, const std::string& common) {
  const auto add = [&](int nid, const std::string& text) {
    return X509_NAME_add_entry_by_NID(name, nid, MBSTRING_ASC, reinterpret_cast<const unsigned char*>(text.data()),
                                      static_cast<int>(text.size()), -1, 0) == 1;
  };
  return add(NID_organizationName, cluster) && (!as || add(NID_organizationalUnitName, text_of(*as))) &&
         add(NID_commonName, common);
}

bool set_random_serial(X509* cert) {
  const std::unique_ptr<BIGNUM, freer<BN_free>> n(BN_new());
  return n && BN_rand(n.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(n.get(), X509_get_serialNumber(cert)) != nullptr;
}

bool add_extensions(X509* cert, X509* issuer, role as, const certificate_subject& who) {
  const bool ca = !as;
  if (!add_extension(cert, issuer, NID_basic_constraints, ca ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") ||
      !add_extension(cert, issuer, NID_key_usage, ca ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") ||
      !add_extension(cert, issuer, NID_subject_key_identifier, "hash") ||
      !add_extension(cert, issuer, NID_authority_key_identifier, "keyid:always"))
    return false;
  if (ca) return true;
  return add_extension(cert, issuer, NID_ext_key_usage, *as == certificate_role::node ? "serverAuth,clientAuth" : "clientAuth") &&
         add_alternative_names(cert, who);
}

// `signer` is null for the CA, which signs itself.
expected<identity, coded_error> issue(role as, const std::string& cluster, const certificate_subject& who, const identity* signer,
                                      const certificate_options& options) {
  identity made{certificate(X509_new()), private_key(EVP_EC_gen("P-256"))};
  X509* cert = made.cert.get();
  if (cert == nullptr || !made.key) return unexpected(openssl_error("making a key"));
  X509* issuer = signer != nullptr ? signer->cert.get() : cert;
  EVP_PKEY* sign_with = signer != nullptr ? signer->key.get() : made.key.get();
  if (X509_set_version(cert, X509_VERSION_3) != 1 || !set_random_serial(cert) ||
      X509_gmtime_adj(X509_getm_notBefore(cert), options.from.count()) == nullptr ||
      X509_gmtime_adj(X509_getm_notAfter(cert), options.until.count()) == nullptr || X509_set_pubkey(cert, made.key.get()) != 1 ||
      !set_name(X509_get_subject_name(cert), cluster, as, who.name) ||
      X509_set_issuer_name(cert, X509_get_subject_name(issuer)) != 1 || !add_extensions(cert, issuer, as, who) ||
      X509_sign(cert, sign_with, EVP_sha256()) == 0)
    return unexpected(openssl_error("making the certificate of " + who.name));
  return made;
}

expected<std::string, coded_error> pem_of(const identity& id, bool key) {
  const bio out(BIO_new(BIO_s_secmem()));
  const bool fine = out && (key ? PEM_write_bio_PKCS8PrivateKey(out.get(), id.key.get(), nullptr, nullptr, 0, nullptr, nullptr)
                                : PEM_write_bio_X509(out.get(), id.cert.get())) == 1;
  if (!fine) return unexpected(openssl_error("writing PEM"));
  char* text = nullptr;
  const long n = BIO_get_mem_data(out.get(), &text);
  return std::string(text, static_cast<std::size_t>(n));
}

// Plans the pair of `name` in `dir` or, if `ca` is given, in a folder `name` below it, together
// with the CA's certificate.
expected<void, coded_error> plan(std::vector<planned_file>& files, fs::path dir, std::string_view name, const identity& id,
                                 const identity* ca) {
  auto cert = pem_of(id, false), key = pem_of(id, true);
  if (!cert) return unexpected(cert.error());
  if (!key) return unexpected(key.error());
  if (ca) dir /= name;
  if (ca && ca != &id) {
    auto root = pem_of(*ca, false);
    if (!root) return unexpected(root.error());
    files.push_back({dir / "ca.pem", std::move(*root), 0644});
  }
  files.push_back({dir / (std::string(name) + ".pem"), std::move(*cert), 0644});
  files.push_back({dir / (std::string(name) + ".key"), std::move(*key), 0600});
  return {};
}

expected<void, coded_error> check_subject(const certificate_subject& who) {
  if (!valid_node_name(who.name) || is_operator(who.name) || who.name == "ca")
    return unexpected(coded_error{"bad_name", "[certificates] '" + who.name + "' is not a valid node name"});
  for (const std::string& host : who.hosts) {
    std::array<unsigned char, sizeof(in6_addr)> ignored{};
    const bool ip =
        ::inet_pton(AF_INET, host.c_str(), ignored.data()) == 1 || ::inet_pton(AF_INET6, host.c_str(), ignored.data()) == 1;
    const bool dns =
        host.size() < 254 &&
        host.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == std::string::npos;
    if (host.empty() || (!ip && !dns))
      return unexpected(coded_error{"bad_name", "[certificates] '" + host + "' is not a valid address for " + who.name});
  }
  return {};
}

}  // namespace

expected<void, coded_error> make_cluster_certificates(const fs::path& dir, const std::string& cluster,
                                                      const std::vector<certificate_subject>& nodes,
                                                      const certificate_options& options) {
  if (!valid_node_name(cluster))
    return unexpected(coded_error{"bad_name", "[certificates] '" + cluster + "' is not a valid cluster name"});
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (auto fine = check_subject(nodes[i]); !fine) return fine;
    for (std::size_t k = 0; k < i; ++k)
      if (nodes[k].name == nodes[i].name)
        return unexpected(coded_error{"bad_name", "[certificates] two nodes are called " + nodes[i].name});
  }
  auto ca = issue(std::nullopt, cluster, {cluster + " CA", {}}, nullptr, options);
  if (!ca) return unexpected(ca.error());
  const identity* each = options.one_folder_each ? &*ca : nullptr;
  std::vector<planned_file> files;
  if (auto done = plan(files, dir, "ca", *ca, each); !done) return done;
  for (const certificate_subject& who : nodes) {
    auto id = issue(certificate_role::node, cluster, who, &*ca, options);
    if (!id) return unexpected(id.error());
    if (auto done = plan(files, dir, who.name, *id, each); !done) return done;
  }
  auto client = issue(certificate_role::admin, cluster, {std::string(client_name), {}}, &*ca, options);
  if (!client) return unexpected(client.error());
  if (auto done = plan(files, dir, client_name, *client, each); !done) return done;
  if (auto ready = prepare_closed_folder(dir); !ready) return ready;
  return write_planned_files(files, dir, options.overwrite);
}

fs::path certificate_folder(const fs::path& dir, std::string_view name) {
  std::error_code ec;
  return fs::is_directory(dir / name, ec) ? dir / name : dir;
}

namespace {

expected<identity, coded_error> load_ca(const fs::path& home) {
  auto cert = load_certificate(home / "ca.pem");
  if (!cert) return unexpected(cert.error());
  auto key = load_key(home / "ca.key");
  if (!key) return unexpected(key.error());
  return identity{std::move(*cert), std::move(*key)};
}

std::string cluster_of(const identity& ca) {
  const auto all = pki::texts_of(X509_get_subject_name(ca.cert.get()), NID_organizationName);
  return all.empty() ? std::string() : all.front();
}

// Plans a copy of the revocation list in `home` for `into`, a folder that gets a certificate.
expected<void, coded_error> plan_revoked(std::vector<planned_file>& files, const fs::path& home, const fs::path& into) {
  std::ifstream in(home / revoked_file, std::ios::binary);
  if (!in.is_open() || home == into) return {};
  files.push_back({into / revoked_file, {std::istreambuf_iterator<char>(in), {}}, 0644});
  return {};
}

coded_error taken(const std::string& name) { return {"exists", "[certificates] there is a " + name + " in this cluster already"}; }

}  // namespace

expected<void, coded_error> add_node_certificate(const fs::path& dir, const certificate_subject& node,
                                                 const certificate_options& options) {
  if (auto fine = check_subject(node); !fine) return fine;
  if (fs::exists(operator_folder(dir, node.name))) return unexpected(taken("client called " + node.name));
  const auto home = certificate_folder(dir, "ca");
  const auto ca = load_ca(home);
  if (!ca) return unexpected(ca.error());
  auto id = issue(certificate_role::node, cluster_of(*ca), node, &*ca, options);
  if (!id) return unexpected(id.error());
  std::vector<planned_file> files;
  if (auto done = plan(files, dir, node.name, *id, home == dir ? nullptr : &*ca); !done) return done;
  if (home != dir)
    if (auto done = plan_revoked(files, home, dir / node.name); !done) return done;
  return write_planned_files(files, dir, options.overwrite);
}

fs::path operator_folder(const fs::path& dir, std::string_view name) {
  return name == client_name ? certificate_folder(dir, name) : dir / (std::string(client_name) + "." + std::string(name));
}

expected<void, coded_error> add_operator_certificate(const fs::path& dir, const std::string& name, certificate_role as,
                                                     const certificate_options& options) {
  if (as == certificate_role::node)
    return unexpected(
        coded_error{"bad_role", "[certificates] a client cannot have the role node; roles of clients: " + client_roles_text()});
  if (!valid_operator_name(name))
    return unexpected(coded_error{
        "bad_name", "[certificates] '" + name + "' is not a valid client name: use letters, digits, '-' and '_', 32 at most"});
  if (name != client_name && fs::exists(certificate_folder(dir, name) / (name + ".pem")))
    return unexpected(taken("node called " + name));
  const auto home = certificate_folder(dir, "ca");
  const auto ca = load_ca(home);
  if (!ca) return unexpected(ca.error());
  const auto common = name == client_name ? name : std::string(client_name) + "." + name;
  auto id = issue(as, cluster_of(*ca), {common, {}}, &*ca, options);
  if (!id) return unexpected(id.error());
  const auto folder = operator_folder(dir, name);
  auto cert = pem_of(*id, false), key = pem_of(*id, true), root = pem_of(*ca, false);
  if (!cert) return unexpected(cert.error());
  if (!key) return unexpected(key.error());
  if (!root) return unexpected(root.error());
  std::vector<planned_file> files;
  if (folder != dir) files.push_back({folder / "ca.pem", std::move(*root), 0644});
  files.push_back({folder / "client.pem", std::move(*cert), 0644});
  files.push_back({folder / "client.key", std::move(*key), 0600});
  if (auto done = plan_revoked(files, home, folder); !done) return done;
  if (auto ready = prepare_closed_folder(folder); !ready) return ready;
  return write_planned_files(files, folder, options.overwrite);
}

}  // namespace troupe
