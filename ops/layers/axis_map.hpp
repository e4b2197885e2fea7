// Base of layers whose output rows and columns are each sums of a few input rows and columns (pad,
// upsample). Forward is one resample along the width and one along the height, backward their
// transposes.
#pragma once

#include <memory>

#include "ops/layer_support.hpp"
#include "ops/window_options.hpp"

namespace troupe {

// Element j of the output is the sum of weight x input[index] over `taps` terms. A negative index
// contributes zero.
struct axis_map {
  std::int64_t in = 0, taps = 1;
  std::vector<std::int32_t> index;
  std::vector<double> weight;

  axis_map(std::int64_t in_, std::int64_t taps_) : in(in_), taps(taps_) {}
  void add(std::int64_t from, double w) {
    index.push_back(static_cast<std::int32_t>(from));
    weight.push_back(w);
  }
  std::int64_t out() const { return static_cast<std::int64_t>(index.size()) / taps; }
  resample_geometry geometry(std::int64_t outer, std::int64_t inner) const {
    return {.outer = outer, .in = in, .out = out(), .inner = inner, .taps = taps, .index = index.data(), .weight = weight.data()};
  }
};

struct image_map : layer {
  // Height and width of the output, computed without building the maps, so that infer() checks the
  // size first. Throws shape_error.
  virtual shape sides(const shapes& in) const = 0;
  // True: an input may be [N, C, L], images of height 1.
  virtual bool takes_series() const { return false; }
  // The maps along the height and along the width.
  virtual axis_map rows(const shapes& in) const = 0;
  virtual axis_map columns(const shapes& in) const = 0;

  static constexpr std::int64_t max_side = std::int64_t{1} << 24;  // a map has an entry per row or column

  shapes infer(const shapes& in) const override {
    want(in.size() == 1 && (in[0].rank() == 4 || (in[0].rank() == 3 && takes_series())),
         takes_series() ? "one input [N, C, H, W] or [N, C, L]" : "one input [N, C, H, W]", in);
    const shape to = sides(in);
    want(to[0] <= max_side && to[1] <= max_side,
         "an output of at most " + std::to_string(max_side) + " pixels in height and width, not " + to.to_string(), in);
    return {images_like(in[0], in[0][1], {to[0], to[1]})};
  }
  signatures supported() const override {
    using enum distribution;
    return alike({split_0, split_1, broadcast}, 1);
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = false};
  }
  std::unique_ptr<plan> prepare(device&, const shapes& in, phase, dtype) const override {
    return std::make_unique<maps>(rows(in), columns(in));
  }
  void forward(context& c, plan& p, const tensors& in, const tensors&, tensors& out, saved&) const override {
    const auto& m = static_cast<const maps&>(p);
    const auto planes = in[0].dims()[0] * in[0].dims()[1];
    tensor wide = tensor::allocate(c.dev, shape{planes, m.rows.in, m.columns.out()}, wide_of(in[0].type()));
    c.dev.resample(m.columns.geometry(planes * m.rows.in, 1), in[0], wide);
    c.dev.resample(m.rows.geometry(planes, m.columns.out()), wide, backed(c.dev, out[0]));
  }
  void backward(context& c, plan& p, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!wanted(grad_in, 0)) return;
    const auto& m = static_cast<const maps&>(p);
    const auto planes = grad_out[0].dims()[0] * grad_out[0].dims()[1];
    tensor wide = tensor::allocate(c.dev, shape{planes, m.rows.in, m.columns.out()}, wide_of(grad_out[0].type()));
    c.dev.resample_backward(m.rows.geometry(planes, m.columns.out()), grad_out[0], wide);
    c.dev.resample_backward(m.columns.geometry(planes * m.rows.in, 1), wide, backed(c.dev, grad_in[0]));
  }

 private:
  struct maps final : plan {
    axis_map rows, columns;
    maps(axis_map r, axis_map c) : rows(std::move(r)), columns(std::move(c)) {}
  };
};

}  // namespace troupe
