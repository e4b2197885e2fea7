#include "ops/cuda/bf16_stream.hpp"

#include <utility>

#include "ops/converted.hpp"
#include "ops/widened.hpp"

namespace troupe::cuda {
namespace {

// bf16 tensors between two convolutions have the standard layout, which f32 ones have here, too.
class bf16_stream final : public widened {
 public:
  explicit bf16_stream(std::shared_ptr<gpu> g) : widened(std::make_unique<stream>(g)), gpu_(std::move(g)) {}

  memory_space space() const override { return within().space(); }
  device& host() override { return within().host(); }
  std::shared_ptr<device> make_stream() override { return make_stream_of(gpu_); }
  void begin_task() override { within().begin_task(); }
  bool end_task() override { return within().end_task(); }
  void when_over(std::function<void(const std::string&)> then) override { within().when_over(std::move(then)); }
  std::string wait_over() override { return within().wait_over(); }
  void fetch(const tensor& from, tensor& to) override { within().fetch(from, to); }
  void later(const tensor& t, std::function<void(double)> then) override {
    in_f32 w(*this);
    within().later(w.in(t), std::move(then));
  }
  tensor pack(const gemm_spec& s, const tensor& b) override { return within().pack(s, in_f32(*this).in(b)); }

  // The stream converts and moves bf16 itself.
  void copy(const tensor& from, tensor& to) override { within().copy(from, to); }
  void copy_block(const block& b, const tensor& from, tensor& to) override { within().copy_block(b, from, to); }
  // A gradient of weights that is added to is f32.
  void gemm(const gemm_spec& s, const tensor& a, const tensor& b, tensor& c) override {
    in_f32 w(*this);
    const auto [left, right] = factors(a, b);
    within().gemm(s, left, right, s.beta == 0 ? w.out(c) : w.in_out(c));
  }
  void conv_forward(const conv_geometry& g, const tensor& x, const tensor& weights, const tensor& bias, tensor& y) override {
    in_f32 w(*this);
    const auto [left, right] = factors(x, weights);
    within().conv_forward(g, left, right, w.in(bias), w.out(y));
  }
  void conv_backward_data(const conv_geometry& g, const tensor& dy, const tensor& weights, tensor& dx) override {
    in_f32 w(*this);
    const auto [left, right] = factors(dy, weights);
    within().conv_backward_data(g, left, right, w.out(dx));
  }
  void conv_backward_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add) override {
    in_f32 w(*this);
    const auto [left, right] = factors(x, dy);
    within().conv_backward_weights(g, left, right, add ? w.in_out(dw) : w.out(dw), add);
  }

 private:
  // The factors of a product in f32. If one of them is bf16, the other is rounded to it.
  std::pair<tensor, tensor> factors(const tensor& a, const tensor& b) {
    if (!any_bf16(a, b)) return {a, b};
    const auto rounded = [&](const tensor& t) { return converted_to(*this, converted_to(*this, t, dtype::bf16), dtype::f32); };
    return {rounded(a), rounded(b)};
  }

  std::shared_ptr<gpu> gpu_;
};

}  // namespace

std::unique_ptr<device> make_stream_of(std::shared_ptr<gpu> g) { return std::make_unique<bf16_stream>(std::move(g)); }

}  // namespace troupe::cuda
