// reshape: [N, ...] -> [N, shape...], sharing the memory.  dx = dy in the original shape.
//   shapes  an extent 0 of `shape` is that of the input's axis in its place; one extent may be -1:
//           what the others leave of the values of an example
// The batch axis is kept. Cannot be split by feature: axis 1 of the output is another one.
#include <algorithm>

#include "ops/layers/view.hpp"

namespace troupe {

namespace {

struct reshape final : view_layer {
  std::vector<std::int64_t> to;
  explicit reshape(const options& o) : to(o.get<std::vector<std::int64_t>>("shape")) {
    const auto refuse = [](const std::string& why) { throw option_error("shape", "'shape' " + why); };
    if (to.empty() || std::ssize(to) >= shape::max_rank)
      refuse("must have 1 to " + std::to_string(shape::max_rank - 1) + " extents, without the batch axis");
    if (std::count(to.begin(), to.end(), -1) > 1) refuse("must have at most one -1");
  }

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() >= 1, "one input [N, ...]", in);
    const std::int64_t values = in[0].count_from(1);
    std::int64_t known = 1;
    bool fits = true;
    shape asked{in[0][0]}, out{in[0][0]};
    for (std::size_t k = 0; k < to.size(); ++k) {
      const int axis = static_cast<int>(k) + 1;
      want(to[k] != 0 || axis < in[0].rank(), "an input with an axis " + std::to_string(axis) + ", whose extent 'shape' keeps (0)",
           in);
      asked.push_back(to[k] == 0 ? in[0][axis] : to[k]);
      if (to[k] == -1) continue;
      fits = fits && asked[axis] <= values / known;  // the product could overflow
      if (fits) known *= asked[axis];
    }
    const bool open = std::count(to.begin(), to.end(), -1) > 0;
    want(fits && (open ? values % known == 0 : values == known),
         "an input with as many values per example as shape " + asked.to_string(), in);
    for (int axis = 1; axis < asked.rank(); ++axis) out.push_back(asked[axis] == -1 ? values / known : asked[axis]);
    return {out};
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, broadcast}, 1);
  }
};

}  // namespace

layer_type reshape_layer() {
  using list = std::vector<std::int64_t>;
  const auto to = [](list l) { return options{{{"shape", std::move(l)}}}; };
  return {
      .name = "reshape",
      .doc = "[N, ...] -> [N, shape...], sharing the memory. The values keep their order; the batch axis is kept.",
      .specs = {bounded(option_of("shape", option_kind::integers, std::nullopt,
                                  "extents of an example's axes; 0: that of the input's axis in its place; one may be -1: what the "
                                  "others leave"),
                        -1)},
      .make = [](const options& o) { return std::make_unique<reshape>(o); },
      .cases = {example("to an image", to({3, 4, 5}), {{2, 60}}), example("to rows", to({-1}), {{2, 3, 4, 5}}),
                example("heads", to({4, 2, 3}), {{3, 4, 6}}), example("the rest", to({2, -1, 3}), {{2, 4, 6}}),
                example("an axis kept", to({0, 2, -1}), {{2, 4, 6}}), example("one value", to({1, 1, -1, 1}), {{5}}),
                example("the same", to({7}), {{1, 7}})}};
}

}  // namespace troupe
