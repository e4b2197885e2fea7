#include "runtime/node/net/tls.hpp"

#include <linux/sockios.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/x509.h>
#include <sys/ioctl.h>

#include <array>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "runtime/node/pki/openssl.hpp"

namespace troupe::net {

namespace asio = boost::asio;

namespace {

// Bytes per write call; Asio's default is 64 KiB.
constexpr std::size_t bytes_per_call = std::size_t{8} << 20;
constexpr long max_certificate_chain = 16 << 10;  // bytes; limits the memory for an unauthenticated peer (promise 17)

// A list of buffers as two pointers: async_write copies its buffer sequence, and copying a vector
// would allocate.
struct buffer_view {
  using value_type = asio::const_buffer;
  using const_iterator = const asio::const_buffer*;
  const_iterator first, last;
  const_iterator begin() const { return first; }
  const_iterator end() const { return last; }
};

}  // namespace

struct tls_context::impl {
  asio::ssl::context context{asio::ssl::context::tls};
  pki::revocations revoked;
  std::string ca;  // the file
};

tls_context::tls_context(std::unique_ptr<impl> p) : impl_(std::move(p)) {}
tls_context::~tls_context() = default;

expected<std::shared_ptr<tls_context>, coded_error> tls_context::load(const std::filesystem::path& ca,
                                                                      const std::filesystem::path& certificate,
                                                                      const std::filesystem::path& key) {
  auto made = std::make_unique<impl>();
  auto& c = made->context;
  SSL_CTX* raw = c.native_handle();
  boost::system::error_code ec;
  const auto failed = [&](const std::filesystem::path& file) {
    return unexpected(coded_error{"certificate_unreadable", "[tls] " + file.string() + ": " + ec.message()});
  };
  if (c.load_verify_file(ca.string(), ec)) return failed(ca);
  if (c.use_certificate_chain_file(certificate.string(), ec)) return failed(certificate);
  if (c.use_private_key_file(key.string(), asio::ssl::context::pem, ec)) return failed(key);
  // AES-128 first: the fastest on CPUs with AES instructions, and strong enough.
  if (SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) != 1 || SSL_CTX_check_private_key(raw) != 1 ||
      SSL_CTX_set_ciphersuites(raw, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256") != 1)
    return unexpected(coded_error{"key_mismatch", "[tls] " + key.string() + " is not the key of " + certificate.string()});
  // Sessions are never resumed: every connection proves its certificate again.
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(raw, 0);
  SSL_CTX_set_max_cert_list(raw, max_certificate_chain);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  made->ca = ca.string();
  auto revoked = pki::load_revocations(ca);
  if (!revoked) return unexpected(revoked.error());
  made->revoked = std::move(*revoked);
  if (made->revoked && (X509_STORE_add_crl(SSL_CTX_get_cert_store(raw), made->revoked.get()) != 1 ||
                        X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(raw), X509_V_FLAG_CRL_CHECK) != 1))
    return unexpected(coded_error{"certificate_unreadable", "[tls] the revocation list of " + ca.string() + " cannot be used"});
  return std::make_shared<tls_context>(std::move(made));
}

struct tls_stream::impl {
  std::shared_ptr<tls_context> context;
  asio::ssl::stream<asio::ip::tcp::socket> stream;
  std::uint64_t steps = 0;
};

tls_stream::tls_stream(asio::ip::tcp::socket&& socket, std::shared_ptr<tls_context> context)
    : impl_(new impl{context, asio::ssl::stream<asio::ip::tcp::socket>(std::move(socket), context->get().context), 0}) {}
tls_stream::~tls_stream() = default;

bool tls_context::revokes(const tls_stream& s) const {
  const pki::certificate certificate(SSL_get1_peer_certificate(s.impl_->stream.native_handle()));
  return pki::is_in(impl_->revoked, certificate.get());
}

void tls_stream::handshake(bool as_server, handler done) {
  impl_->stream.async_handshake(as_server ? asio::ssl::stream_base::server : asio::ssl::stream_base::client,
                                [done = std::move(done)](const error_code& ec) { done(ec, 0); });
}

void tls_stream::read_some(std::span<std::byte> into, handler done) {
  impl_->stream.async_read_some(asio::buffer(into.data(), into.size()), std::move(done));
}

void tls_stream::write(std::span<const asio::const_buffer> buffers, handler done) {
  // Called before each partial write; the handler, which outlives it, keeps the stream alive.
  const auto whole = [steps = &impl_->steps](const error_code& ec, std::size_t) {
    ++*steps;
    return ec ? 0 : bytes_per_call;
  };
  asio::async_write(impl_->stream, buffer_view{buffers.data(), buffers.data() + buffers.size()}, whole, std::move(done));
}

void tls_stream::close() {
  boost::system::error_code ignored;
  auto& socket = impl_->stream.next_layer();
  socket.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket.close(ignored);
}

std::uint64_t tls_stream::steps_written() const { return impl_->steps; }

std::uint64_t tls_stream::undelivered() {
  int bytes = 0;
  return ::ioctl(impl_->stream.next_layer().native_handle(), SIOCOUTQ, &bytes) == 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

std::optional<tls_stream::proved> tls_stream::peer() const {
  const pki::certificate certificate(SSL_get1_peer_certificate(impl_->stream.native_handle()));
  if (!certificate) return std::nullopt;
  const X509_NAME* subject = X509_get_subject_name(certificate.get());
  const auto names = pki::texts_of(subject, NID_commonName);
  if (names.size() != 1) return std::nullopt;
  const auto role = role_of_subject(names[0], pki::texts_of(subject, NID_organizationalUnitName));
  if (!role) return std::nullopt;
  return proved{names[0], *role};
}

coded_error tls_stream::describe(const error_code& ec) const {
  if (ec == asio::error::eof || ec == asio::ssl::error::stream_truncated || ec == asio::error::connection_reset ||
      ec == asio::error::broken_pipe)
    return {"connection_lost", "[tls] the peer closed the connection: " + ec.message()};
  if (ec.category() != asio::error::get_ssl_category()) return {"connection_lost", "[tls] " + ec.message()};
  switch (ERR_GET_REASON(static_cast<unsigned long>(ec.value()))) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED: {
      const long why = SSL_get_verify_result(impl_->stream.native_handle());
      const auto other = pki::is_of_another_ca(why) ? "; it is signed by another CA: expected that of " + impl_->context->get().ca +
                                                          ", so copy the ca.pem of one cluster, and certificates that it has "
                                                          "signed, to both machines"
                                                    : std::string();
      return {"certificate_refused", std::string("[tls] the peer's certificate: ") + X509_verify_cert_error_string(why) + other};
    }
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: return {"certificate_refused", "[tls] the peer sent no certificate"};
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
      return {"certificate_rejected",
              "[tls] the peer does not accept this node's certificate: it is signed by another CA than the "
              "peer's ca.pem; copy the ca.pem of one cluster (here " +
                  impl_->context->get().ca + "), and certificates that it has signed, to both machines"};
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return {"certificate_rejected", "[tls] the peer does not accept this node's certificate: " + ec.message()};
    default: return {"tls_error", "[tls] " + ec.message()};
  }
}

}  // namespace troupe::net
