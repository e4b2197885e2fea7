#include "ops/cuda/bf16_stream.hpp"

#include "ops/widened.hpp"

namespace troupe::cuda {
namespace {

// bf16 tensors between two convolutions have the standard layout, which f32 ones have here, too.
class bf16_stream final : public widened {
 public:
  explicit bf16_stream(std::shared_ptr<gpu> g) : widened(std::make_unique<stream>(g)), gpu_(std::move(g)) {}

  device_kind kind() const override { return within().kind(); }
  std::string name() const override { return within().name(); }
  std::string numerics_id() const override { return within().numerics_id(); }
  std::shared_ptr<storage> allocate(std::size_t bytes) override { return within().allocate(bytes); }
  pool_statistics pool() const override { return within().pool(); }
  memory_space space() const override { return within().space(); }
  device& host() override { return within().host(); }
  std::shared_ptr<device> make_stream() override { return make_stream_of(gpu_); }
  void begin_task() override { within().begin_task(); }
  bool end_task() override { return within().end_task(); }
  void when_over(std::function<void()> then) override { within().when_over(std::move(then)); }
  void wait_over() override { within().wait_over(); }
  void upload(const void* from, tensor& t) override { within().upload(from, t); }
  void download(const tensor& t, void* to) override { within().download(t, to); }
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

  // y and dy have a stride, with other time steps in between: they are computed densely and copied.
  void cell_forward(const cell_spec& s, const tensor& bias, tensor& gates, const tensor& h_before, const tensor& c_before,
                    tensor& c, tensor& h, tensor& y) override {
    if (!any_bf16(bias, gates, h_before, c_before, c, h, y))
      return within().cell_forward(s, bias, gates, h_before, c_before, c, h, y);
    cell_spec dense = s;
    dense.stride = s.units;
    tensor values = tensor::allocate(*this, shape{s.rows * s.units}, y.type());
    {
      in_f32 w(*this), states(*this);
      within().cell_forward(dense, w.in(bias), w.in_out(gates), w.in(h_before), w.in(c_before), states.out(c), states.out(h),
                            w.out(values));
    }
    copy_block({s.rows, s.units, 0, s.units, 0, s.stride}, values, y);
  }
  void cell_backward(const cell_spec& s, const tensor& gates, const tensor& h_before, const tensor& h, const tensor& c_before,
                     const tensor& c, const tensor& dy, tensor& dh, tensor& dc, tensor& dgates) override {
    if (!any_bf16(gates, h_before, h, c_before, c, dy, dh, dc, dgates))
      return within().cell_backward(s, gates, h_before, h, c_before, c, dy, dh, dc, dgates);
    cell_spec dense = s;
    dense.stride = s.units;
    tensor slope = tensor::allocate(*this, shape{s.rows * s.units}, dy.type());
    copy_block({s.rows, s.units, 0, s.stride, 0, s.units}, dy, slope);
    in_f32 w(*this);
    within().cell_backward(dense, w.in(gates), w.in(h_before), w.in(h), w.in(c_before), w.in(c), w.in(slope), w.in_out(dh),
                           w.in_out(dc), w.out(dgates));
  }

 private:
  std::shared_ptr<gpu> gpu_;
};

}  // namespace

std::unique_ptr<device> make_stream_of(std::shared_ptr<gpu> g) { return std::make_unique<bf16_stream>(std::move(g)); }

}  // namespace troupe::cuda
