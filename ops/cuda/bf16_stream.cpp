#include "ops/cuda/bf16_stream.hpp"

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
  void when_over(std::function<void()> then) override { within().when_over(std::move(then)); }
  void wait_over() override { within().wait_over(); }
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
    within().gemm(s, w.in(a), w.in(b), s.beta == 0 ? w.out(c) : w.in_out(c));
  }
  void conv_backward_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add) override {
    in_f32 w(*this);
    within().conv_backward_weights(g, w.in(x), w.in(dy), add ? w.in_out(dw) : w.out(dw), add);
  }
  void conv_backward_parameters(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, tensor& db,
                                bool add) override {
    in_f32 w(*this);
    within().conv_backward_parameters(g, w.in(x), w.in(dy), add ? w.in_out(dw) : w.out(dw), add ? w.in_out(db) : w.out(db), add);
  }

 private:
  std::shared_ptr<gpu> gpu_;
};

}  // namespace

std::unique_ptr<device> make_stream_of(std::shared_ptr<gpu> g) { return std::make_unique<bf16_stream>(std::move(g)); }

}  // namespace troupe::cuda
