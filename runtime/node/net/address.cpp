#include <algorithm>
#include <charconv>

#include "runtime/node/net/transport.hpp"

namespace troupe::net {

expected<address, coded_error> parse_address(std::string_view text) {
  const unexpected bad(coded_error{"bad_address", "[net] '" + std::string(text) + "' is not host:port"});
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') return bad;
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return unexpected(
        coded_error{"bad_address", "[net] '" + std::string(text) + "': write an IPv6 address in brackets, e.g. [::1]:4000"});
  }
  const auto printable = [](char c) { return c > ' ' && c <= '~'; };
  if (!std::all_of(host.begin(), host.end(), printable)) return bad;
  address a{std::string(host), 0};
  const auto [end, ec] = std::from_chars(port.data(), port.data() + port.size(), a.port);
  if (port.empty() || ec != std::errc() || end != port.data() + port.size()) return bad;
  return a;
}

std::string to_string(const address& a) {
  const bool v6 = a.host.find(':') != std::string::npos;
  return (v6 ? "[" + a.host + "]" : a.host) + ":" + std::to_string(a.port);
}

}  // namespace troupe::net
