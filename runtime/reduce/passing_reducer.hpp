// What every stock reducer does with blocks that are summed: it passes the sums to who is above it
// (reducers, or the shard) and the weights that come back to all below, and brings a neighbour that
// has been restarted up to date. How pushes become a sum is the kind's own: sum_reducer.hpp
// (trees), ring_sum.hpp.
//
// Messages in:  push (workers and reducers below), weights (who is above), fetch{join} (a reducer
//               above or below that has been restarted), start
// Messages out: push (who is above), weights (reducers and workers below), fetch{join}
//
// Invariants: a push for a step that has left is a duplicate and ignored; weights go down once a
// version.
//
// After a restart (of the whole node: the workers there too) the sums that were here are gone, and
// so may be what was under way from and to us. We ask below: reducers send again every sum that no
// weights have answered; the worker beside us makes the steps again that its shards still want. We
// ask above for the weights it passed last; they end whatever is open for older steps. What goes up
// a second time has the same bits (the same packets in the same brackets), and is a duplicate
// wherever it had come.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ops/tree/packet_tree.hpp"
#include "runtime/plan/reducer_descriptor.hpp"
#include "runtime/reduce/summing.hpp"
#include "runtime/role.hpp"

namespace troupe {

constexpr std::size_t max_open_steps = 64;  // of one block: many more than are ever granted at once

class passing_reducer : public role {
 public:
  void on(const envelope& e, time_point now, effects& out) final;
  role_status status() const final;

 protected:
  explicit passing_reducer(reducer_config c);

  // A push of this block, from somebody below it and with as many values as it has, for a step that
  // has not left.
  virtual void add(const header& h, const push& p, effects& out) = 0;
  virtual void forget(std::uint32_t block, std::uint64_t before) = 0;  // open steps: weights have answered them

  const job_plan& plan() const { return *config_.plan; }
  role_id self() const { return config_.self; }
  const std::vector<role_id>& below(std::uint32_t block) const { return blocks_[block].below; }
  bool has_left(std::uint32_t block, std::uint64_t step) const { return step < blocks_[block].done; }
  void leaves(std::uint32_t block, std::uint64_t step);  // all of it
  // `sum` is what `due` makes, and leaves when it is made; null: nothing leaves yet.
  void add_and_send(std::uint32_t block, std::uint64_t step, tree_node node, const sum_ptr& sum, additions due, effects& out);
  virtual std::size_t open() const = 0;  // steps that have begun to come, of all blocks

 private:
  struct sent_sum {
    std::uint64_t step;
    tree_node node;
    tensor sum;
  };
  struct block_state {
    std::vector<role_id> below;  // workers and reducers whose sums we take
    std::uint64_t done = 0;      // steps that have gone up, or are in weights that came down
    std::uint64_t down = 0;      // last version that went down
    bool any = false;
    // For neighbours that are restarted; only where there are several nodes.
    std::vector<sent_sum> unanswered;  // what went up and is in no weights yet
    tensor value;                      // what went down last
  };

  struct waiting {
    std::uint32_t block;
    std::uint64_t step;
    tree_node node;
    sum_ptr sum;
  };

  void added(std::uint64_t token, effects& out);
  void send_sum(std::uint32_t block, std::uint64_t step, tree_node node, const tensor& sum, effects& out);
  void take_push(const header& h, const push& p, effects& out);
  void take_weights(const header& h, const weights& w, effects& out);
  void take_fetch(const header& h, const fetch& f, effects& out);
  void ask_neighbours(effects& out) const;
  void send_up(std::uint32_t block, const sent_sum& s, effects& out) const;
  void pass(role_id r, std::uint32_t block, std::uint64_t version, std::uint16_t flags, const tensor& value, effects& out) const;
  header to(role_id r) const;
  role_id above(std::uint32_t block) const { return plan().above(self(), plan().blocks[block]); }
  bool reduces(role_id r) const { return plan()[r].does().adds == role_sums::of_others; }

  reducer_config config_;
  std::vector<block_state> blocks_;
  std::unordered_map<std::uint64_t, waiting> tasks_;
  std::uint64_t tokens_ = 0;
  bool retains_ = false;  // there are other nodes, which may be restarted
};

}  // namespace troupe
