// shuffle: a new permutation of the training set every epoch. Step t takes the next `batch`
// examples of it; the remainder at the end of an epoch is dropped (other examples every time).
//
// The permutation of epoch e is permutation.hpp's for the key sub_key(seed, e). It depends only on
// (seed, e, n), not on workers or the batch. A test fixes its numbers.
#include <cassert>

#include "runtime/data/permutation.hpp"
#include "runtime/data/random.hpp"
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

class shuffle_sampler final : public sampler {
 public:
  explicit shuffle_sampler(const sampler_config& c)
      : seed_(c.seed), batch_(c.batch), steps_(c.examples / c.batch), order_(0, c.examples) {}

  std::int64_t steps_per_epoch() const override { return steps_; }
  std::int64_t held_bytes() const override { return order_.bytes(); }

  std::vector<std::int64_t> indices(std::uint64_t step, std::int64_t first, std::int64_t count) override {
    assert(first >= 0 && count >= 0 && first + count <= batch_);
    const auto steps = static_cast<std::uint64_t>(steps_);
    return order_.part(sub_key(seed_, step / steps), static_cast<std::int64_t>(step % steps) * batch_ + first, count);
  }

 private:
  std::uint64_t seed_;
  std::int64_t batch_;
  std::int64_t steps_;
  permutation order_;
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
