// Plans that many simulated nodes of one process share: the first node that asks for a plan has it
// made, the others get the same object. All nodes must be of one cluster and have the same data and
// plugins.
// Errors: as of the preparer inside; a job that cannot be prepared is not tried again either.
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/node/executor/job_preparer.hpp"

namespace troupe::control {

class shared_preparer final : public job_preparer {
 public:
  // Changes a prepared job before the nodes get it, e.g. by make_coarse() or make_counted()
  // (runtime/job/coarse.hpp), for the nodes in prepared_job::nodes. Called for every plan, also an
  // amended one, with the job as `inside` has made it.
  using change = std::function<expected<std::shared_ptr<prepared_job>, diagnostics>(const prepared_job&)>;

  explicit shared_preparer(std::shared_ptr<job_preparer> inside, change then = {})
      : inside_(std::move(inside)), then_(std::move(then)) {}

  expected<made_plan, diagnostics> first(std::uint32_t job, const job_text& what) override;
  expected<made_plan, diagnostics> again(const std::shared_ptr<const prepared_job>& original, const amendments& a) override;
  std::shared_ptr<const prepared_job> at_step(const std::shared_ptr<const prepared_job>& j, std::uint64_t step) override;

  std::size_t made() const { return made_; }  // plans that were made, not taken from those kept here

 private:
  // Plans kept although no node has them. Those that a node has always stay.
  static constexpr std::size_t unused_kept = 8;
  struct request {
    std::uint32_t job = 0;  // of first()
    job_text what;
    std::shared_ptr<const prepared_job> original;  // of again()
    amendments changes;
    bool operator==(const request& o) const;
  };
  struct entry {
    request asked;
    std::shared_ptr<const prepared_job> unchanged;  // as `inside` has made it; null: an error
    expected<made_plan, diagnostics> plan;
    std::vector<std::shared_ptr<const prepared_job>> continued;  // the plan at other first steps
    bool in_use() const;
  };

  entry* find(const request& asked);
  entry* of(const std::shared_ptr<const prepared_job>& j);
  expected<made_plan, diagnostics> keep(request asked, expected<made_plan, diagnostics> unchanged);
  void drop_unused();

  const std::shared_ptr<job_preparer> inside_;
  const change then_;
  std::list<entry> kept_;  // the newest last
  std::size_t made_ = 0;
};

}  // namespace troupe::control
