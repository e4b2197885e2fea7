// The coordinator's words, what roles report to it, and what a host says to its own roles.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/tensor.hpp"

namespace troupe {

struct start {};  // every role is in place: begin

// Coordinator -> loaders: steps [.., until) may be loaded. Never shrinks. Coordinator -> workers of
// modes that rest, word header.id: steps end at `until` for now; 0: they go on.
struct grant {
  std::uint64_t until = 0;
};

// Coordinator -> a loader with loader_config::dynamic: load packets [first, first + count) of step
// `step`, after the portions sent before it. Steps never go down, and one loader gets a packet of a
// step at most once: whatever looks otherwise is a duplicate. `life` is the incarnation of the
// worker that it is meant for: a loader of another one leaves it, the coordinator deals again once
// it knows.
struct work_unit {
  std::uint64_t step = 0;
  std::uint32_t first = 0, count = 0;
  std::uint32_t life = 0;
};

// Worker half -> its loader: begin with step `step`, whatever your configuration says. Ignored by a
// loader that has begun.
struct resume_at {
  std::uint64_t step = 0;
};

// Coordinator -> shards: from step `from` on, `key` (as in the job file, e.g. "train.dynamics.lr")
// is `value`.
struct set_value {
  std::string key;
  double value = 0;
  std::uint64_t from = 0;
};

// Coordinator -> loaders: run evaluation round `round` over the test set with the weights of step
// header.version. `life` as in a portion, where portions are dealt.
struct evaluate {
  std::uint64_t round = 0;
  std::uint32_t life = 0;
};

// Stage -> coordinator: the scalar outputs (losses, metrics) of packet header.packet of
// header.step.
struct report {
  std::vector<std::pair<std::string, double>> values;
  std::uint32_t valid = 0;  // examples behind the means
};

// Coordinator -> shards: send your blocks (weights, and the rule's state when `with_state`) at
// version header.version. Also coordinator -> stages whose layers carry state (plan/carried.hpp):
// send what your packets have carried to the boundary.
constexpr std::uint64_t any_version = ~0ull;  // to who stands still: the newest of each
struct collect {
  std::uint64_t request = 0;
  bool with_state = false;
};
// Also shard -> worker in modes whose workers step by themselves: what to begin with; `request` is
// then how many updates the states of the rule have seen, and with flag_join `wanted` as in
// `weights`.
struct state {
  std::uint64_t request = 0;
  std::uint32_t block = 0;
  tensor value;
  tensors rule;  // momentum and the like
  std::uint64_t wanted = 0;
};
// Coordinator -> a shard of a job that goes on or begins with given weights, before `start`: what a
// block begins with. Same content as `state`, of any type, and without states of the rule where it
// begins at rest; header.step is how many updates those have seen.
struct restore_state {
  std::uint32_t block = 0;
  tensor value;
  tensors rule;
};

// Coordinator -> workers, round header.id: every step below header.step has been computed. Send
// what you still hold (accumulated gradients, your copy of the weights where the mode keeps one),
// then say so to your shards. Shards tell the coordinator when all have.
struct flush {};
// Coordinator -> workers and shards: go on at header.step in this mode; the era that begins.
// Options as text, checked by the coordinator.
struct adopt {
  std::string mode;
  std::vector<std::pair<std::string, std::string>> options;
  std::uint8_t mode_epoch = 0;
};

// Coordinator -> workers: what have you counted? And the answer: histograms by name
// ("conv1.weight": how many reads were 0, 1, ... clocks behind).
struct observe {};
struct observation {
  std::vector<std::pair<std::string, std::vector<std::uint64_t>>> histograms;
};

// Coordinator -> whoever has blocks, when nodes are lost (coordinator/surviving_state.hpp): change
// nothing any more, and say what you have, which these workers have a part in where they have
// weights of their own; `collect` then asks for it at header.version. And the answer: by block, the
// oldest version that is here with all its states, and the newest.
struct quiesce {
  std::uint64_t request = 0;
  std::vector<std::uint32_t> living = {};  // workers
};
struct inventory {
  std::uint64_t request = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> least, newest;  // (block, version), in the same order
};

struct halt {};  // finish what runs, send nothing new

// Host -> coordinator, for a person: pause, resume, stop, checkpoint, eval, set (key, value).
// Answered by events.
struct command {
  std::string name;
  std::string key;
  double value = 0;
  std::vector<std::pair<std::string, std::string>> options = {};  // of `mode NAME key=value ...`; the name is the key
};

// A role's own message (plugins: CAF fixes its type table at start, so plugin messages travel
// inside this one).
struct user {
  std::uint32_t type = 0;
  std::string bytes;
  tensors values;
};

// Host -> role.
struct finished {
  std::uint64_t token = 0;
};
struct peer_down {
  std::string node;
  std::string reason;
};

}  // namespace troupe
