#include "tests/faults/network.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

constexpr const char* own_namespace = "/proc/thread-self/ns/net";

std::string program(const char* name) {
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"})
    if (::access((std::string(folder) + name).c_str(), X_OK) == 0) return std::string(folder) + name;
  return {};
}

// Returns a descriptor of a new network namespace, which exists as long as the descriptor.
int make_namespace() {
  int made = -1;
  std::thread([&made] {
    if (::unshare(CLONE_NEWNET) == 0) made = ::open(own_namespace, O_RDONLY | O_CLOEXEC);
  }).join();
  return made;
}
std::string path_of(int descriptor) { return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor); }

}  // namespace

network::network(std::filesystem::path folder) : folder_(std::move(folder)) {
  for (const char* name : {"ip", "tc", "nsenter"})
    if (program(name).empty()) why_not_ = std::string("there is no program '") + name + "'";
  if (!why_not_.empty()) return;
  home_ = ::open(own_namespace, O_RDONLY | O_CLOEXEC);
  if (::unshare(CLONE_NEWNET) != 0) {
    why_not_ = std::string("cannot create a network namespace: ") + std::strerror(errno);
    ::close(std::exchange(home_, -1));
    return;
  }
  std::ofstream forward("/proc/sys/net/ipv4/ip_forward");
  if (!(forward << "1\n").flush()) why_not_ = "packets cannot be forwarded between namespaces";
  if (why_not_.empty() && !batch({},
                                 "link set lo up\nlink add t0 type veth peer name t1\nlink del t0\nrule add from 10.99.0.1 to "
                                 "10.99.0.2 ipproto tcp dport 9 blackhole\n"))
    why_not_ = "cannot create virtual links or rules that drop packets";
}

network::~network() {
  if (home_ >= 0) {
    if (::setns(home_, CLONE_NEWNET) != 0) std::abort();  // later tests would run in the wrong namespace
    ::close(home_);
  }
  for (const auto& [name, n] : nodes_) ::close(n.descriptor);
}

bool network::run(const std::vector<std::string>& words) {
  process p(words, folder_);
  const int code = p.wait(std::chrono::seconds(10));
  if (code != 0) {
    std::string line;
    for (const auto& w : words) line += w + " ";
    std::fprintf(stderr, "%s: %d %s\n", line.c_str(), code, p.log().c_str());
  }
  return code == 0;
}

bool network::batch(const std::vector<std::string>& before, const std::string& lines) {
  const auto file = (folder_ / "network.batch").string();
  std::ofstream(file) << lines;
  auto words = before;
  words.insert(words.end(), {program("ip"), "-batch", file});
  return run(words);
}

void network::add(const std::string& node) {
  const int fd = make_namespace();
  if (fd < 0) throw std::runtime_error("cannot create a network namespace for " + node);
  const auto router = "10.77." + std::to_string(nodes_.size() + 1) + ".1", at = "10.77." + std::to_string(nodes_.size() + 1) + ".2";
  nodes_[node] = {fd, at};
  const auto link = "to_" + node;
  const bool done = batch({}, "link add " + link + " type veth peer name eth0 netns " + path_of(fd) + "\naddr add " + router +
                                  "/24 dev " + link + "\nlink set " + link + " up\n") &&
                    batch(inside(node), "link set lo up\naddr add " + at +
                                            "/24 dev eth0\nlink set eth0 up\nroute add default via " + router + "\n");
  if (!done) throw std::runtime_error("cannot create the link to " + node);
}

std::vector<std::string> network::inside(const std::string& node) const {
  return {program("nsenter"), "--net=" + path_of(nodes_.at(node).descriptor)};
}

void network::rules(const std::string& verb, const std::vector<way>& ways) {
  std::string lines;
  for (const auto& w : ways) {
    lines += "rule " + verb + " from " + address(w.from) + " to " + address(w.to);
    if (w.to_port != 0 || w.from_port != 0) lines += " ipproto tcp";
    if (w.to_port != 0) lines += " dport " + std::to_string(w.to_port);
    if (w.from_port != 0) lines += " sport " + std::to_string(w.from_port);
    lines += " blackhole\n";
  }
  if (!batch({}, lines)) throw std::runtime_error("cannot change the rules that drop packets");
}

// Packets over the rate wait for up to 400 ms and are dropped beyond that, as in a router.
void network::set_rate(const std::string& node, const std::string& rate) {
  for (const bool there : {false, true}) {
    auto words = there ? inside(node) : std::vector<std::string>();
    words.insert(words.end(), {program("tc"), "qdisc", "replace", "dev", there ? "eth0" : "to_" + node, "root", "tbf", "rate", rate,
                               "burst", "64kb", "latency", "400ms"});
    if (!run(words)) throw std::runtime_error("cannot set the rate of the link of " + node);
  }
}

}  // namespace troupe::testing_cluster
