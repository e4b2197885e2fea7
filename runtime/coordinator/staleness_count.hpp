// The answers of all workers to one question: how many clocks behind were the weights that you
// read? Added up, by parameter. Knows who has answered; never why it was asked, or when. An answer
// counts once, and only while the question is out.
// Errors: none.  Threads: a value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/coordinator/report_sheet.hpp"
#include "runtime/messages/message.hpp"

namespace troupe {

class staleness_count {
 public:
  explicit staleness_count(std::vector<role_id> workers) : workers_(std::move(workers)) {}

  // False: the question is out already.
  bool ask();
  bool asking() const { return answered_.has_value(); }
  bool observed() const { return observed_; }  // all have answered, once at least
  bool waits_for(role_id worker) const { return answered_ && !answered_->count(worker); }
  // True: it was the last answer.
  bool take(role_id worker, const observation& o);
  // By parameter in the graph's order, and by clocks behind: how many reads.
  scalars sums(const model_graph& g) const;

 private:
  std::vector<role_id> workers_;
  std::optional<std::set<role_id>> answered_;
  bool observed_ = false;
  std::map<std::string, std::vector<std::uint64_t>> histograms_;
};

}  // namespace troupe
