// The reports of one step, or of one evaluation round: the losses and metrics that have arrived,
// and the number that is missing. It knows packets, the stages that report them and the workers
// that own them, but not grants or the meaning of a loss.
//
// Invariants: a stage's first report of a packet counts, later ones are dropped. Errors: none.
// Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
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
  // A packet is complete with `stages` reports. `ranges`: each worker's packets, which no other
  // worker has; empty for an evaluation round, whose packets have no owner.
  report_sheet(std::uint32_t packets, std::uint32_t stages, const std::vector<packet_range>& ranges = {});

  // Takes a report of `packet` from the stage whose first layer is `first_layer`. Returns false if
  // it has no effect: a duplicate (also from a copy of the work unit), or no such packet.
  bool take(std::uint32_t packet, std::uint32_t first_layer, report r);

  std::uint32_t missing() const { return missing_; }
  bool complete() const { return missing_ == 0; }
  bool complete_of(std::uint32_t worker) const { return missing_of_[worker] == 0; }
  // The worker that owns the packet; null: none.
  std::optional<std::uint32_t> owner_of(std::uint32_t packet) const;

  // By layer, in the graph's order: the mean over what counts (report::weights), summed in packet
  // order. Layers without reports are left out. If nothing counts, a metric is 0, and a loss NaN,
  // which is never the best of a job.
  scalars means(const model_graph& g) const;

 private:
  static constexpr std::uint32_t nobody = ~0u;
  struct of_packet {
    std::vector<std::pair<std::uint32_t, report>> by_stage = {};  // first layer of the stage that reported
    std::uint32_t owner = nobody;
  };

  std::vector<of_packet> packets_;
  std::vector<std::uint32_t> missing_of_;  // by worker
  std::uint32_t missing_;
};

// Returns true if the report has no weights, or one for each value, finite and not negative.
bool well_formed(const report& r);
// Returns true if the role reports: a stage that hosts a loss or a metric of the phase.
bool reports_in(const model_graph& g, const role_plan& r, bool train);
// Number of stages that report one packet: the workers' stages, or the tester's.
std::uint32_t reporting_stages(const model_graph& g, const job_plan& p, bool train, bool tester);

// The weighted sum of the losses among the means.
double loss_of(const model_graph& g, const scalars& means);

}  // namespace troupe
