// How the events of a job change what the REPL shows of it: step, loss, rate, learning rate, mode,
// settings. Used by all hosts of jobs: daemons, the embedded REPL and the socket of a run.
#pragma once

#include <optional>

#include "actors/view/view.hpp"

namespace troupe {

// Adds the event to `j`. Changes the state only for "paused" and "resumed".
void note_event(repl_job& j, const event_effect& e);

// The mode in use, with its options; empty: unknown.
std::string mode_of(const repl_job& j);
// The base value of "train.dynamics.lr" or "train.dynamics.decay" in use; nullopt: unknown.
std::optional<double> setting_of(const repl_job& j, const std::string& key);
// Epochs trained; nullopt: unknown.
std::optional<double> epoch_of(const repl_job& j);
// Seconds until the last step at the present rate; nullopt: unknown, or the job does not train.
std::optional<double> seconds_left(const repl_job& j);

// Bytes that this process has in memory (resident set); 0: unknown.
std::uint64_t resident_memory();

}  // namespace troupe
