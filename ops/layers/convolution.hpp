// The convolution layer, and the layers that it becomes when it absorbs its neighbours
// (layer::absorb). Internal to convolution*.cpp.
#pragma once

#include <optional>
#include <span>

#include "ops/conv_algorithm.hpp"
#include "ops/layers/pooling.hpp"

namespace troupe {

struct convolution final : layer, convolving {
  conv_geometry base;  // without batch, channels and extents
  bool bias;
  filler_spec weight_filler, bias_filler;

  explicit convolution(const options& o);
  conv_geometry geometry(const shape& x) const override;
  shapes infer(const shapes& in) const override;
  signatures supported() const override;
  std::shared_ptr<const layer> part(std::int64_t begin, std::int64_t end, std::int64_t) const override;
  std::shared_ptr<const layer> addend(std::int64_t, std::int64_t, std::int64_t, bool first) const override;
  param_specs params(const shapes& in) const override;
  double flops(const shapes& in) const override;
  std::shared_ptr<const layer> absorb(const layer& next, const shapes& in) const override;
  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved&) const override;
  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override;
  // Backward through a tail; y and index are those of forward. Computes dx if it is declared.
  struct pass {
    tensor x{}, y{}, index{};
    std::span<const tensor> params{};
  };
  void backward(context& c, const conv_geometry& g, const conv_tail& t, const pass& p, const tensor& dy, tensor& dx,
                std::span<tensor> grad_params, bool accumulate) const;
};

// A convolution with an optional max_pool and an optional activation.
struct convolution_with_tail {
  convolution base;
  std::shared_ptr<const pooling> pool;  // null: no pooling
  bool maps = false;
  unary f = unary::relu;
  double parameter = 0.0;

  explicit convolution_with_tail(const convolution& c) : base(c) {}
  // Absorbs `next` if possible; returns true if it did.
  bool take(const layer& next);
  conv_tail tail(const shape& x) const;
  shapes infer(const shapes& in) const { return pool ? pool->infer(base.infer(in)) : base.infer(in); }
  std::size_t param_count() const { return base.bias ? 2 : 1; }

  // The tensors of one pass. forward computes y and, with pooling, index; backward reads them.
  // own_x, own_y: see conv_geometry.
  struct pass : convolution::pass {
    bool own_x = false, own_y = false;
  };
  void forward(context& c, pass& p) const;
  void backward(context& c, const pass& p, const tensor& dy, tensor& dx, std::span<tensor> grad_params, bool accumulate) const;

 private:
  conv_geometry geometry(const pass& p) const;
};

// One or several convolutions with tails, in sequence. Null: `first` cannot absorb `next`.
std::shared_ptr<const layer> convolution_chain(const convolution& first, const layer& next, const shapes& in);

}  // namespace troupe
