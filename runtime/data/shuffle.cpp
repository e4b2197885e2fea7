// shuffle: a new permutation of the training set every epoch; step t takes the next `batch` of it, and what is left over at the end
// of an epoch is dropped (other examples every time).
//
// The permutation of epoch e is Fisher and Yates' (Knuth's algorithm P): order = 0..n-1; for i = n-1 down to 1: swap(order[i],
// order[draw_below(i + 1)]), with the stream counter_rng(sub_key(seed, e)) of random.hpp. It depends on (seed, e, n) alone: neither
// on the worker nor on how many there are, nor on the batch. A test holds its numbers fixed.
#include <cassert>
#include <limits>
#include <numeric>
#include <utility>

#include "runtime/data/random.hpp"
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

class shuffle_sampler final : public sampler {
 public:
  explicit shuffle_sampler(const sampler_config& c)
      : seed_(c.seed), examples_(c.examples), batch_(c.batch), steps_(c.examples / c.batch) {}

  std::int64_t steps_per_epoch() const override { return steps_; }

  std::vector<std::int64_t> indices(std::uint64_t step, std::int64_t first, std::int64_t count) override {
    assert(first >= 0 && count >= 0 && first + count <= batch_);
    const auto steps = static_cast<std::uint64_t>(steps_);
    load_epoch(step / steps);
    const auto begin = order_.begin() + static_cast<std::int64_t>(step % steps) * batch_ + first;
    return {begin, begin + count};
  }

 private:
  void load_epoch(std::uint64_t epoch) {
    if (epoch == epoch_) return;
    order_.resize(static_cast<std::size_t>(examples_));
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    counter_rng rng(sub_key(seed_, epoch));
    for (auto i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[rng.draw_below(i + 1)]);
    epoch_ = epoch;
  }

  std::uint64_t seed_;
  std::int64_t examples_;
  std::int64_t batch_;
  std::int64_t steps_;
  std::uint64_t epoch_ = std::numeric_limits<std::uint64_t>::max();  // of order_; none yet
  std::vector<std::int64_t> order_;
};

}  // namespace

sampler_type shuffle_sampler_type() {
  return {
      "shuffle",
      "A new permutation of the training set every epoch, from the job's seed and the epoch's number: the same for any number of "
      "workers. The last partial batch is dropped.",
      {},
      [](const options&, const sampler_config& c) -> std::unique_ptr<sampler> {
        check_sampler_config(c);
        return std::make_unique<shuffle_sampler>(c);
      }};
}

}  // namespace troupe
