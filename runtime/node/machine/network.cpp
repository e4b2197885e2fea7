// Network interfaces and ports of this machine.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>

#include "runtime/node/machine/reading.hpp"

namespace troupe::machine {
namespace {

std::string digits_of(const sockaddr* a) {
  char host[INET6_ADDRSTRLEN + 1] = {};
  if (a->sa_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(a)->sin_addr, host, sizeof host);
  else
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr, host, sizeof host);
  return host;
}

using found_addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

found_addresses resolved(const std::string& host, const std::string& port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), port.empty() ? nullptr : port.c_str(), &hints, &list) != 0) list = nullptr;
  return {list, ::freeaddrinfo};
}

// Megabits per second, which virtual interfaces do not state.
double speed_of(const std::string& interface_name) {
  double megabits = 0;
  std::ifstream("/sys/class/net/" + interface_name + "/speed") >> megabits;
  return std::max(0.0, megabits);
}

}  // namespace

std::vector<interface> read_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, ::freeifaddrs);
  std::vector<interface> list;
  for (const auto* a = first; a; a = a->ifa_next) {
    const bool inet = a->ifa_addr && (a->ifa_addr->sa_family == AF_INET || a->ifa_addr->sa_family == AF_INET6);
    if (!inet || (a->ifa_flags & IFF_UP) == 0) continue;
    const auto host = digits_of(a->ifa_addr);
    if (host.starts_with("fe80:")) continue;  // valid only together with an interface's name
    auto at = std::find_if(list.begin(), list.end(), [&](const interface& i) { return i.name == a->ifa_name; });
    if (at == list.end()) {
      interface i;
      i.name = a->ifa_name;
      i.megabits = speed_of(i.name);
      i.loopback = (a->ifa_flags & IFF_LOOPBACK) != 0;
      at = list.insert(list.end(), std::move(i));
    }
    at->addresses.push_back(host);
  }
  return list;
}

std::string numeric_host(const std::string& host) {
  const auto found = resolved(host, {});
  return found ? digits_of(found->ai_addr) : host;
}

port_state state_of_port(const std::string& host, std::uint16_t port) {
  const auto found = resolved(host, std::to_string(port));
  if (!found) return port_state::elsewhere;
  const int s = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0) return port_state::elsewhere;
  const int on = 1;
  ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // as the daemon does
  const bool bound = ::bind(s, found->ai_addr, found->ai_addrlen) == 0 && ::listen(s, 1) == 0;
  const int why = errno;
  ::close(s);
  if (bound) return port_state::free;
  return why == EADDRNOTAVAIL ? port_state::elsewhere : port_state::taken;
}

}  // namespace troupe::machine
