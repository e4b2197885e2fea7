// `trouped`: one node's daemon, from its command line to its exit code. Does not include CAF.
//
// Signals: SIGTERM and SIGINT drain (jobs stop at a boundary, with a checkpoint; at most 25 s), a
// second one more than 2 s later exits at once, with 128 + signal. SIGHUP reloads certificates and
// revocations (only connections of revoked certificates are closed) and has the running job write a
// checkpoint. Log: stderr, one line per event. stdout has one line, `ready ...`, once both ports
// listen.
// Exit: 0 drained, 1 failed while running, drained incompletely or not everything stored, 2 wrong
// usage or configuration, no certificates, port taken.
#pragma once

#include <filesystem>
#include <string>

namespace troupe {

struct daemon_options {
  std::string cluster_file;
  std::string node;
  std::filesystem::path state;  // empty: "state/<node>" next to the cluster file
  bool check = false;           // validate and exit
};

int run_daemon(const daemon_options& o);

}  // namespace troupe
