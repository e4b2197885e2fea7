#include "runtime/node/http/access.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <cstring>

namespace troupe::http {
namespace {

constexpr std::size_t longest_token = 4096;

bool numeric(std::string_view host, boost::asio::ip::address* into = nullptr) {
  boost::system::error_code ec;
  const auto a = boost::asio::ip::make_address(std::string(host), ec);
  if (!ec && into) *into = a;
  return !ec;
}

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return small(x) == small(y); });
}

// "127.0.0.1:9101", "[::1]:9101" and "localhost" without port and brackets.
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    return end == std::string_view::npos ? std::string_view() : host.substr(1, end - 1);
  }
  return host.substr(0, host.find(':'));
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

expected<std::string, coded_error> read_token(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return unexpected(
        coded_error{"token_missing", "cannot read the token file " + file.string() + ": " + std::strerror(errno) +
                                         "; make one with `install -m 600 /dev/null FILE && openssl rand -hex 32 > FILE`"});
  struct stat s {};
  const bool known = ::fstat(fd, &s) == 0 && S_ISREG(s.st_mode);
  std::string text(longest_token + 2, '\0');
  const auto n = known ? ::read(fd, text.data(), text.size()) : -1;
  ::close(fd);
  if (n < 0) return unexpected(coded_error{"token_missing", "the token file " + file.string() + " is not a regular file"});
  if ((s.st_mode & 077) != 0)
    return unexpected(coded_error{
        "token_exposed", "other users may read the token file " + file.string() + ": run `chmod 600 " + file.string() + "`"});
  text.resize(static_cast<std::size_t>(n));
  if (text.ends_with('\n')) text.pop_back();
  const auto good = [](unsigned char c) { return c > 0x20 && c < 0x7f; };
  if (text.size() < shortest_token || text.size() > longest_token || !std::all_of(text.begin(), text.end(), good))
    return unexpected(coded_error{"bad_token", "the token file " + file.string() + " must have one line of " +
                                                   std::to_string(shortest_token) + " to " + std::to_string(longest_token) +
                                                   " printable characters without spaces"});
  return text;
}

expected<std::string, coded_error> token_for(const net::address& where, const std::string& file, const std::string& what,
                                             const std::string& key) {
  if (!file.empty()) return read_token(file);
  if (is_loopback(where.host)) return std::string();
  return unexpected(coded_error{"insecure", what + " " + net::to_string(where) + " can be reached from other machines: set " + key +
                                                " to a file with a bearer token, or use a loopback address, as in \"127.0.0.1:" +
                                                std::to_string(where.port) + "\""});
}

bool bears(std::string_view authorization, std::string_view token) {
  constexpr std::string_view scheme = "Bearer ";
  if (authorization.size() != scheme.size() + token.size() || !same_name(authorization.substr(0, scheme.size()), scheme))
    return false;
  authorization.remove_prefix(scheme.size());
  unsigned differs = 0;
  for (std::size_t i = 0; i < token.size(); ++i)
    differs |= static_cast<unsigned>(static_cast<unsigned char>(authorization[i]) ^ static_cast<unsigned char>(token[i]));
  return differs == 0;
}

bool names_this_machine(std::string_view host, std::string_view own) {
  const auto name = without_port(host);
  return numeric(name) || same_name(name, "localhost") || (!own.empty() && same_name(name, own));
}

bool is_loopback(std::string_view host) {
  boost::asio::ip::address a;
  return same_name(host, "localhost") || (numeric(host, &a) && a.is_loopback());
}

expected<net::address, coded_error> loopback_address(const std::string& where, const std::string& what) {
  const bool digits = !where.empty() && where.find_first_not_of("0123456789") == std::string::npos;
  const auto at = net::parse_address(digits ? "127.0.0.1:" + where : where);
  if (!at) return unexpected(coded_error{"bad_address", "'" + where + "' is not PORT or HOST:PORT, as in 9101 or 127.0.0.1:9101"});
  if (!is_loopback(at->host))
    return unexpected(coded_error{"not_loopback", "'" + where + "' can be reached from other machines: " + what +
                                                      " only on a loopback address, as in 127.0.0.1:" + std::to_string(at->port)});
  return *at;
}

bool is_own_origin(std::string_view origin, std::string_view host, bool secure) {
  const std::string_view scheme = secure ? "https://" : "http://";
  return origin.empty() || (origin.starts_with(scheme) && origin.substr(scheme.size()) == host);
}

std::string form_value(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const auto end = std::min(text.find('&'), text.size());
    const auto pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto is = pair.find('=');
    if (is == std::string_view::npos || pair.substr(0, is) != name) continue;
    std::string value;
    for (auto i = is + 1; i < pair.size(); ++i) {
      const int high = pair[i] == '%' && i + 2 < pair.size() ? digit_of(pair[i + 1]) : -1;
      const int low = high >= 0 ? digit_of(pair[i + 2]) : -1;
      value += low >= 0 ? static_cast<char>(high * 16 + low) : pair[i] == '+' ? ' ' : pair[i];
      if (low >= 0) i += 2;
    }
    return value;
  }
  return {};
}

}  // namespace troupe::http
