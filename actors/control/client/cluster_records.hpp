// Reads the records of what roles did (runtime/trace/recorder.hpp) of all nodes of a cluster, with
// their clocks aligned to the own one, into a trace file.
//
// A restarted daemon has a new record and a new clock; what it had recorded before is lost.
// Threads: one at a time. Errors: notes(), for users.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/control/client/node_links.hpp"
#include "runtime/trace/clock_match.hpp"
#include "runtime/trace/trace_writer.hpp"

namespace troupe {

class cluster_records {
 public:
  // Times are since `begin`. `from` must outlive the object.
  cluster_records(node_links& from, std::chrono::steady_clock::time_point begin) : from_(from), begin_(begin) {}

  // Asks each node for its time, so often.
  void align(int times);
  // Reads what the nodes have recorded since the last call, and adds it to the file; null: drops
  // it.
  void read(trace_writer* to);
  // The activities of a node that the last read() got, in any order.
  const std::vector<activity>& latest(const std::string& node) const;
  // Nodes that are not in the file, or only in part; the error of the clocks.
  std::vector<std::string> notes() const;

 private:
  struct source {
    std::uint64_t incarnation = 0;
    std::vector<std::uint64_t> read;
    clock_match clock;
    std::vector<activity_names> names;
    std::vector<activity> all;
    std::uint64_t lost = 0;
    bool answered = false, restarted = false, unreadable = false;
  };
  time_point now() const { return std::chrono::steady_clock::now() - begin_; }
  source& source_of(const node_links::node& n, const control::looked& a);
  static void take(source& s, const control::looked& a);

  node_links& from_;
  const std::chrono::steady_clock::time_point begin_;
  std::map<std::string, source> sources_;  // by node
};

}  // namespace troupe
