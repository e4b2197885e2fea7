// seeded: the seed travels, not the batch. A data server hands out one 64-bit number a step; a
// loader draws the permutation of the training set from that number, takes its packets' part of the
// step and reads the examples itself.
//
// What differs from `shuffle`: there every loader knows the job's seed and so the whole future
// order; here a loader knows nothing but the number of the step at hand, so that the order is
// decided in one place (which a plugin can replace by overriding seed_of). The stock number is
// sub_key(job's seed, epoch), the key from which shuffle draws: orders and weights are those of
// shuffle.
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
      "The seed travels, not the batch: a data server, on a node with the role \"data\", hands out a 64-bit number a step, from "
      "which the workers' loaders draw what they read themselves. The order is that of shuffle.",
      {},
      [](const options&, const sampler_config& c) -> std::unique_ptr<sampler> {
        check_sampler_config(c);
        return std::make_unique<seeded_sampler>(c);
      },
      delivery::seeds};
}

}  // namespace troupe
