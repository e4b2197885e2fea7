#include "tests/apart/apart_device.hpp"

#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

namespace troupe::apart {
namespace {

using byte_list = std::vector<std::byte>;

// A resample with copies of its tables, which belong to the caller only during the call.
struct kept_resample {
  resample_geometry g;
  std::shared_ptr<std::vector<std::int32_t>> index;
  std::shared_ptr<std::vector<double>> weight;
  explicit kept_resample(const resample_geometry& of)
      : g(of),
        index(std::make_shared<std::vector<std::int32_t>>(of.index, of.index + of.out * of.taps)),
        weight(std::make_shared<std::vector<double>>(of.weight, of.weight + of.out * of.taps)) {
    g.index = index->data();
    g.weight = weight->data();
  }
  operator const resample_geometry&() const { return g; }
};

template <class P>
using kept = std::conditional_t<std::is_same_v<std::decay_t<P>, resample_geometry>, kept_resample, std::decay_t<P>>;

// The tensors that one primitive reads and writes.
struct call_of {
  const char* what;
  std::vector<tensor> reads, writes;
};

class stream final : public device {
 public:
  stream(std::shared_ptr<device> maths, std::shared_ptr<machine> m, std::int16_t number)
      : maths_(std::move(maths)),
        machine_(std::move(m)),
        number_(number),
        queue_(machine_->next_queue()),
        promised_(std::make_shared<promises>()) {
    promised_->maths = maths_;
    promised_->on = machine_;
  }

  device_kind kind() const override { return maths_->kind(); }
  std::string name() const override { return "apart:" + std::to_string(number_); }
  std::string numerics_id() const override { return maths_->numerics_id(); }
  std::shared_ptr<storage> allocate(std::size_t size) override { return machine_->allocate(size, number_); }
  pool_statistics pool() const override {
    const auto c = machine_->statistics();
    return {c.held, c.in_use, c.peak, c.made, c.reused};
  }
  memory_space space() const override {
    memory_space s;
    s.device = machine_->space_of(number_);
    return s;
  }
  device& host() override { return *maths_; }
  std::shared_ptr<device> make_stream() override { return std::make_shared<stream>(maths_, machine_, number_); }

  void begin_task() override { promised_->list.clear(); }
  bool end_task() override {
    machine_->drift();
    for (const auto& p : promised_->list)
      if (machine_->fault != planted::reported_too_early && !machine_->done(p.when)) return false;
    keep(*promised_);
    return true;
  }
  void when_over(std::function<void(const std::string&)> then) override {
    machine_->when_done([what = promised_, then = std::move(then)] {
      keep(*what);
      then({});
    });
  }
  std::string wait_over() override { return keep(*promised_), std::string(); }

  void upload(const void* from, tensor& t) override {
    auto copy = std::make_shared<byte_list>(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + t.bytes());
    auto* to = writable(t, "upload");
    put({"upload", {}, {t}}, [copy, to] { std::memcpy(to, copy->data(), copy->size()); });
  }
  void download(const tensor& t, void* to) override {
    if (t.space().host()) return void(std::memcpy(to, t.raw(), t.bytes()));
    machine_->wait(machine_->written(t));
    std::memcpy(to, back(t), t.bytes());
  }
  void fetch(const tensor& from, tensor& to) override {
    if (from.space().host() && to.space().host()) return maths_->fetch(from, to);
    if (from.space().host()) return upload(from.raw(), to);
    if (!to.space().host()) return void(across(from, to));
    own(from, "fetch");
    auto* target = static_cast<std::byte*>(to.raw_mutable());
    const auto* source = back(from);
    const auto when = put({"fetch", {from}, {}}, [to, target, source, n = from.bytes()] { std::memcpy(target, source, n); });
    promised_->list.push_back({when, {}, {}});
  }
  void later(const tensor& t, std::function<void(double)> then) override {
    if (t.space().host()) return then(maths_->scalar(t));
    promised_->list.push_back({machine_->written(t), t, std::move(then)});
  }

  // The layout is that of the maths device. It is computed immediately and stays on the host.
  tensor pack(const gemm_spec& s, const tensor& b) override {
    if (b.space().host()) return maths_->pack(s, b);
    machine_->wait(machine_->written(b));
    tensor here = tensor::allocate(*maths_, b.dims(), b.type());
    std::memcpy(here.raw_mutable(), back(b), b.bytes());
    return maths_->pack(s, here);
  }
  std::int64_t images_at_once(const conv_geometry& g) const override { return maths_->images_at_once(g); }
  conv_algorithm algorithm_on(const conv_geometry& g, conv_pass p) const override { return maths_->algorithm_on(g, p); }

#define TROUPE_PRIMITIVE(name, parameters, names, adds) \
  void name parameters override { call(&device::name, #name, TROUPE_NAMES names); }
#define TROUPE_NAMES(...) __VA_ARGS__
#include "ops/primitives.inl"
#undef TROUPE_NAMES
#undef TROUPE_PRIMITIVE

 private:
  // A result that the host gets before the task is over: a number, or a tensor in host memory.
  struct promise {
    event when;
    tensor number;
    std::function<void(double)> then;
  };
  // Outlives the stream while when_over() has not finished.
  struct promises {
    std::shared_ptr<device> maths;
    std::shared_ptr<machine> on;
    std::vector<promise> list;
    std::mutex keeping;
  };
  // Waits for the results and reports each once. A concurrent second caller blocks until that is
  // done.
  static void keep(promises& all) {
    std::lock_guard guard(all.keeping);
    auto& m = *all.on;
    for (auto& p : std::exchange(all.list, {})) {
      if (m.fault != planted::reported_too_early) m.wait(p.when);
      if (!m.done(p.when)) m.find("the host receives a number before it has been computed");
      if (p.then) p.then(all.maths->scalar(tensor::borrow(back_of(m, p.number), p.number.dims(), p.number.type())));
    }
  }

  // Copies within this device's memory, or to that of another device.
  void across(const tensor& from, tensor& to) {
    own(from, "fetch");
    if (to.frozen()) throw std::logic_error("apart: fetch must not write a sent tensor");
    put({"fetch", {from}, {to}}, [target = back(to), source = back(from), n = from.bytes()] { std::memcpy(target, source, n); });
  }
  void own(const tensor& t, const char* what) const {
    const auto& b = static_cast<const apart::block&>(*t.block());
    if (b.device != number_) throw std::logic_error(name() + ": " + what + " is given memory of apart:" + std::to_string(b.device));
  }
  static std::byte* back_of(const machine& m, const tensor& t) { return m.back_of(t.block()->data + t.offset()); }
  std::byte* back(const tensor& t) const { return back_of(*machine_, t); }
  std::byte* writable(tensor& t, const char* what) const {
    if (t.space().host()) throw std::logic_error(std::string("apart: ") + what + " must not write host memory");
    if (t.frozen()) throw std::logic_error(std::string("apart: ") + what + " must not write a sent tensor");
    own(t, what);
    return back(t);
  }
  event put(call_of c, std::function<void()> run) {
    const auto e = machine_->enqueue(queue_, c.reads, c.writes, c.what, std::move(run));
    machine_->drift();
    return e;
  }

  template <class... P, class... A>
  void call(void (device::*primitive)(P...), const char* what, A&... arguments) {
    call_of c{what, {}, {}};
    std::tuple<kept<P>...> values{translated<P>(c, arguments)...};
    put(std::move(c), [maths = maths_, primitive, values = std::move(values)]() mutable {
      std::apply([&](auto&... v) { ((*maths).*primitive)(static_cast<P>(v)...); }, values);
    });
  }
  // Tensors at the machine's addresses. As the primitive declares them, const tensors are read and
  // the others written.
  template <class P, class A>
  kept<P> translated(call_of& c, A& a) {
    if constexpr (std::is_same_v<P, const tensor&>) {
      return read(c, a);
    } else if constexpr (std::is_same_v<P, tensor&>) {
      return written(c, a);
    } else if constexpr (std::is_same_v<std::decay_t<P>, tensors>) {
      tensors all;
      for (auto& t : a)
        if constexpr (std::is_same_v<P, const tensors&>)
          all.push_back(read(c, t));
        else
          all.push_back(written(c, t));
      return all;
    } else {
      return kept<P>(a);
    }
  }
  tensor read(call_of& c, const tensor& t) {
    if (!t.backed()) return t;
    if (t.space().host()) {  // copied, except the result of pack(), which is never written again
      if (std::string_view(c.what) == "gemm_packed") return t;
      tensor here = tensor::allocate(*maths_, t.dims(), t.type());
      std::memcpy(here.raw_mutable(), t.raw(), t.bytes());
      return here;
    }
    own(t, c.what);
    c.reads.push_back(t);
    return tensor::borrow(back(t), t.dims(), t.type());
  }
  tensor written(call_of& c, tensor& t) {
    if (!t.backed()) return t;
    auto* at = writable(t, c.what);
    c.writes.push_back(t);
    return tensor::borrow(at, t.dims(), t.type());
  }

  std::shared_ptr<device> maths_;
  std::shared_ptr<machine> machine_;
  std::int16_t number_;
  std::uint32_t queue_;
  std::shared_ptr<promises> promised_;
};

}  // namespace

std::unique_ptr<device> make_device(std::shared_ptr<device> maths, std::shared_ptr<machine> m, std::int16_t number) {
  return std::make_unique<stream>(std::move(maths), std::move(m), number);
}

}  // namespace troupe::apart
