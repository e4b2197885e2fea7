// Tasks, and transfers between the host and the device.
#include "ops/cuda/stream.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace troupe::cuda {

// Outlives the stream while a call of when_over() is pending.
struct stream::effects {
  std::mutex lock;
  std::shared_ptr<event> when;  // behind everything that `then` needs
  std::vector<std::function<void()>> then;
  std::string failure;  // of this task
  // Waits, then calls each function once. A concurrent second caller blocks until that is done.
  // Returns the task's failure.
  std::string happen() {
    const std::lock_guard guard(lock);
    attempt([&] {
      if (when) when->wait();
      for (auto& f : then) f();
    });
    then.clear();
    when = nullptr;
    return failure;
  }
  template <class F>
  void attempt(F f) {
    try {
      f();
    } catch (const std::exception& e) {
      failure = e.what();
    }
  }
};

namespace {

double number_at(const std::byte* p, dtype t) {
  if (t == dtype::f64) {
    double v = 0;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  float v = 0;
  std::memcpy(&v, p, sizeof v);
  return static_cast<double>(v);
}

gpu_block& own_block(const tensor& t, int device) {
  if (t.space().device != device)
    throw std::logic_error("gpu:" + std::to_string(device) + " is given memory of " +
                           (t.space().host() ? "the host" : "gpu:" + std::to_string(t.space().device)));
  return static_cast<gpu_block&>(*t.block());
}

}  // namespace

operation::operation(stream& s) : stream_(s), queue_(s.queue_), guard_(queue_->enqueuing), here_(queue_->device()) {}

operation::~operation() {
  const position p{queue_, queue_->count()};
  for (const auto& u : reads_) u->was_read(p);
  for (const auto& u : writes_) u->was_written(p);
}

const void* operation::address_in(const tensor& t) {
  if (!t.backed()) return nullptr;
  if (t.space().host()) {
    if (t.bytes() == 0) return nullptr;
    tensor copy = tensor::allocate(stream_, t.dims(), t.type());
    stream_.upload(t.raw(), copy);
    copies_.push_back(copy);
    return address_in(copy);
  }
  auto& b = own_block(t, queue_->device());
  b.used->before_read(*queue_);
  reads_.push_back(b.used);
  return b.data + t.offset();
}

void* operation::address_out(tensor& t) {
  if (!t.backed()) return nullptr;
  if (t.frozen()) throw std::logic_error("gpu: a primitive must not write a sent tensor");
  auto& b = own_block(t, queue_->device());
  b.used->before_write(*queue_);
  writes_.push_back(b.used);
  return b.data + t.offset();
}

void* operation::scratch(std::size_t bytes) {
  auto s = stream_.allocate(bytes);
  auto& b = static_cast<gpu_block&>(*s);
  b.used->before_write(*queue_);
  writes_.push_back(b.used);
  scratch_.push_back(std::move(s));
  return b.data;
}

const void* operation::constant(const void* host, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  auto* at = scratch(bytes);
  check(cudaMemcpyAsync(at, host, bytes, cudaMemcpyHostToDevice, queue_->stream()), "copy to the device");
  return at;
}

stream::stream(std::shared_ptr<gpu> g)
    : gpu_(std::move(g)), queue_(std::make_shared<queue>(gpu_->index)), effects_(std::make_shared<effects>()) {}
// The products' workspace returns to the pool: its next owner waits for the products.
stream::~stream() {
  if (workspace_) workspace_->was_written({queue_, queue_->count()});
}

void stream::begin_task() {
  const std::lock_guard guard(effects_->lock);
  effects_->failure.clear();
}

bool stream::end_task() {
  auto& e = *effects_;
  const std::lock_guard guard(e.lock);
  if (e.then.empty()) return true;
  e.attempt([&] { e.when = queue_->record(); });
  return false;
}

void stream::when_over(std::function<void(const std::string&)> then) {
  auto e = effects_;
  std::shared_ptr<event> when;
  {
    const std::lock_guard guard(e->lock);
    when = e->when;
  }
  if (!when) return then(e->happen());
  gpu_->watch.when_done(std::move(when), [e, then = std::move(then)] { then(e->happen()); });
}

std::string stream::wait_over() { return effects_->happen(); }

void stream::upload(const void* from, tensor& t) {
  if (t.bytes() == 0) return;
  operation o(*this);
  check(cudaMemcpyAsync(o.address_out(t), from, t.bytes(), cudaMemcpyHostToDevice, o), "copy to the device");
}

void stream::download(const tensor& t, void* to) {
  if (t.bytes() == 0) return;
  if (t.space().host()) return void(std::memcpy(to, t.raw(), t.bytes()));
  operation o(*this);
  check(cudaMemcpyAsync(to, o.address_in(t), t.bytes(), cudaMemcpyDeviceToHost, o), "copy from the device");
  check(cudaStreamSynchronize(o), "copy from the device");
}

void stream::fetch(const tensor& from, tensor& to) {
  if (from.bytes() == 0) return;
  if (from.space().host() && to.space().host()) return gpu_->host->fetch(from, to);
  if (from.space().host()) return upload(from.raw(), to);
  operation o(*this);
  if (!to.space().host()) {
    if (from.space() != space()) {
      auto& other = own_block(from, from.space().device);
      other.used->before_read(*queue_);
      check(cudaMemcpyPeerAsync(o.address_out(to), gpu_->index, other.data + from.offset(), from.space().device, from.bytes(), o),
            "copy from another device");
      o.also_reads(other.used);
      return;
    }
    if (to.space() == space())
      return check(cudaMemcpyAsync(o.address_out(to), o.address_in(from), from.bytes(), cudaMemcpyDeviceToDevice, o), "copy");
    auto& other = own_block(to, to.space().device);
    if (to.frozen()) throw std::logic_error("gpu: fetch must not write a sent tensor");
    other.used->before_write(*queue_);
    check(cudaMemcpyPeerAsync(other.data + to.offset(), to.space().device, o.address_in(from), gpu_->index, from.bytes(), o),
          "copy to another device");
    o.also_writes(other.used);
    return;
  }
  auto staged = gpu_->pinned->take(from.bytes());
  check(cudaMemcpyAsync(staged.get(), o.address_in(from), from.bytes(), cudaMemcpyDeviceToHost, o), "copy from the device");
  const std::lock_guard guard(effects_->lock);
  effects_->then.push_back([staged, target = to]() mutable { std::memcpy(target.raw_mutable(), staged.get(), target.bytes()); });
}

void stream::later(const tensor& t, std::function<void(double)> then) {
  if (t.space().host()) return then(gpu_->host->scalar(t));
  operation o(*this);
  auto staged = gpu_->pinned->take(t.bytes());
  check(cudaMemcpyAsync(staged.get(), o.address_in(t), t.bytes(), cudaMemcpyDeviceToHost, o), "copy from the device");
  const std::lock_guard guard(effects_->lock);
  effects_->then.push_back([staged, type = t.type(), then = std::move(then)] { then(number_at(staged.get(), type)); });
}

}  // namespace troupe::cuda
