// Staleness of the weights that workers have read, in clocks: sums the answers of all workers to
// one `observe`, by parameter. An answer counts once, and only while a request is open.
// Errors: none. Threads: a value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/coordinator/report_sheet.hpp"
#include "runtime/messages/event_kinds.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

class staleness_count {
 public:
  explicit staleness_count(std::vector<role_id> workers) : workers_(std::move(workers)) {}

  // Begins a request. Returns false if one is open.
  bool ask();
  bool asking() const { return answered_.has_value(); }
  bool observed() const { return observed_; }  // a request has been answered by all workers
  bool waits_for(role_id worker) const { return answered_ && !answered_->count(worker); }
  // Returns true if this was the last answer.
  bool take(role_id worker, const observation& o);
  // By parameter in the graph's order.
  std::vector<staleness_entry> sums(const model_graph& g) const;

 private:
  std::vector<role_id> workers_;
  std::optional<std::set<role_id>> answered_;
  bool observed_ = false;
  std::map<std::string, std::vector<std::uint64_t>> histograms_;
};

}  // namespace troupe
