// Messages of the control plane that do not fit a frame, cut so that they do. Every cut says what
// is missing, and nothing is dropped in silence:
//
//   texts of errors and events     "... (N more bytes)"
//   answers                        sent in several messages (answer_pieces.hpp); above 4 MiB long
//                                  texts are shortened, then lines or entries left out; with --json
//                                  the object has "cut": true and "left_out": N
//   reports                        one entry in place of the roles that are left out
//   events with many values        a warning in place of the event
//
// Messages with a job's text (submit, prepare, revise, ask) are not cut: admission refuses what
// would not fit (admission.hpp).
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "runtime/cluster/messages.hpp"

namespace troupe::control {

// The message itself if it fits.
message fitted(message m);

// The answer to `what` by `answer`, with fewer activities and names of plans if it would not fit;
// then `more` is set, and the next request reads on.
looked fitted_look(const look& what, const std::function<looked(const look&)>& answer);

// The text of an answer in at most `most` bytes; at least 1 KiB.
std::string fitted_answer(const std::string& text, std::size_t most);

}  // namespace troupe::control
