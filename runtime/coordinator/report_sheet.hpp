// The reports of one step, or of one round of evaluation: what losses and metrics have come, and
// how many are still to come. Knows packets, the stages that report of each, and which packets are
// whose; never who is granted what, what a loss means, or what happens when the last one is here.
//
// Invariants: a stage is heard once of a packet (the first time); a packet that was given up is
// waited for no longer, and what comes of it afterwards is dropped. Errors: none.  Threads: a
// value.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages/control.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe {

using scalars = std::vector<std::pair<std::string, double>>;

class report_sheet {
 public:
  // A packet is complete with `stages` reports. `ranges`: each worker's packets; none, where
  // packets are nobody's (a round).
  report_sheet(std::uint32_t packets, std::uint32_t stages, const std::vector<packet_range>& ranges = {});

  // Of `packet`, from the stage whose first layer is `first_layer`. False: it changes nothing (told
  // before, by itself or by a copy of the portion; given up; no such packet).
  bool take(std::uint32_t packet, std::uint32_t first_layer, report r);
  // A worker was lost with reports of its packets: what is not here does not come.
  void give_up_worker(std::uint32_t worker);
  void give_up_packet(std::uint32_t packet);

  std::uint32_t packets() const { return static_cast<std::uint32_t>(packets_.size()); }
  std::uint32_t missing() const { return missing_; }
  bool complete() const { return missing_ == 0; }
  // The same one before anybody has reported.
  report_sheet emptied() const;
  bool complete_of(std::uint32_t worker) const { return shares_[worker].missing == 0; }

  // By layer, in the graph's order: the mean over the examples, taken in packet order. Layers that
  // nobody has told of are left out.
  scalars means(const model_graph& g) const;

 private:
  struct of_packet {
    std::vector<std::pair<std::uint32_t, report>> by_stage;  // first layer of the stage that reported
    bool given_up = false;
  };
  struct share {
    packet_range range;
    std::uint32_t missing = 0;
  };
  void no_longer_missing(std::uint32_t packet, std::uint32_t reports);

  std::vector<of_packet> packets_;
  std::vector<share> shares_;  // by worker
  std::uint32_t stages_, missing_;
};

// Does this role report (a stage that hosts a loss or a metric of the phase)?
bool reports_in(const model_graph& g, const role_plan& r, bool train);
// How many roles report of one packet: of the workers' stages, or of the tester's.
std::uint32_t reporting_stages(const model_graph& g, const job_plan& p, bool train, bool tester);

// The weighted sum of the means that are losses.
double loss_of(const model_graph& g, const scalars& means);

}  // namespace troupe
