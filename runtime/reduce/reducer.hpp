// One node of the tree of reducers (docs/protocols.md, "Reducers"; FireCaffe, Iandola et al. 2016, section 4.2). One reducer beside every
// worker. Sums go up, each in the fixed tree over packets; weights come down from the root, which alone talks to the shards.
//
// Messages in:  push (the worker beside us, reducers below), weights (the reducer above; the root: shards), fetch{join} (a reducer
//               above or below that has been restarted), start
// Messages out: push (the reducer above; the root: shards), weights (reducers below, the worker beside us), fetch{join}
// Messages a step, per parameter block: one push up and one weights down every edge (more pushes where the packets at and below a
// reducer are not one node of the tree over packets). Bytes: the block, up and down, on each edge; depth log_arity(workers).
//
// Invariants: a sum covers a contiguous range of packets, in the brackets of the fixed tree: the weights are those of `server`, bit
// for bit; a push for a step that has left is a duplicate and ignored; weights go down once a version.
//
// After a restart (of the whole node: the worker beside us too) the sums that were here are gone, and so may be what was under way
// from and to us. We ask below: reducers send again every sum that no weights have answered; the worker beside us makes the steps
// again that its shards still want. We ask above for the weights it passed last; they end whatever is open for older steps. What
// goes up a second time has the same bits (the same packets in the same brackets), and is a duplicate wherever it had come.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/graph/plan.hpp"
#include "runtime/reduce/packet_tree.hpp"
#include "runtime/reduce/summing.hpp"
#include "runtime/role.hpp"

namespace troupe {

struct reducer_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  std::uint32_t rank = 0;
  std::shared_ptr<const job_plan> plan;
  std::uint64_t first_step = 0;
  std::uint32_t incarnation = 0;  // > 0: this node has been restarted
};

class tree_reducer final : public role {
 public:
  explicit tree_reducer(reducer_config c);
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
  role_id above(std::uint32_t block) const;
  header to(role_id r) const;

  reducer_config config_;
  std::vector<tree_node> cover_;  // of the packets at and below us
  std::vector<role_id> below_;    // reducers whose parent we are, in rank order
  std::vector<block_state> blocks_;
  struct waiting {
    std::uint32_t block;
    std::uint64_t step;
    tree_node node;
    sum_ptr sum;
  };
  std::unordered_map<std::uint64_t, waiting> jobs_;
  std::uint64_t tokens_ = 0, dropped_ = 0;
  bool keeps_ = false;  // there are other nodes, which may be restarted
};

}  // namespace troupe
