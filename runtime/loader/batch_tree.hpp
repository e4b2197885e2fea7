// A loader's place in the tree over which `replicate` broadcasts: the loaders by worker, parent of
// i is i with its lowest set bit cleared (a binomial tree, so examples take at most ceil(log2 n)
// hops, and in that many rounds where a node sends one message at a time: the largest subtree is
// answered first).
//
// Everybody asks its parent for the packets it needs; a request is credit for one packet and waits
// at the parent until that has the examples. In lock step every packet is read once, by worker 0,
// and crosses every edge once.
//
// Asynchronous modes: workers need not be at one step. A request that its parent does not hold goes
// on upwards at once, so nobody waits for a worker that is behind, and one that is far behind has
// its packets sent (and read) once more.
//
// Bounds: a packet is held until the worker itself and all children have had it, but of those that
// nobody waits for only the `keep` latest; requests are bounded by the credit of the subtree, its
// loaders x (sub_solvers + readers).
// Twice: examples that are not waited for are dropped; a request that comes again is answered
// again.
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
  // The worker itself needs `k`, from its own line. True: `found` has it. False: it will come out
  // of arrived().
  bool want(key k, pair_of_tensors& found, effects& out);
  // A child in the tree asks for a packet.
  bool asked(const header& request, effects& out);
  // The examples of `k` are here, from the parent or (at the root) read. True: the worker itself
  // waits for them.
  bool arrived(key k, const pair_of_tensors& got, effects& out);
  // At the root: the packet that is to be read next, if there is one.
  bool next_to_read(key& k);
  // greet: of a restarted worker, tells its children to repeat what they have asked of it.
  // ask_again: of a child that its parent has told so.
  void greet(effects& out) const;
  void ask_again(effects& out) const;
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
  std::vector<std::uint32_t> child_packets_;  // of a step
  std::uint32_t own_packets_;
  std::uint32_t job_, keep_;
  std::map<key, entry> entries_;
};

}  // namespace troupe
