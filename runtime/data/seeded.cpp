// seeded: a data server sends a 64-bit seed per step instead of the batch. A loader draws the
// permutation of the training set from the seed, takes its packets' part of the step and reads the
// examples itself.
//
// Difference from `shuffle`: there every loader knows the job's seed and so the whole future order.
// Here a loader knows only the seed of the current step, so that the order is decided in one place
// (a plugin can replace it by overriding seed_of). The stock seed is sub_key(job's seed, epoch),
// the key from which shuffle draws: orders and weights are those of shuffle.
#include <cassert>

#include "runtime/data/permutation.hpp"
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

class seeded_sampler final : public sampler {
 public:
  explicit seeded_sampler(const sampler_config& c)
      : seed_(c.seed), batch_(c.batch), steps_(c.examples / c.batch), order_(0, c.examples) {}

  std::int64_t steps_per_epoch() const override { return steps_; }
  std::int64_t held_bytes() const override { return order_.bytes(); }

  std::vector<std::int64_t> indices(std::uint64_t step, std::int64_t first, std::int64_t count) override {
    return indices_from(seed_of(step), step, first, count);
  }
  std::uint64_t seed_of(std::uint64_t step) const override { return sub_key(seed_, step / static_cast<std::uint64_t>(steps_)); }
  std::vector<std::int64_t> indices_from(std::uint64_t seed, std::uint64_t step, std::int64_t first, std::int64_t count) override {
    assert(first >= 0 && first + count <= batch_);
    const auto in_epoch = static_cast<std::int64_t>(step % static_cast<std::uint64_t>(steps_));
    return order_.part(seed, in_epoch * batch_ + first, count);
  }

 private:
  std::uint64_t seed_;
  std::int64_t batch_, steps_;
  permutation order_;
};

}  // namespace

sampler_type seeded_sampler_type() {
  return {
      "seeded",
      "A data server, on a node with the role \"data\", sends a 64-bit seed per step instead of the batch. The workers' loaders "
      "draw their examples from it and read them. The order is that of shuffle.",
      {},
      [](const options&, const sampler_config& c) -> std::unique_ptr<sampler> {
        check_sampler_config(c);
        return std::make_unique<seeded_sampler>(c);
      },
      delivery::seeds};
}

}  // namespace troupe
