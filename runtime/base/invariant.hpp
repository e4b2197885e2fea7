// Internal invariants of roles and of the values that they are made of. A violation is a bug in
// Troupe, never a peer's message or a user's input: those are checked and answered before.
//
//   invariant(left > 0, "a packet leaves only against credit");
//
// Checked in every build: a comparison costs nothing next to a message. A violation throws
// std::logic_error with file, line and text. Hosts report it as the failure of the role, which ends
// the job with an error event; the simulator and tests see the exception. Code outside of roles
// (transports, kernels, actors), where no host catches, uses assert().
#pragma once

namespace troupe {

[[noreturn]] void violated(const char* text, const char* file, int line);

// The defaults name the place of the call (clang 14 lacks std::source_location).
inline void invariant(bool holds, const char* text, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!holds) [[unlikely]]
    violated(text, file, line);
}

}  // namespace troupe
