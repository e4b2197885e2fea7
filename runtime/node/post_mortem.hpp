// The folder that a failed job leaves for diagnosis, one on each node that took part in it:
//
//   report.txt      for users: what failed, where, when, and how to replay it
//   job.toml        the job's text as it was submitted
//   plan.json       the inputs of the plan: overrides, nodes, changes; how it began
//   events.jsonl    the last events of the job
//   roles.json      the state of its roles
//   messages.bin    the messages that its roles received, in order (runtime/replay), for
//                   `troupe sim --replay`
//   last.pftrace    a trace of what its roles did in the last 30 s (docs/traces.md); absent if the
//                   host keeps no record
//   begins-with.safetensors   a hard link to the file that the plan began with, if it is unchanged
//
//   job-owner       on a cluster: the job's owner (runtime/record/job_owner.hpp)
//
// Folders are for their user only (0700), and only a few are kept: the newest, and the oldest of
// the owner with the most goes first.
//
// A job with `record = true` leaves a folder for each plan of each node, whether it fails or not:
//
//   job.toml, plan.json       as above
//   messages.stream           the messages of the roles, written while they run (log_stream.hpp)
//   begins-with.safetensors   a checkpoint with the state that the plan began with, on the node of
//                             the coordinator role; absent if it began with the fillers
//
// Errors: values that name the file; nothing throws except std::bad_alloc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/record/checkpoint.hpp"
#include "runtime/record/safetensors.hpp"
#include "runtime/replay/delivery_log.hpp"

namespace troupe {

constexpr std::size_t keep_post_mortems = 5;

// The state that a plan began with.
struct plan_beginning {
  enum class with : std::uint8_t { fillers, weights, checkpoint, handover, recorded };
  with kind = with::fillers;
  std::string file;    // of weights, checkpoints, recorded; empty: the file is on the node of the coordinator role
  std::string sha256;  // of its bytes; empty: they are no longer available
  std::uint64_t step = 0;
};

struct post_mortem_role {
  std::string name;
  role_status status;
  std::uint64_t messages = 0;
  double busy_seconds = 0;
  std::string task;  // the running task, e.g. "forward of packet 1 of step 3, for 2.1 s"; empty: none
};

// What the host of a job chose beyond the job's text, and on which messages depend.
struct host_choices {
  bool keeps_best = false;
  std::uint64_t histograms_every = 0;
  double checkpoint_seconds = 0;
};
host_choices choices_of(const prepared_job& j);
void choose(prepared_job& j, const host_choices& c);

struct post_mortem {
  job_text what;
  std::optional<host_choices> chosen = {};  // nullopt: of an older version, which had none
  std::vector<node_spec> nodes;             // that the plan could use
  std::uint32_t job = 0, plan_generation = 0;
  std::string owner = {};  // of the job on a cluster (runtime/record/job_owner.hpp); not read back
  amendments changes;      // of this plan generation
  plan_beginning begins;
  std::string where, error;
  std::uint64_t step = 0;         // last complete step
  std::int64_t milliseconds = 0;  // of a recording: when the plan began, since 1970
  replay::node_part messages;
};

struct post_mortem_facts {
  post_mortem mortem;  // of the job in `made`
  const prepared_job& made;
  std::vector<event_effect> events;
  std::vector<post_mortem_role> roles;
  std::int64_t seconds_since_1970 = 0;
  std::function<expected<void>(const std::filesystem::path&)> write_trace = {};  // writes last.pftrace; empty: there is none
};

// Makes a folder in `home`, and removes the surplus. Returns the folder or an error.
expected<std::string, record_error> write_post_mortem(const std::filesystem::path& home, const post_mortem_facts& f);

// Makes the folder of a recorded plan, with all but its messages; an older folder of this name is
// replaced. `m.messages.roles` is not used. `beginning`: the state that the plan begins with; null:
// the fillers, or it is on another node.
expected<void, record_error> write_recording(const std::filesystem::path& folder, const post_mortem& m, const prepared_job& made,
                                             const checkpoint* beginning);
// The files of a recording's folder. No others are copied from one machine to another.
inline constexpr const char* recording_files[] = {"job.toml", "plan.json", "messages.stream", "begins-with.safetensors"};
// "plan-GENERATION-from-step-STEP".
std::string recording_name(std::uint32_t plan_generation, std::uint64_t step);
bool is_recording_name(const std::string& name);
// The file of its messages.
std::filesystem::path recorded_messages(const std::filesystem::path& folder);
// The folders of recorded plans in `where`: itself, or in it, at most three levels deep. In order
// of their paths.
std::vector<std::filesystem::path> recordings_in(const std::filesystem::path& where);

// An error if the job cannot be replayed.
expected<void> check_replay(const post_mortem& m);

struct post_mortem_error : record_error {
  bool damaged = false;  // a file of the recording is not as it was written
};
// Reads a folder of write_post_mortem() or write_recording(). Errors name the file.
expected<post_mortem, post_mortem_error> read_post_mortem(const std::filesystem::path& folder);

}  // namespace troupe
