// Parts of `troupe doctor`, a file each.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/output.hpp"
#include "runtime/node/machine/checks.hpp"
#include "runtime/node/machine/machine_file.hpp"

namespace troupe {

struct doctor_arguments {
  std::string cluster;  // cluster file; empty: this machine
  std::string out;      // file for the measured facts; empty: none
  std::string run_dir;  // folder of runs; empty: $TROUPE_RUNS, or "runs"
  bool busy = false;    // measure speeds although a job runs
};

// Prints checks and counts them (doctor_report.cpp).
class doctor_report {
 public:
  explicit doctor_report(const output& out) : out_(out) {}

  void heading(const std::string& text) const;  // before the checks of a node; not with --json
  void show(const machine::check& c);
  void show(const std::vector<machine::check>& list);
  // As show(), but in text only what is not fine, and one line for the others.
  void show_links(const std::vector<machine::check>& list, const std::vector<machine::link>& links);
  // Prints the counts. Returns the exit code: exit_failed if a check has failed.
  int end() const;

 private:
  const output& out_;
  unsigned ok_ = 0, warnings_ = 0, failures_ = 0;
};

int run_doctor_cluster(const doctor_arguments& a, const output& out);  // doctor_cluster.cpp
// Writes the file of --out. Returns an error for the user; empty: none.
std::string write_machine_file(const std::string& file, const std::vector<machine::measured_node>& nodes,
                               const std::vector<machine::link>& links);

}  // namespace troupe
