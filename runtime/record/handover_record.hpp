// Converts a handover to a checkpoint and back: a checkpoint is a handover on disk. Pure: no file,
// clock or job.
//
// Fields that have no key of their own in the file are text in checkpoint::progress:
//   evaluated, rounds, accuracy, seconds, paused     numbers
//   mode                  in use; a user may have switched to it
//   best.step, .accuracy, .loss   numbers: the evaluation whose weights are stored as the best
//   set.<n>               "<from> <value> <key>": what a user has set, in order from 0
//   updates.<param>       a number
//   finish.<kind>         state of that finish condition
//
// Errors: malformed progress is reported with its key. A checkpoint without progress (of an older
// version) counts as last evaluated at its own step, with nothing set.
#pragma once

#include <string>
#include <utility>

#include "runtime/base/result.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {

// Sets step and progress of `c` to those of `h`, and the tensors to `named`.
void put_handover(checkpoint& c, const handover& h, named_tensors named);

// An error if these numbers cannot come from a real job, with the metadata key.
expected<void> check_handover(const handover& h);

// Moves the tensors into the handover. On error returns the malformed key.
expected<handover> handover_of(checkpoint c);

}  // namespace troupe
