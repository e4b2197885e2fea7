// What the coordinator of one plan hands to the coordinator of the next plan of the same job, beside weights and states of the rule. A
// plan ends at a step boundary: every packet is through and every half has settled, so this and the tensors are all there is.
// Stays on the coordinator's node. A plain value; `finish` and `named` belong to the coordinator that takes it over.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages/message.hpp"
#include "runtime/pipeline/finish.hpp"

namespace troupe {

struct handover {
  std::uint64_t step = 0;                   // the boundary
  std::uint64_t evaluated = 0, rounds = 0;  // of evaluation: the step of the last, and how many there were
  double accuracy = -1;                     // of the last
  double seconds = 0;                       // since the job began
  bool paused = false;
  std::vector<set_value> settings;               // what a person has set, in order
  std::map<std::string, std::uint64_t> updates;  // by parameter: how many the states of the rule have seen
  std::shared_ptr<finish_conditions> finish;     // they remember
  std::vector<std::pair<std::string, tensor>>
      named;  // "<param>", "<param>@<state>", carried state; the next coordinator lets go of them
};

}  // namespace troupe
