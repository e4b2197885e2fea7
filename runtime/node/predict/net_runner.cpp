#include "runtime/node/predict/net_runner.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "ops/device.hpp"
#include "runtime/base/exception_text.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace net_runner_parts {

constexpr std::int64_t most_at_once = 256;      // examples of one pass
constexpr std::size_t most_sizes = 16;          // of passes for which a net is kept
constexpr std::int64_t least_for_a_thread = 4;  // examples; fewer are not worth the hand-over

// Examples in memory: values, or bytes that are scaled.
class examples_in_memory final : public source {
 public:
  examples_in_memory(const source& as, const float* values, const std::uint8_t* bytes, std::int64_t n)
      : as_(as), values_(values), bytes_(bytes), n_(n) {}

  shape example() const override { return as_.example(); }
  shape label() const override { return as_.label(); }
  std::int64_t classes() const override { return as_.classes(); }
  bool ids() const override { return as_.ids(); }
  channel_order picture_order() const override { return as_.picture_order(); }
  std::int64_t size(split) const override { return n_; }
  std::optional<byte_scaling> bytes() const override { return bytes_ ? as_.bytes() : std::nullopt; }
  void read_bytes(split, const std::vector<std::int64_t>& indices, std::uint8_t* out) const override {
    const auto size = static_cast<std::size_t>(example().count());
    for (const auto i : indices) {
      if (i < 0)
        std::memset(out, 0, size);
      else
        std::memcpy(out, bytes_ + static_cast<std::size_t>(i) * size, size);
      out += size;
    }
  }
  void read(split, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    switch (data.type()) {
      case dtype::i32: read_as(indices, data.mutable_data<std::int32_t>()); break;
      case dtype::f64: read_as(indices, data.mutable_data<double>()); break;
      default: read_as(indices, data.mutable_data<float>());
    }
    std::fill_n(label.mutable_data<std::int32_t>(), label.count(), -1);
  }

 private:
  template <class T>
  void read_as(const std::vector<std::int64_t>& indices, T* out) const {
    const auto size = example().count();
    const auto scaling = bytes();
    for (const auto i : indices)
      for (std::int64_t k = 0; k < size; ++k)
        *out++ = i < 0 ? T{0} : bytes_ ? scaled<T>(*scaling, bytes_[i * size + k], k, size) : static_cast<T>(values_[i * size + k]);
  }
  template <class T>
  static T scaled(const byte_scaling& s, std::uint8_t b, std::int64_t k, std::int64_t size) {
    const auto each = size / static_cast<std::int64_t>(s.scale.size());
    const auto c = static_cast<std::size_t>(k / each);
    return static_cast<T>(b * s.scale[c] - s.mean[std::min(c, s.mean.size() - 1)]);
  }

  const source& as_;
  const float* values_;
  const std::uint8_t* bytes_;
  std::int64_t n_;
};

// A thread's nets, by the number of examples of a pass.
class lane {
 public:
  lane(std::shared_ptr<const prepared_job> j, std::string layer)
      : job_(std::move(j)), layer_(std::move(layer)), dev_(make_cpu_device()) {}

  predictor& net_for(std::int64_t n) {
    auto& slot = nets_[n];
    if (!slot) {
      if (nets_.size() > most_sizes) std::erase_if(nets_, [n](const auto& e) { return e.first != n; });
      auto made = predictor::make(job_, dev_, layer_, n);
      if (!made) throw std::runtime_error(made.error().to_string());
      nets_[n] = *std::move(made);
    }
    return *nets_[n];
  }

  // Computes examples [first, end) of `from`.
  void run(const source& from, const float* values, std::int64_t first, std::int64_t end, float* out) {
    while (first < end) {
      const auto n = std::min(end - first, most_at_once);
      auto& net = net_for(n);
      const auto each = net.positions() * net.width();
      if (values && !job_->augment && !job_->graph.ids && job_->spec.type() == dtype::f32) {
        net.compute(values + first * job_->data->example().count(), out + first * each);
      } else {
        const auto r = net.run(from, first);
        for (std::size_t i = 0; i < r.values.size(); ++i)
          out[first * each + static_cast<std::int64_t>(i)] = static_cast<float>(r.values[i]);
      }
      first += n;
    }
  }

 private:
  std::shared_ptr<const prepared_job> job_;
  std::string layer_;
  std::shared_ptr<device> dev_;
  std::map<std::int64_t, std::unique_ptr<predictor>> nets_;
};

}  // namespace net_runner_parts

// size: the lanes and the threads that share them
struct net_runner::impl {
  impl(std::shared_ptr<const prepared_job> j, const std::string& layer, unsigned threads) : job(std::move(j)) {
    for (unsigned k = 0; k < std::max(threads, 1u); ++k) lanes.emplace_back(job, layer);
    for (std::size_t k = 1; k < lanes.size(); ++k) workers.emplace_back([this, k] { work(k); });
  }
  ~impl() {
    {
      const std::lock_guard guard(lock);
      over = true;
      ++round;
    }
    begin.notify_all();
    for (auto& w : workers) w.join();
  }

  void work(std::size_t k) {
    std::uint64_t seen = 0;
    for (;;) {
      std::unique_lock guard(lock);
      begin.wait(guard, [&] { return round != seen; });
      seen = round;
      if (over) return;
      const auto part = part_of;
      guard.unlock();
      run_part(part, k);
      guard.lock();
      if (--left == 0) end.notify_one();
    }
  }

  void run_part(const std::function<void(std::size_t)>& part, std::size_t k) {
    try {
      part(k);
    } catch (...) {
      const auto text = current_exception_text();
      const std::lock_guard guard(lock);
      if (wrong.empty()) wrong = text;
    }
  }

  expected<void> run(const source& from, const float* values, std::int64_t n, float* out) {
    const std::lock_guard one(running);
    const auto parts =
        std::clamp<std::int64_t>(n / net_runner_parts::least_for_a_thread, 1, static_cast<std::int64_t>(lanes.size()));
    const std::function<void(std::size_t)> part = [&, parts](std::size_t k) {
      const auto i = static_cast<std::int64_t>(k);
      if (i < parts) lanes[k].run(from, values, n * i / parts, n * (i + 1) / parts, out);
    };
    wrong.clear();
    if (parts > 1) {
      {
        const std::lock_guard guard(lock);
        part_of = part;
        left = workers.size();
        ++round;
      }
      begin.notify_all();
    }
    run_part(part, 0);
    if (parts > 1) {
      std::unique_lock guard(lock);
      end.wait(guard, [&] { return left == 0; });
    }
    return wrong.empty() ? expected<void>() : unexpected(error(wrong));
  }

  std::shared_ptr<const prepared_job> job;
  std::vector<net_runner_parts::lane> lanes;  // [0]: the caller's
  std::mutex running;                         // held by the caller of run()
  std::mutex lock;                            // protects the members below
  std::condition_variable begin, end;
  std::function<void(std::size_t)> part_of;
  std::uint64_t round = 0;
  std::size_t left = 0;
  bool over = false;
  std::string wrong;
  std::vector<std::thread> workers;
};

expected<std::unique_ptr<net_runner>, diagnostic> net_runner::make(std::shared_ptr<const prepared_job> j, const std::string& layer,
                                                                   unsigned threads) {
  const auto tried = predictor::make(j, make_cpu_device(), layer, 1);
  if (!tried) return unexpected(tried.error());
  return std::unique_ptr<net_runner>(new net_runner(std::make_unique<impl>(std::move(j), layer, threads)));
}

net_runner::net_runner(std::unique_ptr<impl> i) : impl_(std::move(i)) {}
net_runner::~net_runner() = default;

answer net_runner::meaning() const { return impl_->lanes[0].net_for(1).meaning(); }
std::int64_t net_runner::classes() const { return impl_->lanes[0].net_for(1).classes(); }
shape net_runner::example() const { return impl_->job->data->example(); }
std::int64_t net_runner::positions() const { return impl_->lanes[0].net_for(1).positions(); }
std::int64_t net_runner::width() const { return impl_->lanes[0].net_for(1).width(); }

expected<void> net_runner::run(const float* examples, std::int64_t n, float* out) {
  return impl_->run(net_runner_parts::examples_in_memory(*impl_->job->data, examples, nullptr, n), examples, n, out);
}

expected<void> net_runner::run(const std::uint8_t* examples, std::int64_t n, float* out) {
  if (!impl_->job->data->bytes())
    return unexpected(error("the data of this net are no bytes: source " + in_quotes(impl_->job->spec.data.source) +
                            " does not say how bytes become values; give floats"));
  return impl_->run(net_runner_parts::examples_in_memory(*impl_->job->data, nullptr, examples, n), nullptr, n, out);
}

}  // namespace troupe
