// sequential: examples in the order of the source, repeated every epoch. Step t of an epoch takes
// [t * batch, (t + 1) * batch).
#include <cassert>
#include <numeric>

#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

class sequential_sampler final : public sampler {
 public:
  explicit sequential_sampler(const sampler_config& c) : batch_(c.batch), steps_(c.examples / c.batch) {}

  std::int64_t steps_per_epoch() const override { return steps_; }

  std::vector<std::int64_t> indices(std::uint64_t step, std::int64_t first, std::int64_t count) override {
    assert(first >= 0 && count >= 0 && first + count <= batch_);
    std::vector<std::int64_t> out(static_cast<std::size_t>(count));
    const auto step_in_epoch = static_cast<std::int64_t>(step % static_cast<std::uint64_t>(steps_));
    std::iota(out.begin(), out.end(), step_in_epoch * batch_ + first);
    return out;
  }

 private:
  std::int64_t batch_;
  std::int64_t steps_;
};

}  // namespace

sampler_type sequential_sampler_type() {
  return {"sequential",
          "Examples in the order of the source, repeated every epoch. The last partial batch is dropped.",
          {},
          [](const options&, const sampler_config& c) -> std::unique_ptr<sampler> {
            check_sampler_config(c);
            return std::make_unique<sequential_sampler>(c);
          }};
}

}  // namespace troupe
