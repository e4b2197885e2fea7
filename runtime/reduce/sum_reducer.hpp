// The stock reducer: it sums what workers and reducers below it push, each sum in the fixed tree over packets, and passes the sums to who
// is above it (reducers, or the shards) and the weights that come back to all below. Which reducers there are and who is above whom is
// drawn by the job's row (graph/reducer_row.hpp): a binomial tree (tree.cpp; FireCaffe, Iandola et al. 2016, section 4.2), or any other.
//
// Messages in:  push (workers and reducers below), weights (who is above), fetch{join} (a reducer above or below that has been
//               restarted), start
// Messages out: push (who is above), weights (reducers and workers below), fetch{join}
// Messages a step, per parameter block: one push up and one weights down every edge (more pushes where the packets at and below a
// reducer are not one node of the tree over packets). Bytes: the block, up and down, on each edge.
//
// Invariants: a sum covers a contiguous range of packets, in the brackets of the fixed tree: the weights are those of `server`, bit
// for bit; a push for a step that has left is a duplicate and ignored; weights go down once a version.
//
// After a restart (of the whole node: the workers there too) the sums that were here are gone, and so may be what was under way
// from and to us. We ask below: reducers send again every sum that no weights have answered; the worker beside us makes the steps
// again that its shards still want. We ask above for the weights it passed last; they end whatever is open for older steps. What
// goes up a second time has the same bits (the same packets in the same brackets), and is a duplicate wherever it had come.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/graph/reducer_row.hpp"
#include "runtime/reduce/packet_tree.hpp"
#include "runtime/reduce/summing.hpp"
#include "runtime/role.hpp"

namespace troupe {

class sum_reducer final : public role {
 public:
  explicit sum_reducer(reducer_config c);
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;

 private:
  struct gathering {
    packet_tree<sum_ptr> tree;
    std::size_t left = 0;
  };
  struct sent_sum {
    std::uint64_t step;
    tree_node node;
    tensor sum;
  };
  struct block_state {
    std::uint64_t done = 0;  // steps that have gone up, or are in weights that came down
    std::map<std::uint64_t, gathering> open;
    std::uint64_t down = 0;  // last version that went down
    bool any = false;
    // For neighbours that are restarted; only where there are several nodes.
    std::vector<sent_sum> unanswered;  // what went up and is in no weights yet
    tensor value;                      // what went down last
  };

  void take_push(const header& h, const push& p, effects& out);
  void take_weights(const header& h, const weights& w, effects& out);
  void take_fetch(const header& h, const fetch& f, effects& out);
  void ask_neighbours(effects& out) const;
  void sum_done(std::uint32_t block, std::uint64_t step, tree_node node, const tensor& sum, effects& out);
  void send_up(std::uint32_t block, const sent_sum& s, effects& out) const;
  void pass(role_id r, std::uint32_t block, std::uint64_t version, std::uint16_t flags, const tensor& value, effects& out) const;
  bool covered(tree_node n) const;  // of packets at and below us?
  header to(role_id r) const;
  bool reduces(role_id r) const { return (*config_.plan)[r].kind == role_kind::reducer; }

  reducer_config config_;
  std::vector<tree_node> cover_;  // of the packets at and below us
  std::vector<role_id> below_;    // workers and reducers whose sums we take
  std::vector<block_state> blocks_;
  struct waiting {
    std::uint32_t block;
    std::uint64_t step;
    tree_node node;
    sum_ptr sum;
  };
  std::unordered_map<std::uint64_t, waiting> tasks_;
  std::uint64_t tokens_ = 0, dropped_ = 0;
  bool keeps_ = false;  // there are other nodes, which may be restarted
};

}  // namespace troupe
