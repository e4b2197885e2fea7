// A TLS 1.3 stream with plain function callbacks. The only user of asio::ssl, whose templates are
// slow to compile. Everything here runs on the I/O thread.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/access/roles.hpp"
#include "runtime/base/result.hpp"

namespace troupe::net {

// Certificate, key, CA and its revocation list (revoked.pem next to the CA's file), for all
// connections that begin with it.
class tls_context {
 public:
  struct impl;
  static expected<std::shared_ptr<tls_context>, coded_error> load(const std::filesystem::path& ca,
                                                                  const std::filesystem::path& certificate,
                                                                  const std::filesystem::path& key);
  explicit tls_context(std::unique_ptr<impl> p);
  bool revokes(const class tls_stream& s) const;  // true if the peer's certificate is revoked; false before the handshake
  ~tls_context();
  impl& get() { return *impl_; }

 private:
  std::unique_ptr<impl> impl_;
};

class tls_stream {
 public:
  using error_code = boost::system::error_code;
  using handler = std::function<void(const error_code&, std::size_t)>;

  tls_stream(boost::asio::ip::tcp::socket&& socket, std::shared_ptr<tls_context> context);
  ~tls_stream();

  // Handlers keep their owner alive; none runs inside the call that starts the operation.
  void handshake(bool as_server, handler done);
  void read_some(std::span<std::byte> into, handler done);
  // Writes all bytes. The span of buffers, too, must stay valid until `done`.
  void write(std::span<const boost::asio::const_buffer> buffers, handler done);
  void close();  // pending operations complete with an error

  // Progress of the current write: partial writes that the socket has taken, and bytes in the
  // socket that the peer has not acknowledged.
  std::uint64_t steps_written() const;
  std::uint64_t undelivered();

  // The identity that the peer has proved. Empty before the handshake, and if the certificate's
  // subject has no form that a cluster's CA issues.
  struct proved {
    std::string common_name;
    certificate_role role = certificate_role::node;
  };
  std::optional<proved> peer() const;
  coded_error describe(const error_code& ec) const;  // turns TLS reasons into named errors

 private:
  friend tls_context;
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::net
