// What a job is at a step boundary: every packet is through and every half has settled, so this and
// the tensors are all there is. The coordinator of one plan hands it to the coordinator of the next
// plan of the job; on disk it is a checkpoint (record/handover_record.hpp), and a job that is
// resumed, or begins with given weights, takes it over like any other plan. Stays on the
// coordinator's node. A plain value; `named` belongs to the coordinator that takes it over.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages/message.hpp"

namespace troupe {

struct handover {
  std::uint64_t step = 0;                   // the boundary
  std::uint64_t evaluated = 0, rounds = 0;  // of evaluation: the step of the last, and how many there were
  double accuracy = -1;                     // of the last
  double seconds = 0;                       // since the job began
  bool paused = false;
  std::uint64_t notified = 0;                    // steps before this one have been told of: of what is made again nobody hears
  bool keep = false;                             // a checkpoint was to be made
  std::vector<set_value> settings;               // what a person has set, in order
  std::string mode;                              // in use, as mode_facts::text() says it; empty: not known
  std::vector<std::string> notes;                // of what the job begins with, for people: said once, when it begins
  std::map<std::string, std::uint64_t> updates;  // by parameter: how many the states of the rule have seen
  std::map<std::string, std::string> finish;     // what the finish conditions remember, by kind
  std::vector<std::pair<std::string, tensor>>
      named;  // "<param>", "<param>@<state>", carried state; the next coordinator lets go of them
};

}  // namespace troupe
