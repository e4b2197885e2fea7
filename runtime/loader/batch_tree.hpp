// The broadcast tree of the sampler `replicate`, as one loader sees it. Nodes are the loaders by
// worker; the parent of i is i with its lowest set bit cleared. In this binomial tree examples take
// at most ceil(log2 n) hops, and as many rounds if a node sends one message at a time, because the
// largest subtree is answered first.
//
// Each loader requests packets from its parent. A request is credit for one packet and waits at the
// parent until the examples arrive. In lockstep every packet is read once, by worker 0, and crosses
// every edge once.
//
// Asynchronous modes: workers can be at different steps. If the parent does not hold a requested
// packet, it requests it from its own parent immediately, so no worker waits for a slower one. For
// a worker that is far behind, packets are read and sent again.
//
// Bounds: a packet is held until the worker and all children have received it; of the packets held,
// only the `keep` latest are kept. Open requests are bounded by the credit of the subtree: its
// loaders x (sub_solvers + readers).
// Duplicates: examples that are not awaited are dropped; a repeated request is answered again.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"

namespace troupe {

class batch_tree {
 public:
  // The k-th packet of every worker at a step.
  using key = std::pair<std::uint64_t, std::uint32_t>;
  struct pair_of_tensors {
    tensor data, label;
  };

  batch_tree(const job_plan& plan, std::uint32_t worker, std::uint32_t job, std::uint32_t keep);

  bool root() const { return parent_ == no_role; }
  // The loader itself needs `k`. Returns true if it is held: `found` is set. Otherwise arrived()
  // reports it later.
  bool want(key k, pair_of_tensors& found, effects& out);
  // `from` requests `k`. Returns false if it is not a child.
  bool asked(role_id from, key k, effects& out);
  // The examples of `k` have arrived from the parent or, at the root, have been read. Returns true
  // if the loader itself waits for them.
  bool arrived(key k, const pair_of_tensors& got, effects& out);
  // At the root: sets `k` to the packet to read next. Returns false if there is none.
  bool next_to_read(key& k);
  void clear() { entries_.clear(); }
  std::size_t held() const;

 private:
  enum class side : std::uint8_t { open, waits, has };
  struct entry {
    pair_of_tensors what;
    bool here = false, reading = false;
    side own = side::open;
    std::vector<side> children;
  };

  entry& at(key k, effects& out);
  void ask(key k, effects& out) const;
  void answer(std::size_t child, key k, entry& e, effects& out);
  void update();
  bool needs(std::size_t child, std::uint32_t k) const { return k < child_packets_[child]; }

  role_id self_, parent_ = no_role;
  std::vector<role_id> children_;             // largest subtree first
  std::vector<std::uint32_t> child_packets_;  // packets per step
  std::uint32_t own_packets_;
  std::uint32_t job_, keep_;
  std::map<key, entry> entries_;
};

}  // namespace troupe
