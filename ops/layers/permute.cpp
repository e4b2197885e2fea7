// permute: axis k of the output is axis order[k - 1] of the input, for the axes behind the batch.
//   shapes    [N, A, B, C] with order = [2, 3, 1] -> [N, B, C, A]
//   gradient  dx = dy with the axes back in their places
// Computed as a resample along the permuted axes together, in both directions: row j of the output
// is a row of the input. The axes at the end that stay in place are a row.
#include <algorithm>
#include <limits>

#include "ops/layers/axis_map.hpp"

namespace troupe {

namespace {

struct permute final : layer {
  std::vector<std::int64_t> order;
  explicit permute(const options& o) : order(o.get<std::vector<std::int64_t>>("order")) {
    auto sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (std::int64_t i = 0; i < std::ssize(sorted); ++i)
      if (sorted[static_cast<std::size_t>(i)] != i + 1)
        throw option_error("order", "'order' must have each of the axes 1 to " + std::to_string(order.size()) + " once");
    if (order.empty() || std::ssize(order) >= shape::max_rank)
      throw option_error("order", "'order' must have 1 to " + std::to_string(shape::max_rank - 1) + " axes");
  }
  int axis(std::size_t k) const { return static_cast<int>(order[k]); }
  // Number of axes in front of those at the end that stay in place.
  std::size_t moved() const {
    auto n = order.size();
    while (n > 0 && axis(n - 1) == static_cast<int>(n)) --n;
    return n;
  }

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && in[0].rank() == static_cast<int>(order.size()) + 1,
         "one input with " + std::to_string(order.size()) + " axes behind the batch, as many as 'order' has", in);
    want(in[0].count_from(1) <= std::numeric_limits<std::int32_t>::max(), "fewer than 2^31 values per example", in);
    shape out{in[0][0]};
    for (std::size_t k = 0; k < order.size(); ++k) out.push_back(in[0][axis(k)]);
    return {out};
  }
  signatures supported() const override {
    using enum distribution;
    return order[0] == 1 ? alike({split_0, split_1, broadcast}, 1) : alike({split_0, broadcast}, 1);
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false};
  }

  std::unique_ptr<plan> prepare(device&, const shapes& in, phase, dtype) const override {
    const std::size_t axes = moved();
    const std::int64_t row = in[0].count_from(static_cast<int>(axes) + 1), rows = in[0].count_from(1) / row;
    auto p = std::make_unique<row_order>(rows, row);
    std::vector<std::int64_t> at(axes, 0);  // the place of row j on the axes of the output
    for (std::int64_t j = 0; j < rows; ++j) {
      std::int64_t from = 0;
      for (std::size_t k = 0; k < axes; ++k) from += at[k] * (in[0].count_from(axis(k) + 1) / row);
      p->there.add(from, 1.0);
      p->back.index[static_cast<std::size_t>(from)] = static_cast<std::int32_t>(j);
      for (std::size_t k = axes; k-- > 0 && ++at[k] == in[0][axis(k)];) at[k] = 0;
    }
    return p;
  }
  void forward(context& c, plan& p, const tensors& in, const tensors&, tensors& out, saved&) const override {
    if (moved() == 0) return void(out[0] = in[0]);
    const auto& order_of = static_cast<const row_order&>(p);
    c.dev.resample(order_of.there.geometry(in[0].dims()[0], order_of.row), in[0], backed(c.dev, out[0]));
  }
  void backward(context& c, plan& p, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    if (moved() == 0) return void(grad_in[0] = grad_out[0]);
    const auto& order_of = static_cast<const row_order&>(p);
    c.dev.resample(order_of.back.geometry(grad_out[0].dims()[0], order_of.row), grad_out[0], backed(c.dev, grad_in[0]));
  }

 private:
  struct row_order final : plan {
    axis_map there, back;
    std::int64_t row;
    row_order(std::int64_t rows, std::int64_t length) : there(rows, 1), back(rows, 1), row(length) {
      back.index.resize(static_cast<std::size_t>(rows));
      back.weight.assign(static_cast<std::size_t>(rows), 1.0);
    }
  };
};

}  // namespace

layer_type permute_layer() {
  using list = std::vector<std::int64_t>;
  const auto by = [](list l) { return options{{{"order", std::move(l)}}}; };
  return {
      .name = "permute",
      .doc =
          "Axis k of the output is axis order[k - 1] of the input. [N, A, B, C] with order = [2, 3, 1] -> [N, B, C, A]. The batch "
          "axis stays. dx = dy with the axes back in their places.",
      .specs = {bounded(option_of("order", option_kind::integers, std::nullopt,
                                  "the axes of the input (1 is the first behind the batch) in the order of the output"),
                        1)},
      .make = [](const options& o) { return std::make_unique<permute>(o); },
      .cases = {example("channels last", by({2, 3, 1}), {{2, 3, 4, 5}}), example("heads", by({2, 1, 3}), {{2, 5, 3, 4}}),
                example("transposed", by({2, 1}), {{3, 4, 7}}), example("last two", by({1, 3, 2}), {{2, 3, 4, 5}}),
                example("as it is", by({1, 2}), {{2, 3, 4}}), example("five axes", by({3, 1, 5, 2, 4}), {{2, 2, 3, 1, 2, 4}}),
                example("size-1 axes", by({3, 1, 2}), {{1, 1, 1, 6}})}};
}

}  // namespace troupe
