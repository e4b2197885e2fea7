// Messages between the coordinator and the roles of its job, and messages from a host to its roles.
// Commands of users and hosts to the coordinator: command.hpp.
// The comment of a message gives: sender -> receiver, meaning, and the header fields that it uses.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/tensor.hpp"

namespace troupe {

// Host -> coordinator -> shards: all roles are in place, begin.
struct start {};

// Coordinator -> loaders: the steps below `until` may be loaded. Never shrinks.
// Coordinator -> workers of modes with mode_facts::rests: the last granted step for now is
// `until` - 1; 0: more steps follow. `notice` numbers these, from 1 on; the latest counts.
struct grant {
  std::uint64_t until = 0;
  std::uint64_t notice = 0;
};

// Coordinator -> a loader with loader_config::dynamic: load packets [first, first + count) of step
// `step`, after earlier work units. Steps never decrease, and a loader gets a packet of a step at
// most once; anything else is a duplicate.
struct work_unit {
  std::uint64_t step = 0;
  std::uint32_t first = 0, count = 0;
};

// Coordinator -> shards and workers: from step `from` on, `key` (as in the job file, e.g.
// "train.dynamics.lr") has the value `value`.
struct set_value {
  std::string key;
  double value = 0;
  std::uint64_t from = 0;
};

// Coordinator -> loaders: run evaluation round `round` over the evaluation split, with the weights
// of version header.version. Coordinator -> tester and its loader, in modes out of lockstep and for
// averages of the weights: the same with the blocks that the shards have at version header.step or
// later. `average`: with the average of the weights (train.average).
struct evaluate {
  std::uint64_t round = 0;
  bool average = false;
};

// Stage -> coordinator: the scalar outputs (losses, metrics) of packet header.packet of
// header.step.
struct report {
  std::vector<std::pair<std::string, double>> values;
  std::uint32_t valid = 0;  // number of examples in the means
  // The weight of each value in the mean over several packets (layer::mean_weight). Empty: `valid`
  // for all, as in training, where a step's value is the mean of its packets' values.
  std::vector<double> weights = {};
};

// Coordinator -> tester: send the weights of round `request`, as one `layer_weights` per layer with
// header.version = the round.
// Coordinator or tester -> shards: send your blocks (with the states of the update rule if
// `with_state`) as soon as their version is at least header.version. After `quiesce`: send them at
// exactly header.version. Coordinator -> stages whose layers carry state (plan/carried.hpp): send
// the state that your packets have at the boundary. Each block is answered by one `state`.
constexpr std::uint64_t any_version = ~0ull;  // after `quiesce`: the newest version of each block
struct collect {
  std::uint64_t request = 0;
  bool with_state = false;
};
// One block with the states of the update rule; `updates` is the number of updates in them.
//   shard, stage -> coordinator; shard -> tester: answer to `collect`, with its `request`;
//     header.version is the version of the block.
//   shard -> worker, in modes whose workers step by themselves: the first values, at
//     header.version.
//   worker -> shard, in these modes: the worker's copy, with the weight `mass` in the mean of all
//     copies. `round` is the flush that it is sent for; 0: it answers the shard's request
//     `request`.
//   shard -> replica: the version header.version; `wanted` is the oldest version that may be
//     requested.
//   coordinator -> tester: final weights to evaluate; `request` is the round.
struct state {
  std::uint64_t request = 0;
  std::uint32_t block = 0;
  tensor value;
  tensors rule;  // e.g. momentum
  std::uint64_t updates = 0;
  std::uint64_t wanted = 0;
  std::uint64_t round = 0;
  double mass = 0;
};
// Coordinator -> shards and stages of a job that continues or begins with given weights; to shards
// before `start`: the initial content of a block, as in `state`, of any dtype. `rule` is empty if
// the states begin at zero.
struct restore_state {
  std::uint32_t block = 0;
  tensor value;
  tensors rule;
  std::uint64_t updates = 0;
};

// Coordinator -> workers: every step below header.step has been computed. Send to your shards what
// you still hold (accumulated gradients, or your copy of the weights), then ready{flushed}. A shard
// sends ready{flushed} to the coordinator when all its workers have. `round` numbers the flushes of
// a job, from 1 on.
struct flush {
  std::uint64_t round = 0;
};
// Coordinator -> workers and shards: continue at header.step in this mode, whose epoch is
// header.mode_epoch. Options are text, checked by the coordinator.
struct adopt {
  std::string mode;
  std::vector<std::pair<std::string, std::string>> options;
};

// Coordinator -> shards of server group 0: send the histograms of your blocks.
//   every > 0: in lockstep modes, of all updates to a version that `every` divides, for that
//              version as header.step. Out of lockstep the coordinator requests each one.
//   every == 0: for header.step, of each block's next update to version header.version or a later
//              one. A block that has this version, if it is not 0, and shards without gradients
//              send histograms of the present weights instead; so do all with `now`, as soon as
//              they have the version.
struct want_histograms {
  std::uint64_t every = 0;
  bool now = false;
};

// Coordinator -> workers: send your staleness histograms.
struct observe {};
// The answer: histograms by name ("conv1.weight"); element i counts the reads of weights that were
// i clocks old.
struct observation {
  std::vector<std::pair<std::string, std::vector<std::uint64_t>>> histograms;
};

// Worker sync -> coordinator, in jobs whose packets follow the speed of the workers
// (job_plan::balances): the time of step header.step at this worker, from its weights to its last
// gradient.
struct step_time {
  double seconds = 0;
};

// Coordinator -> shards and replicas, after node failures (coordinator/surviving_state.hpp): stop
// updating and report the versions that you hold. In modes whose workers have their own weights,
// the copies of the workers `living` count. `collect` then requests one version.
struct quiesce {
  std::uint64_t request = 0;
  std::vector<std::uint32_t> living = {};  // indices of workers on living nodes
};
// The answer: for each block the oldest version that is held with the states of its rule, and the
// newest version.
struct inventory {
  std::uint64_t request = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> least, newest;  // (block, version), in the same order
};

// Coordinator -> all roles: the job ends. Finish running tasks and send nothing new.
struct halt {};

// A message that a mode or a plugin defines for its own roles; `type` and `number` are their
// choice. Plugins cannot add message types, because CAF fixes its type table at program start.
struct user {
  std::uint32_t type = 0;
  std::string bytes;
  tensors values;
  std::uint64_t number = 0;
};

// Host -> role: the task or shared_effect with this token has run.
struct finished {
  std::uint64_t token = 0;
};
// Host -> coordinator: a node is lost.
struct peer_down {
  std::string node;
  std::string reason;
};

}  // namespace troupe
