// The complete state of a job at a step boundary, where all packets are done and all sync roles
// have flushed. The coordinator of one plan passes it to the coordinator of the job's next plan. On
// disk it is a checkpoint (record/handover_record.hpp): a job that is resumed, or begins with given
// weights, starts from it in the same way. It stays on the coordinator's node. A plain value;
// `named` belongs to the coordinator that receives it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages/best_evaluation.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

struct handover {
  std::uint64_t step = 0;                   // the boundary
  std::uint64_t evaluated = 0, rounds = 0;  // evaluation: step of the last round, number of rounds
  double accuracy = -1;                     // of the last round
  std::optional<best_evaluation> best;      // whose weights have been stored; none: no weights have been stored as the best
  double seconds = 0;                       // since the job began
  bool paused = false;
  std::uint64_t notified = 0;                    // steps up to this one were reported; repeated steps are not reported again
  bool keep = false;                             // a checkpoint was requested and not made
  std::vector<set_value> settings;               // set by users, in order
  std::string mode;                              // the current mode, as mode_facts::text() returns it; empty: not known
  std::vector<std::string> notes;                // notes for users about the initial state; reported once, as events `begins`
  std::map<std::string, std::uint64_t> updates;  // by parameter: updates applied to the rule states
  std::map<std::string, std::string> finish;     // memory of the finish conditions, by kind
  std::vector<std::pair<std::string, tensor>>
      named;  // "<param>", "<param>@<state>", carried state; the next coordinator releases them
};

}  // namespace troupe
