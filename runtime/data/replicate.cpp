// replicate: all workers take the same examples at their step t, in one shuffled order. The k-th
// packet is the same for every worker, so a step advances in the data by the largest share; a
// worker with a smaller share takes the first part of that. An epoch is one pass over the data:
// examples / largest share steps.
//
// Delivery: worker 0's loader reads the examples and broadcasts them to the other loaders in a
// binomial tree (loader/batch_tree.hpp). A single worker has the order of `shuffle`.
#include <algorithm>
#include <cassert>

#include "runtime/data/permutation.hpp"
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

class replicate_sampler final : public sampler {
 public:
  explicit replicate_sampler(const sampler_config& c)
      : seed_(c.seed),
        first_(shares_of(c).own.first),
        max_(std::max<std::int64_t>(1, shares_of(c).largest)),
        steps_(c.examples / max_),
        order_(0, c.examples) {}

  std::int64_t steps_per_epoch() const override { return steps_; }
  std::int64_t held_bytes() const override { return order_.bytes(); }
  bool by_worker() const override { return true; }

  std::vector<std::int64_t> indices(std::uint64_t step, std::int64_t first, std::int64_t count) override {
    assert(first >= first_ && first - first_ + count <= max_);
    const auto steps = static_cast<std::uint64_t>(steps_);
    return order_.part(sub_key(seed_, step / steps), static_cast<std::int64_t>(step % steps) * max_ + first - first_, count);
  }

 private:
  std::uint64_t seed_;
  std::int64_t first_ = 0, max_ = 1, steps_ = 0;
  permutation order_;
};

}  // namespace

sampler_type replicate_sampler_type() {
  return {"replicate",
          "The same examples for all workers: one loader reads them and they are broadcast over the others in a binomial tree. An "
          "epoch is one pass over the training set. Weights depend on the number of workers.",
          {},
          [](const options&, const sampler_config& c) -> std::unique_ptr<sampler> {
            check_sampler_config(c);
            return std::make_unique<replicate_sampler>(c);
          },
          delivery::broadcast};
}

}  // namespace troupe
