// The update of a shard's block: a list of steps between the complete gradient of the block and its
// new version. A mode chooses the list and gives it to its shard sync:
//
//   finite_check   checks the sum; all shards of the server group apply the step, or all skip it
//   norm_clip      computes the factor that clips the gradient of all parameters by its norm
//   apply_rule     applies one step of the update rule, in a task
//   replicate      waits until the replicas of the shard have the update
//
// After the last step the block has its new version (shard_sync::on_updated).
//
// A step takes a gradient, passes it to the next step at once or when its condition holds, and
// passes each exactly once. Steps do not know each other. Several blocks may be in one step, each
// with at most one gradient in the whole list: shard_block::updating is true from the first step to
// the end.
//
// Errors: none; messages that do not fit are ignored with a drop_reason. Threads: those of the
// role.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/sync/shard_parts.hpp"

namespace troupe {

// The gradient of a block for one clock, complete: the sum over the packets of a worker group (or
// of a worker). The additions `due` have not run. The next task that reads the sum runs them first.
struct complete_gradient {
  shard_block* block = nullptr;
  additions due = {};
  sum_ptr sum = {};           // null: the step is skipped; the next version has the same weights and rule states
  std::uint32_t packets = 1;  // number of packets in the sum
  std::uint64_t step = 0;
  std::uint32_t group = 0;    // worker group
  double clip = 1.0;          // factor of the mean gradient
  bool known_finite = false;  // the sum has been checked
};

class update_step {
 public:
  using sink = std::function<void(complete_gradient, effects&)>;
  explicit update_step(const shard_parts& p) : parts_(p) {}
  virtual ~update_step() = default;
  void connect(sink next) { next_ = std::move(next); }

  virtual void take(complete_gradient g, effects& out) = 0;
  // Handles a message of another role for this step. Returns the reason why it was ignored, or
  // nullopt; drop_reason::unexpected if it is not for this step.
  virtual std::optional<drop_reason> take_message(const envelope& e, effects& out) {
    (void)e, (void)out;
    return drop_reason::unexpected;
  }
  // The block has its first values.
  virtual void filled(const shard_block& b, effects& out) { (void)b, (void)out; }
  // Returns false while the step waits for another role although all gradients have been applied.
  virtual bool quiet() const { return true; }
  // True: the step's task counts the histograms that are wanted of the next version.
  virtual bool counts_histograms() const { return false; }
  virtual void describe(role_status& s) const { (void)s; }

 protected:
  void pass(complete_gradient g, effects& out) { next_(std::move(g), out); }

  const shard_parts parts_;

 private:
  sink next_;
};

// Makes a step of a list; null if the job does not need it.
using update_step_maker = std::unique_ptr<update_step> (*)(const shard_parts&);
using update_list = std::vector<update_step_maker>;

// The connected steps of one shard sync.
class update_steps {
 public:
  update_steps(const shard_parts& p, const update_list& list, update_step::sink end);

  void take(complete_gradient g, effects& out) { first_(std::move(g), out); }
  std::optional<drop_reason> take_message(const envelope& e, effects& out);
  void filled(const shard_block& b, effects& out);
  bool quiet() const;
  bool counts_histograms() const;
  void describe(role_status& s) const;

 private:
  std::vector<std::unique_ptr<update_step>> steps_;
  update_step::sink first_;
};

// Applies the job's update rule with `clip` times the mean over the packets of the sum, in a task
// that also counts the histograms that are wanted of the new version.
// A sum that is not finite is reported and not applied: the step is skipped if max_skipped > 0,
// else the job ends and the block has no further version.
// Messages out: nonfinite_report, histogram (coordinator).
class apply_rule final : public update_step {
 public:
  using update_step::update_step;
  static std::unique_ptr<update_step> make(const shard_parts& p) { return std::make_unique<apply_rule>(p); }

  void take(complete_gradient g, effects& out) override;
  bool counts_histograms() const override { return true; }

 private:
  void applied(complete_gradient g, effects& out);
};

// Reports to the coordinator blocks whose gradient of `step` is not finite.
void tell_not_finite(const shard_parts& p, std::uint32_t worker_group, std::vector<std::uint32_t> blocks, std::uint64_t step,
                     effects& out);

// Sends every update to the first replica of the shard (replica.hpp) and holds it until the whole
// chain has it, so every version that another role receives is on several nodes. Without replicas
// it passes on at once. Needs only complete_gradient::block, with a pending update.
// Messages in: ready{copied} (first replica). Messages out: state (first replica), one per update
// and one for the first values.
// Invariants: an acknowledgement of another version, or a second one, changes nothing.
class replicate final : public update_step {
 public:
  explicit replicate(const shard_parts& p);
  static std::unique_ptr<update_step> make(const shard_parts& p) { return std::make_unique<replicate>(p); }

  void take(complete_gradient g, effects& out) override;
  std::optional<drop_reason> take_message(const envelope& e, effects& out) override;
  void filled(const shard_block& b, effects& out) override;
  bool quiet() const override { return waiting_ == 0; }

 private:
  role_id first_ = no_role;    // first replica of the chain
  std::uint64_t waiting_ = 0;  // number of blocks whose update is not acknowledged
};

}  // namespace troupe
