// Adds the histograms of the blocks of each parameter, for each step of which histograms are due or
// were requested. It knows the plan's blocks and their shards, but not when histograms are due.
//
// Invariants: a step's histograms are complete when each block has been counted once; at most
// `most_open` steps are open, and of more the oldest is discarded (a skipped step has no
// histograms). Errors: take() returns why a message is dropped. Threads: a value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/messages/drops.hpp"
#include "runtime/messages/message.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/role.hpp"

namespace troupe {

class histogram_sheets {
 public:
  // `every`: in lockstep modes, the steps that this number divides are expected without a request,
  // after step `first`.
  histogram_sheets(std::shared_ptr<const model_graph> g, std::shared_ptr<const job_plan> p, std::uint64_t every,
                   std::uint64_t first)
      : graph_(std::move(g)), plan_(std::move(p)), every_(every), done_(first) {}

  // A request, for `step`. Returns false if one for the same step is open.
  bool request(std::uint64_t step) { return requested_.insert(step).second; }
  const std::set<std::uint64_t>& requested() const { return requested_; }  // and not complete
  void forget_requests() { requested_.clear(); }
  // Returns true if histograms are due out of lockstep at this progress, once for each interval.
  bool due(std::uint64_t progress);

  // Takes one block's histograms. Returns why the message is dropped.
  std::optional<drop_reason> take(const header& h, const histogram& got, bool lockstep);
  // The events of the steps that are complete: per parameter in layer order its weight, then its
  // gradient (value "gradient" 1) if all its blocks have one.
  std::vector<event_effect> complete();

 private:
  static constexpr std::size_t most_open = 8;
  struct sheet {
    std::vector<bool> taken;  // by block
    std::size_t missing = 0;
    std::vector<value_histogram> weight, gradient;  // by parameter
    std::vector<std::size_t> with_gradient;         // by parameter: number of its blocks with a gradient
  };

  std::shared_ptr<const model_graph> graph_;
  std::shared_ptr<const job_plan> plan_;
  std::uint64_t every_;
  std::set<std::uint64_t> requested_;
  std::map<std::uint64_t, sheet> open_;  // by step
  std::uint64_t done_;                   // the last step by the interval whose histograms are complete
};

}  // namespace troupe
