// `trouped`: one node's daemon, from its command line to its exit code. Free of CAF.
//
// Signals: SIGTERM and SIGINT drain (jobs stop at a boundary, with a checkpoint; at most 25 s), a
// second one exits at once; SIGHUP has it read its certificates and what has been revoked anew
// (nothing that is up is dropped for it, but what has been revoked), and writes a checkpoint of the
// running job. Log: stderr, one line an event. stdout has one line, `ready ...`, once both ports
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
  std::filesystem::path state;  // empty: "state/<node>" beside the cluster file
  bool check = false;           // validate and exit
};

int run_daemon(const daemon_options& o);

}  // namespace troupe
