// A handover as the record of a job, and back: a checkpoint is a handover on disk. Pure: no file,
// clock or job.
//
// What the file's own keys do not say is text in checkpoint::progress:
//   evaluated, rounds, accuracy, seconds, paused     numbers
//   mode                  in use; people may have switched to it
//   set.<n>               "<from> <value> <key>", what a person has set, in order from 0
//   updates.<param>       a number
//   finish.<kind>         what that finish condition remembers
//
// Errors: a checkpoint whose progress is malformed is named with the key; one that has none
// (written before it was kept) is a job that was evaluated last at its own step, where nothing had
// been set.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "runtime/coordinator/handover.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {

// Sets step, progress and tensors of `c` to those of `h`; `named`: its tensors, where they travel
// beside it.
void put_handover(checkpoint& c, const handover& h, named_tensors named);

// Why these numbers cannot come from a real job, with the metadata key; empty: they can.
std::string why_impossible(const handover& h);

// The tensors are moved into it. Else the key that is wrong.
std::variant<handover, std::string> handover_of(checkpoint c);

}  // namespace troupe
