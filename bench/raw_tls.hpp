// Throughput of OpenSSL alone over loopback: two threads of one process with a blocking socket
// each; one large buffer is written and read repeatedly. It is the upper limit for TLS without
// kernel TLS. Same certificates as the transport; the cipher is the one that both ends negotiate.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace raw_tls {

struct context {
  SSL_CTX* c;
  context(const SSL_METHOD* m, const std::filesystem::path& dir, const std::string& name) : c(SSL_CTX_new(m)) {
    SSL_CTX_use_certificate_chain_file(c, (dir / (name + ".pem")).c_str());
    SSL_CTX_use_PrivateKey_file(c, (dir / (name + ".key")).c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256");  // as the transport prefers
  }
  ~context() { SSL_CTX_free(c); }
  context(const context&) = delete;
  context& operator=(const context&) = delete;
};

inline void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

// GiB per second. Sets `cipher` to the negotiated cipher.
inline double gib_per_second(const std::filesystem::path& dir, std::size_t bytes, int times, std::string& cipher) {
  const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  if (::bind(listening, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::listen(listening, 1) != 0) fail("listen");
  ::getsockname(listening, reinterpret_cast<sockaddr*>(&at), &size);
  const auto one = [](int fd) {
    const int yes = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  };
  std::vector<unsigned char> block(bytes, 7);
  std::chrono::duration<double> took{};
  std::thread reader([&] {
    const context c(TLS_server_method(), dir, "b");
    const int fd = ::accept(listening, nullptr, nullptr);
    one(fd);
    SSL* s = SSL_new(c.c);
    SSL_set_fd(s, fd);
    if (SSL_accept(s) != 1) fail("SSL_accept");
    std::vector<unsigned char> into(bytes);
    const auto begun = std::chrono::steady_clock::now();
    for (std::uint64_t left = static_cast<std::uint64_t>(times) * bytes, place = 0; left > 0;) {
      const int n = SSL_read(s, into.data() + place, static_cast<int>(std::min<std::uint64_t>(left, bytes - place)));
      if (n <= 0) fail("SSL_read");
      left -= static_cast<std::uint64_t>(n);
      place = (place + static_cast<std::uint64_t>(n)) % bytes;
    }
    took = std::chrono::steady_clock::now() - begun;
    SSL_free(s);
    ::close(fd);
  });
  {
    const context c(TLS_client_method(), dir, "a");
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&at), size) != 0) fail("connect");
    one(fd);
    SSL* s = SSL_new(c.c);
    SSL_set_fd(s, fd);
    if (SSL_connect(s) != 1) fail("SSL_connect");
    cipher = SSL_get_cipher_name(s);
    for (int i = 0; i < times; ++i)
      if (SSL_write(s, block.data(), static_cast<int>(bytes)) != static_cast<int>(bytes)) fail("SSL_write");
    reader.join();
    SSL_free(s);
    ::close(fd);
  }
  ::close(listening);
  return static_cast<double>(times) * static_cast<double>(bytes) / static_cast<double>(1 << 30) / took.count();
}

}  // namespace raw_tls
