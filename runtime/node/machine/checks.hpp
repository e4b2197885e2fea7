// Judges facts: which are fine, which make training slow or fragile, which prevent it, and the next
// command for those that are not fine. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/node/machine/facts.hpp"

namespace troupe::machine {

enum class verdict : std::uint8_t { ok, warn, fail };
const char* name_of(verdict v);  // "ok", "warn", "fail"

struct check {
  std::string name;  // "memory", "disk runs", "certificate n1"
  verdict state = verdict::ok;
  std::string value;      // what was found
  std::string text = {};  // why it is not fine; empty: it is
  std::string next = {};  // the command to try then
  std::string node = {};  // empty: this machine
};

// `node`: of these facts; empty: this machine. `cluster`: the cluster file, for commands.
std::vector<check> checks_of(const facts& f, const std::string& node, const std::string& cluster);
std::vector<check> checks_of(const contact& c, const std::string& our_version, const std::string& cluster);
// One check per link, in the order of the list. A link is slow in comparison with the median of
// all.
std::vector<check> checks_of(const std::vector<link>& links);
// A pair of certificate and key.
check check_of(const certificate& c, const std::string& cluster);

std::string bits_text(double bytes_per_second);  // "9.4 Gbit/s"
std::string short_time(double seconds);          // "120 us", "1.2 ms", "2.1 s"

}  // namespace troupe::machine
