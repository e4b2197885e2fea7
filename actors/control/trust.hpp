// Who may say what on the control plane. A peer's name is its certificate's: that of a node, or an operator's session ("client.<word>", of which
// all have one certificate). What somebody has no right to say changes nothing: it is dropped, counted, and told in the log once.
//
//   nodes of the cluster file alone      join, prepared, trouble, ended, leaving, report, revised, swapped
//   the coordinator's daemon alone       joined, prepare, end_job, revise, swap, forget, said, submitted, answer
//   anybody                              submit, follow, fetch, piece, ask
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "actors/control/messages.hpp"

namespace troupe::control {

enum class speaker : std::uint8_t { anybody, node, coordinator };
speaker speaker_of(const message& m);
const char* name_of(const message& m);

// What nobody had a right to say, so far.
class unheeded {
 public:
  // Counts one. The line for the log: of each certificate the first.
  std::optional<std::string> note(const std::string& from, const message& m, const std::string& why);
  std::uint64_t count() const { return count_; }

 private:
  std::uint64_t count_ = 0;
  std::set<std::string> told_;
};

}  // namespace troupe::control
