// own_order: every worker sees all data in its own order, which is new in every pass. Worker w with
// a share of c examples per step needs examples / c steps for a pass; the remainder is dropped. An
// epoch of the job is the pass of the worker with the largest share, so n workers do n times the
// work of `shuffle` in one epoch.
//
// Order of pass e: permutation.hpp's for sub_key(worker_seed(seed, w), e). A single worker has the
// order of `shuffle`.
#include <algorithm>
#include <cassert>

#include "runtime/data/permutation.hpp"
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

class own_order_sampler final : public sampler {
 public:
  explicit own_order_sampler(const sampler_config& c)
      : seed_(worker_seed(c.seed, c.worker)), share_(shares_of(c).own), order_(0, c.examples) {
    steps_ = c.examples / std::max<std::int64_t>(1, shares_of(c).largest);
    pass_ = c.examples / std::max<std::int64_t>(1, share_.count);
  }

  std::int64_t steps_per_epoch() const override { return steps_; }
  std::int64_t held_bytes() const override { return order_.bytes(); }
  bool by_worker() const override { return true; }

  std::vector<std::int64_t> indices(std::uint64_t step, std::int64_t first, std::int64_t count) override {
    assert(first >= share_.first && first + count <= share_.first + share_.count);
    const auto pass = static_cast<std::uint64_t>(pass_);
    return order_.part(sub_key(seed_, step / pass), static_cast<std::int64_t>(step % pass) * share_.count + first - share_.first,
                       count);
  }

 private:
  std::uint64_t seed_;
  worker_share share_;
  std::int64_t steps_ = 0, pass_ = 0;  // of the job's epoch, and of this worker's pass
  permutation order_;
};

}  // namespace

sampler_type own_order_sampler_type() {
  return {"own_order",
          "Every worker sees the whole training set in its own order. An epoch is one such pass: n workers do n times the work "
          "of shuffle. Weights depend on the number of workers.",
          {},
          [](const options&, const sampler_config& c) -> std::unique_ptr<sampler> {
            check_sampler_config(c);
            return std::make_unique<own_order_sampler>(c);
          }};
}

}  // namespace troupe
