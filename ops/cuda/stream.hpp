// A stream of a GPU as a device (ops/device.hpp): primitives are enqueued, in the order of
// order.hpp. One file per family of primitives: stream_*.cpp.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/cuda/blas.hpp"
#include "ops/cuda/collective.hpp"
#include "ops/cuda/gpu.hpp"

namespace troupe::cuda {

// size: the interface of ops/device.hpp
class stream final : public device {
 public:
  explicit stream(std::shared_ptr<gpu> g);
  ~stream() override;

  device_kind kind() const override { return device_kind::cuda; }
  std::string name() const override { return gpu_->name; }
  std::string numerics_id() const override { return gpu_->numerics_id; }
  std::shared_ptr<storage> allocate(std::size_t bytes) override { return gpu_->memory->allocate(bytes); }
  pool_statistics pool() const override { return gpu_->memory->statistics(); }
  memory_space space() const override { return {static_cast<std::int16_t>(gpu_->index)}; }
  device& host() override { return *gpu_->host; }
  std::shared_ptr<device> make_stream() override { return std::make_shared<stream>(gpu_); }
  void set_rules(const maths_rules& r) override { rules_ = r; }

  void begin_task() override;
  bool end_task() override;
  void when_over(std::function<void(const std::string& failure)> then) override;
  std::string wait_over() override;

  void upload(const void* from, tensor& t) override;
  void download(const tensor& t, void* to) override;
  void fetch(const tensor& from, tensor& to) override;
  void sum_across(const tensors& parts, tensor& out) override;
  void later(const tensor& t, std::function<void(double)> then) override;

  tensor pack(const gemm_spec& s, const tensor& b) override;

#define TROUPE_PRIMITIVE(name, parameters, names, adds) void name parameters override;
#include "ops/primitives.inl"
#undef TROUPE_PRIMITIVE

  // For bf16_stream. True if the convolution below, without a bias, takes bf16 factors.
  bool convolves_bf16(const conv_geometry& g, conv_pass pass, dtype result);
  // of_bf16: every f32 factor is a bf16 number, so that TF32 is exact and allowed.
  void convolve_forward(const conv_geometry& g, const tensor& x, const tensor& w, const tensor& bias, tensor& y, bool of_bf16);
  void convolve_data(const conv_geometry& g, const tensor& dy, const tensor& w, tensor& dx, bool of_bf16);
  void convolve_weights(const conv_geometry& g, const tensor& x, const tensor& dy, tensor& dw, bool add, bool of_bf16);

 private:
  friend class operation;
  // What the host gets when the task is over.
  struct effects;

  std::shared_ptr<gpu> gpu_;
  maths_rules rules_;
  std::shared_ptr<queue> queue_;
  blas& products();  // made by the first product
  std::unique_ptr<blas> blas_;
  std::shared_ptr<uses> workspace_;     // of blas_
  std::unique_ptr<collective> across_;  // made by sum_across(), for the GPUs of its last call
  std::unique_ptr<dnn> dnn_;            // made by the first convolution
  // Null: the convolution is composed of products.
  const conv_plan* plan_for(const conv_geometry& g, conv_pass pass, const conv_types& types, bool of_bf16 = false);
  void convolve(const conv_plan& p, const tensor& x, const tensor& w, const tensor& y, tensor& result);
  std::shared_ptr<effects> effects_;
};

// One operation of a stream while it is enqueued. in() and out() make the stream wait for what
// orders the use, and return device addresses; the destructor notes the uses.
class operation {
 public:
  explicit operation(stream& s);
  ~operation();
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;

  operator cudaStream_t() const { return queue_->stream(); }
  // Null if the tensor is not backed. Host memory is copied to the device first.
  template <class T>
  const T* in(const tensor& t) {
    return static_cast<const T*>(address_in(t));
  }
  // Throws std::logic_error if the memory is not this device's, or was sent.
  template <class T>
  T* out(tensor& t) {
    return static_cast<T*>(address_out(t));
  }
  const void* address_in(const tensor& t);
  void* address_out(tensor& t);
  // Uses of memory of another device.
  void also_reads(std::shared_ptr<uses> u) { reads_.push_back(std::move(u)); }
  void also_writes(std::shared_ptr<uses> u) { writes_.push_back(std::move(u)); }
  // Memory that only this operation uses.
  void* scratch(std::size_t bytes);
  // Memory that only this operation uses, with a copy of host memory that is read before this
  // returns.
  const void* constant(const void* host, std::size_t bytes);

 private:
  stream& stream_;
  std::shared_ptr<queue> queue_;
  std::unique_lock<std::recursive_mutex> guard_;
  current_device here_;
  std::vector<std::shared_ptr<uses>> reads_, writes_;
  std::vector<tensor> copies_;  // of host tensors
  std::vector<std::shared_ptr<storage>> scratch_;
};

// Calls f with a value of the C++ type: float or double. Throws std::logic_error for other types.
template <class F>
void by_type(dtype t, F f) {
  if (t == dtype::f32) return f(float{});
  if (t == dtype::f64) return f(double{});
  throw std::logic_error("gpu: a primitive is given tensors of a type that it does not take");
}

}  // namespace troupe::cuda
