// The loader of one worker: takes its packets' examples from the source in the sampler's order and feeds the first stages. It loads
// ahead of credit by a bounded number of packets, sends only with credit of every consumer, and so stops when no sub-solver is free.
//
// Which packets: its worker's range of every step below the grant; or, with `dynamic`, those that portions name, in the order the
// portions came.
//
// Messages in:  grant, evaluate, portion, resume_at, credit (out-edge), halt
// Messages out: forward
// Twice: grant, evaluate, portion and resume_at may come from another node, and so may come twice and late; the second changes
// nothing. `credit` comes from a stage of the same node, where a message is delivered exactly once: it is counted as it comes.
// Invariants: packets of one worker leave in order of (step, packet); an evaluation round at version v begins after every packet of
// steps < v has left; never more than `slots + 1` packets are loaded and unsent.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/layer.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/data/source.hpp"
#include "runtime/graph/graph.hpp"
#include "runtime/graph/plan.hpp"
#include "runtime/role.hpp"

namespace troupe {

struct loader_config {
  std::uint32_t job = 0;
  role_id self = no_role;
  std::shared_ptr<const model_graph> graph;
  std::shared_ptr<const job_plan> plan;
  std::shared_ptr<const source> data;
  std::shared_ptr<sampler> order;
  dtype type = dtype::f32;
  std::uint64_t first_step = 0;
  std::int64_t eval_examples = 0;  // of one evaluation packet
  bool dynamic = false;            // packets come as portions; the static range and the grant mean nothing
  bool await_resume = false;       // a restarted loader: load nothing before resume_at
};

// Packets of one evaluation round over all workers; packet i is loaded by worker i % workers.
std::uint32_t eval_packets(std::int64_t test_size, std::int64_t eval_examples);

class loader final : public role {
 public:
  explicit loader(loader_config c);
  void on(const envelope& e, time_point now, effects& out) override;
  role_status status() const override;

 private:
  struct item {
    header h;
    tensor data, label;
    std::uint32_t valid = 0, first_example = 0;
    std::vector<std::int64_t> indices;
  };
  struct round {
    std::uint64_t index = 0, version = 0;
    std::uint32_t next = 0, packets = 0;
  };

  // What to load next, in this order: training packets that may be loaded, then evaluation.
  struct next_packet {
    std::uint64_t step = 0;
    std::uint32_t packet = 0;
  };

  void take_portion(const portion& p);
  std::optional<next_packet> next_training();
  void pump(effects& out);
  bool load_next(effects& out);
  std::shared_ptr<item> training_item(next_packet p);
  std::shared_ptr<item> evaluation_item();
  void read(const std::shared_ptr<item>& i, split s, effects& out);
  bool send_front(effects& out);

  loader_config config_;
  packet_range range_;
  std::uint64_t next_step_ = 0, granted_ = 0;
  std::uint32_t next_in_range_ = 0;
  bool begun_ = false;                // something was loaded, or resume_at has come
  std::deque<next_packet> portions_;  // named and not loaded
  std::uint64_t portion_step_ = 0;    // of the latest portion
  std::vector<bool> portion_taken_;   // packets of that step that have been named
  std::uint64_t last_round_ = 0;
  std::uint32_t counter_ = 0;
  std::deque<round> rounds_;
  std::deque<std::shared_ptr<item>> loaded_;
  std::shared_ptr<item> loading_;
  std::vector<std::uint32_t> credit_;
};

}  // namespace troupe
