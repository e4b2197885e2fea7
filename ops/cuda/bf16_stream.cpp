#include "ops/cuda/bf16_stream.hpp"

#include <utility>

#include "ops/converted.hpp"
#include "ops/widened.hpp"

namespace troupe::cuda {
namespace {

// bf16 tensors between two convolutions have the standard layout, which f32 ones have here, too.
class bf16_stream final : public widened {
 public:
  explicit bf16_stream(std::shared_ptr<gpu> g)
      : widened(std::make_unique<stream>(g)), gpu_(std::move(g)), maths_(static_cast<stream&>(within())) {}

  memory_space space() const override { return within().space(); }
  device& host() override { return within().host(); }
  std::shared_ptr<device> make_stream() override { return make_stream_of(gpu_); }
  void set_rules(const maths_rules& r) override { within().set_rules(r); }
  void begin_task() override { within().begin_task(); }
  bool end_task() override { return within().end_task(); }
  void when_over(std::function<void(const std::string&)> then) override { within().when_over(std::move(then)); }
  std::string wait_over() override { return within().wait_over(); }
  void fetch(const tensor& from, tensor& to) override { within().fetch(from, to); }
  void sum_across(const tensors& parts, tensor& out) override { within().sum_across(parts, out); }
  void later(const tensor& t, std::function<void(double)> then) override {
    in_f32 w(*this);
    within().later(w.in(t), std::move(then));
  }

  // The stream converts and moves bf16 itself.
  void copy(const tensor& from, tensor& to) override { within().copy(from, to); }
  void copy_block(const block& b, const tensor& from, tensor& to) override { within().copy_block(b, from, to); }

  // Products with a bf16 factor are products of two, by tensor cores. Others with a bf16 result are
  // computed in f32.
  void gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) override {
    if (any_bf16(a, b)) return within().gemm(s, rounded(a), rounded(b), c);
    in_f32 w(*this);
    within().gemm(s, a, b, s.beta == 0 ? w.out(c) : w.in_out(c));
  }
  tensor pack(const gemm_spec&, const tensor& b) override { return b; }
  void gemm_packed(const gemm_spec& s, const tensor& a, const tensor& packed, tensor& c) override { gemm(s, a, packed, c); }

  // Convolutions of bf16 factors, if cuDNN has an engine for the type of the result: it has for
  // bf16, not for f32, the type of gradients of weights. Without one, the factors are widened.
  void conv_forward(const conv_geometry& g, const tensor& x, const tensor& weights, const tensor& bias, tensor& y) override {
    const bool of_bf16 = any_bf16(x, weights);
    if (of_bf16 && maths_.convolves_bf16(g, conv_pass::forward, y.type())) {
      within().conv_forward(g, rounded(x), rounded(weights), {}, y);
      if (bias) add_bias(g.batch, g.outputs, g.pixels(), bias, y);
      return;
    }
    in_f32 w(*this);
    const auto [left, right] = factors(x, weights);
    maths_.convolve_forward(g, left, right, w.in(bias), w.out(y), of_bf16);
  }
  void conv_backward_data(const conv_geometry& g, const tensor& dy, const tensor& weights, tensor& dx) override {
    const bool of_bf16 = any_bf16(dy, weights);
    if (of_bf16 && maths_.convolves_bf16(g, conv_pass::backward_data, dx.type()))
      return within().conv_backward_data(g, rounded(dy), rounded(weights), dx);
    in_f32 w(*this);
    const auto [left, right] = factors(dy, weights);
    maths_.convolve_data(g, left, right, w.out(dx), of_bf16);
  }
  void conv_backward_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add) override {
    const bool of_bf16 = any_bf16(x, dy);
    if (of_bf16 && !(add && any_bf16(dw)) && maths_.convolves_bf16(g, conv_pass::backward_weights, dw.type()))
      return within().conv_backward_weights(g, rounded(x), rounded(dy), dw, add);
    in_f32 w(*this);
    const auto [left, right] = factors(x, dy);
    maths_.convolve_weights(g, left, right, add ? w.in_out(dw) : w.out(dw), add, of_bf16);
  }

 private:
  tensor rounded(const tensor& t) { return converted_to(*this, t, dtype::bf16); }
  // The factors of a product in f32. If one of them is bf16, the other is rounded to it.
  std::pair<tensor, tensor> factors(const tensor& a, const tensor& b) {
    if (!any_bf16(a, b)) return {a, b};
    const auto wide = [&](const tensor& t) { return converted_to(*this, rounded(t), dtype::f32); };
    return {wide(a), wide(b)};
  }

  std::shared_ptr<gpu> gpu_;
  stream& maths_;  // within()
};

}  // namespace

std::unique_ptr<device> make_stream_of(std::shared_ptr<gpu> g) { return std::make_unique<bf16_stream>(std::move(g)); }

}  // namespace troupe::cuda
