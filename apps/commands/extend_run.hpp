// How a run that is done is extended: the command that an error names.
#pragma once

#include <string>
#include <vector>

#include "runtime/job/job.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {

// What `troupe resume RUN` needs so that the run goes on, for conditions of [train.finish] that
// have ended it: "`troupe resume 7 --set train.finish.epochs=4` extends it". Steps and epochs that
// bound the job are doubled, all that do; patience, target_accuracy and time, which end a job at a
// step that is not known in advance, are named. `resume`: the command without --set. `overrides`:
// of the command; they stay in it.
std::string how_to_extend(const run_info& run, const prepared_job& j, const std::string& resume,
                          const std::vector<std::string>& overrides);

}  // namespace troupe
