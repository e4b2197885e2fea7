// Reads the facts about this machine. Files of /proc and /sys that cannot be read leave their facts
// unknown.
// Threads: functions without state; they block while they measure and write.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runtime/node/machine/facts.hpp"

namespace troupe::machine {

struct wanted {
  bool speed = true;                                         // measure the processor
  std::string why_no_speed;                                  // otherwise the reason, for the user
  bool disks = true;                                         // measure the folders' disks: writes 8 MiB and removes them
  std::vector<std::pair<std::string, std::string>> folders;  // purpose and path
};

// Everything but the certificates, the GPUs and the addresses of a node, which the caller adds.
// Takes about 2 s with `w.speed`, else a tenth of that.
facts read_facts(const wanted& w);

// Parts of it, also for callers that need nothing else.
folder read_folder(const std::string& purpose, const std::string& path, bool writes);
std::vector<interface> read_interfaces();
// NAME.pem and NAME.key of a node or of client_name, with ca.pem in the same folder.
certificate read_pair(const std::string& name, const std::filesystem::path& dir);

// What holds a port of this machine.
enum class port_state : std::uint8_t { free, taken, elsewhere };  // elsewhere: the address is not one of this machine's
port_state state_of_port(const std::string& host, std::uint16_t port);
// The address as digits: "10.0.0.4" for a host name. The text itself if it cannot be resolved.
std::string numeric_host(const std::string& host);

}  // namespace troupe::machine
