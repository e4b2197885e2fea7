// What a failed job leaves for those who look into it, a folder for each node that had a part in
// it:
//
//   report.txt      for people: what failed, where, when, and how to run it again
//   job.toml        the job's text as it was submitted
//   plan.json       what the plan was made of: overrides, nodes, changes since; what it began with
//   events.jsonl    what the job said last
//   roles.json      what its roles were doing
//   begins-with.safetensors   where it began with a file: a second name of that file, if it was the same still
//   messages.bin    in which order they were handed what (runtime/replay): `troupe sim --replay` runs them again
//
// Folders are for their owner alone (0700), and the newest few stay. Errors: values that name the
// file; nothing throws but for lack of memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/job/amend.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/record/safetensors.hpp"
#include "runtime/replay/delivery_log.hpp"

namespace troupe {

constexpr std::size_t keep_post_mortems = 5;

// What a plan began with.
struct plan_beginning {
  enum class with : std::uint8_t { fillers, weights, checkpoint, handover };
  with kind = with::fillers;
  std::string file;    // of weights and checkpoints; empty: it is on the node of the coordinator role
  std::string sha256;  // of its bytes; empty: they are not there any more
  std::uint64_t step = 0;
};

struct post_mortem_role {
  std::string name;
  role_status status;
  std::uint64_t messages = 0;
  double busy_seconds = 0;
  std::string task;  // that runs: "forward of packet 1 of step 3, for 2.1 s"; empty: none
};

struct post_mortem {
  job_text what;
  std::vector<node_spec> nodes;  // that the plan could use
  std::uint32_t job = 0, plan_generation = 0;
  amendments changes;  // of this leg
  plan_beginning begins;
  std::string where, error;
  std::uint64_t step = 0;  // last complete one
  replay::node_part messages;
};

struct post_mortem_facts {
  post_mortem mortem;  // its job as in `made`
  const prepared_job& made;
  std::vector<std::pair<event_effect, std::vector<std::pair<std::string, std::string>>>> events;
  std::vector<post_mortem_role> roles;
  std::int64_t seconds_since_1970 = 0;
};

// Makes a folder of its own in `home`, and removes all but the newest. The folder, or why there is
// none.
std::variant<std::string, record_error> write_post_mortem(const std::filesystem::path& home, const post_mortem_facts& f);

// Why it cannot be run again; empty: it can.
std::string why_no_replay(const post_mortem& m);

// Reads one. Errors name the file.
std::variant<post_mortem, record_error> read_post_mortem(const std::filesystem::path& folder);

}  // namespace troupe
