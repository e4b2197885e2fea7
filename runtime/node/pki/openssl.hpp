// OpenSSL objects with owners, and certificate files. For this folder and the TLS code.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe::pki {

template <auto free_it>
struct freer {
  template <class T>
  void operator()(T* p) const {
    free_it(p);
  }
};
using certificate = std::unique_ptr<X509, freer<X509_free>>;
using private_key = std::unique_ptr<EVP_PKEY, freer<EVP_PKEY_free>>;
using revocations = std::unique_ptr<X509_CRL, freer<X509_CRL_free>>;
using bio = std::unique_ptr<BIO, freer<BIO_free_all>>;
using alternative_names = std::unique_ptr<GENERAL_NAMES, freer<GENERAL_NAMES_free>>;

coded_error openssl_error(const std::string& doing);

// Errors: "certificate_missing", "certificate_unreadable"; for a key also "key_exposed".
expected<certificate, coded_error> load_certificate(const std::filesystem::path& file);
expected<private_key, coded_error> load_key(const std::filesystem::path& file);
// The CA's revocation list, next to its certificate; null if there is none. A list that this CA has
// not signed is an error.
expected<revocations, coded_error> load_revocations(const std::filesystem::path& ca_file);
bool is_in(const revocations& list, X509* cert);

// Whether an error of OpenSSL's verification means that another CA has signed the certificate.
bool is_of_another_ca(long verify_error);

// All values of one kind in a name.
std::vector<std::string> texts_of(const X509_NAME* name, int nid);
std::string serial_of(X509* cert);  // hexadecimal

}  // namespace troupe::pki
