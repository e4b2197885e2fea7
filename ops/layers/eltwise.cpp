// eltwise: element-wise operation on one or more inputs of equal shape:
//   sum   y = sum of coeffs[i] x[i]     dx[i] = coeffs[i] dy
//   prod  y = product of x[i]           dx[i] = dy times the product of the others
//   max   y = max of x[i]               dx[i] = dy where x[i] is the maximum; the first input wins
//         a
//                                       tie
// With a following relu (absorb): y = max(0, ...), and the gradient passes where y > 0. Computes
// block by block, so that memory is read once.
#include <algorithm>

#include "ops/layers/activation.hpp"

namespace troupe {

namespace {

struct eltwise final : layer {
  enum class operation : std::uint8_t { sum, prod, max } op;
  std::vector<double> coeffs;
  bool rectified = false;  // a relu follows

  explicit eltwise(const options& o) : coeffs(o.get<std::vector<double>>("coeffs")) {
    const std::string& word = o.text("operation");
    op = word == "sum" ? operation::sum : word == "prod" ? operation::prod : operation::max;
    if (op != operation::sum && !coeffs.empty()) throw option_error("coeffs", "'coeffs' requires operation = \"sum\"");
  }
  double coeff(std::size_t i) const { return coeffs.empty() ? 1.0 : coeffs[i]; }

  shapes infer(const shapes& in) const override {
    want(!in.empty(), "an input", in);
    for (const auto& s : in) want(s == in[0], "inputs of one shape", in);
    want(coeffs.empty() || coeffs.size() == in.size(), "one input for each of the coeffs (" + std::to_string(coeffs.size()) + ")",
         in);
    return {in[0]};
  }
  signatures supported() const override {
    using enum distribution;
    signatures s = alike({split_0, split_1, broadcast}, 2);
    if (op == operation::sum) s.push_back(alike({partial}, 2).front());
    return s;
  }
  struct backward_needs backward_needs(const shapes&) const override {
    return {.inputs = op != operation::sum, .outputs = op == operation::max || rectified};
  }
  std::shared_ptr<const layer> absorb(const layer& next, const shapes&) const override {
    const auto* relu = dynamic_cast<const activation*>(&next);
    // The gradient of max reads its own output.
    if (rectified || op == operation::max || relu == nullptr || !relu->rectifies()) return nullptr;
    auto both = std::make_shared<eltwise>(*this);
    both->rectified = true;
    return both;
  }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    tensor& y = backed(c.dev, out[0]);
    if (plain_pair(in)) return c.dev.apply(rectified ? binary::rectified_sum : binary::add, in[0], in[1], y);
    constexpr std::int64_t piece = 8192;  // elements; the blocks of a few inputs fit into the L1 cache
    for (std::int64_t at = 0; at < y.count(); at += piece) {
      const auto part = [&](const tensor& t) { return t.slice(at, shape{std::min(piece, y.count() - at)}); };
      tensor to = part(y);
      combine(c.dev, in, part, to);
      if (rectified) c.dev.map(unary::relu, 0.0, to, to);
    }
  }
  void backward(context& c, plan&, const saved& s, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    tensor dy = grad_out[0];
    if (op == operation::max) return backward_max(c, s, dy, grad_in);
    if (rectified) {
      dy = tensor::allocate(c.dev, grad_out[0].dims(), grad_out[0].type());
      c.dev.map_backward(unary::relu, 0.0, {}, s.outputs[0], grad_out[0], dy);
    }
    for (std::size_t i = 0; i < grad_in.size(); ++i) {
      if (!wanted(grad_in, i)) continue;
      if (op == operation::sum && coeff(i) == 1.0) {  // a view; no computation
        grad_in[i] = dy;
        continue;
      }
      tensor& dx = backed(c.dev, grad_in[i]);
      c.dev.copy(dy, dx);
      if (op == operation::sum) c.dev.scale(coeff(i), dx);
      if (op == operation::prod)
        for (std::size_t j = 0; j < s.inputs.size(); ++j)
          if (j != i) c.dev.apply(binary::multiply, dx, s.inputs[j], dx);
    }
  }
  bool plain_pair(const tensors& in) const { return op == operation::sum && in.size() == 2 && coeff(0) == 1.0 && coeff(1) == 1.0; }
  // Applies the operation to one part of every input.
  template <class Part>
  void combine(device& d, const tensors& in, const Part& part, tensor& to) const {
    d.copy(part(in[0]), to);
    if (coeff(0) != 1.0) d.scale(coeff(0), to);
    for (std::size_t i = 1; i < in.size(); ++i) {
      if (op == operation::sum)
        d.axpy(coeff(i), part(in[i]), to);
      else
        d.apply(op == operation::prod ? binary::multiply : binary::maximum, to, part(in[i]), to);
    }
  }
  // Each input takes the gradient where it equals the maximum; later inputs get the rest.
  void backward_max(context& c, const saved& s, const tensor& dy, tensors& grad_in) const {
    tensor left = tensor::allocate(c.dev, dy.dims(), dy.type());
    c.dev.copy(dy, left);
    for (std::size_t i = 0; i < grad_in.size(); ++i) {
      tensor taken = grad_in[i] ? grad_in[i] : tensor::declare(dy.dims(), dy.type());
      c.dev.select_equal(s.inputs[i], s.outputs[0], left, backed(c.dev, taken));
      c.dev.apply(binary::subtract, left, taken, left);
      if (grad_in[i]) grad_in[i] = taken;
    }
  }
};

}  // namespace

layer_type eltwise_layer() {
  const auto with = [](const char* operation) { return options{{{"operation", std::string(operation)}}}; };
  return {
      .name = "eltwise",
      .doc = "Element-wise sum (weighted by coeffs), product or maximum of inputs of equal shape.",
      .specs = {choice_option("operation", {"sum", "prod", "max"}, "the element-wise operation"),
                option_of("coeffs", option_kind::reals, std::vector<double>{}, "weights of a sum, one for each input; default 1")},
      .make = [](const options& o) { return std::make_unique<eltwise>(o); },
      .cases = {example("sum", {}, {{2, 3, 2}, {2, 3, 2}}),
                example("difference", {{{"coeffs", std::vector<double>{1.0, -2.5}}}}, {{3, 4}, {3, 4}}),
                example("product of three", with("prod"), {{2, 5}, {2, 5}, {2, 5}}),
                example("max", with("max"), {{2, 3, 3}, {2, 3, 3}, {2, 3, 3}}), example("one input", with("prod"), {{1, 1}}),
                example("scaled", {{{"coeffs", std::vector<double>{0.5}}}}, {{4}})},
      .min_inputs = 1,
      .max_inputs = 64};
}

}  // namespace troupe
