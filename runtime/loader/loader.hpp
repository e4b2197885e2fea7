// The loader of one worker: loads the examples of its packets in the sampler's order and sends them
// to the first stages. It loads a bounded number of packets ahead of credit. It sends only with
// credit from every consumer, so it stops when no sub-solver is free.
//
// packet_agenda.hpp decides which packets it loads, and in which order.
//
// The sampler's delivery decides how it gets examples: it reads them itself; requests them from a
// data server; requests from a data server the seed that determines what to read; or requests them
// from its parent loader in the broadcast tree (batch_tree.hpp). One request is credit for one
// packet.
//
// Messages in:  grant, evaluate, work_unit, examples, examples_seed, want_examples (tree), credit
//               (out-edge), halt
// Messages out: forward, want_examples, examples (tree)
// Invariants:
//   * messages that arrive twice or late have no effect;
//   * packets of one worker leave in the order of (step, packet), or of the work units; an
//     evaluation round at version v begins after all packets of steps < v have left;
//   * at most sub_solvers + readers packets are requested, being read or loaded and unsent; up to
//     `readers` of them (the plan's slots of this role) are read at once, and may finish in any
//     order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ops/layer.hpp"
#include "runtime/loader/batch_tree.hpp"
#include "runtime/loader/packet_agenda.hpp"
#include "runtime/loader/reading.hpp"
#include "runtime/messages/edge_credit.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe {

struct loader_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  std::shared_ptr<const job_plan> plan;
  reading_config read;
  std::shared_ptr<sampler> order;
  delivery how = delivery::local;
  std::uint64_t first_step = 0;
  bool dynamic = false;  // the coordinator deals work units; the static range and grants are not used
};

class loader final : public role {
 public:
  explicit loader(loader_config c);
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;

 private:
  enum class state : std::uint8_t { waits, to_read, reading, here };
  struct item : reading {
    state at = state::waits;
    std::uint32_t valid = 0, first_example = 0;
  };

  void take_round(const evaluate& v, std::uint64_t version);
  void pump(effects& out);
  std::shared_ptr<item> next_item();
  std::shared_ptr<item> training_item(packet_agenda::training p) const;
  std::shared_ptr<item> evaluation_item(packet_agenda::evaluation p) const;
  void obtain(const std::shared_ptr<item>& i, effects& out);
  void obtain_seed(item& i, effects& out);
  void ask(const item& i, effects& out);
  bool reads_on() const { return reading_.size() < readers_; }
  std::uint32_t free_slot() const;
  void read_next(effects& out);
  void read_for_tree(effects& out);
  void take_finished(std::uint64_t token, effects& out);
  void take_examples(const envelope& e, effects& out);
  void take_seed(std::uint64_t step, std::uint64_t seed);
  bool send_front(effects& out);
  bool used(const plan_edge& e, const header& h) const;
  batch_tree::key key_of(const header& h) const { return {h.step, h.packet - range_.first}; }
  bool trains(const item& i) const;

  loader_config config_;
  packet_range range_;
  packet_agenda agenda_;
  std::uint32_t counter_ = 0;
  std::deque<std::shared_ptr<item>> line_;  // in the order of sending
  std::uint32_t readers_ = 1;
  std::map<std::uint32_t, std::shared_ptr<item>> reading_;       // by slot
  std::optional<std::pair<std::uint64_t, std::uint64_t>> seed_;  // the latest: (step, seed)
  std::optional<batch_tree> tree_;
  std::map<std::uint32_t, std::shared_ptr<reading>> tree_reading_;  // by slot
  std::vector<edge_credit> credit_;                                 // by out-edge
};

}  // namespace troupe
