#include "runtime/node/machine/speed.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "ops/cpu/multiply_adds.hpp"
#include "ops/device.hpp"

namespace troupe::machine {
namespace {

using ticks = std::chrono::steady_clock;
using call = std::function<void()>;

constexpr double window = 0.3;  // seconds of one measurement
constexpr int least_turns = 3;

double seconds_since(ticks::time_point begin) { return std::chrono::duration<double>(ticks::now() - begin).count(); }

// Calls per second and thread, of the fastest turn. `make` returns a thread's call. All threads
// begin a turn together, and it ends with the last of them.
double turns_per_second(unsigned threads, const std::function<call()>& make) {
  std::vector<call> calls;
  for (unsigned i = 0; i < threads; ++i) calls.push_back(make());  // here, because a thread must not throw
  ticks::time_point measured_from, turn_from;
  double least = 1e30;
  int turns = -1;  // the first meeting ends the warm-up
  bool more = true;
  const auto meeting = [&]() noexcept {
    if (turns < 0) measured_from = ticks::now();
    if (turns >= 0) least = std::min(least, seconds_since(turn_from));
    ++turns;
    more = turns < least_turns || seconds_since(measured_from) < window;
    turn_from = ticks::now();
  };
  std::barrier meet(static_cast<std::ptrdiff_t>(threads), meeting);
  const auto work = [&](const call& once) {
    once();  // pages, and the processor's frequency
    meet.arrive_and_wait();
    while (more) {
      once();
      meet.arrive_and_wait();
    }
  };
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back([&, i] { work(calls[i]); });
  work(calls[0]);
  others.clear();
  return 1 / least;
}

constexpr std::int64_t side = 512;
constexpr double product_flops = 2.0 * side * side * side;

call matrix_product() {
  std::shared_ptr<device> dev = make_cpu_device();
  const auto matrix = [&] {
    auto t = tensor::allocate(*dev, shape{side, side}, dtype::f32);
    for (std::int64_t i = 0; i < t.count(); ++i) t.mutable_data<float>()[i] = static_cast<float>(i % 17) - 8;
    return t;
  };
  return [dev, a = matrix(), b = matrix(), c = matrix()]() mutable {
    gemm_spec s;
    s.m = s.n = s.k = side;
    dev->gemm(s, a, b, c);
  };
}

constexpr std::size_t long_vector = std::size_t{8} << 20;  // elements, more than most caches hold

// y += 0.5 x
call vector_sum() {
  return [x = std::vector<float>(long_vector, 1.0F), y = std::vector<float>(long_vector, 1.0F)]() mutable {
    for (std::size_t i = 0; i < x.size(); ++i) y[i] += 0.5F * x[i];
  };
}

}  // namespace

speed measure_speed(unsigned threads) {
  speed s;
  s.threads = std::max(1U, threads);
  const auto loop = cpu::best_multiply_adds();
  s.instructions = loop.instructions;
  const auto peak = [&] { return call(loop.call); };
  const auto all = static_cast<double>(s.threads);
  s.peak_one = loop.flops * turns_per_second(1, peak);
  s.sgemm_one = product_flops * turns_per_second(1, matrix_product);
  s.peak_all = s.threads == 1 ? s.peak_one : all * loop.flops * turns_per_second(s.threads, peak);
  s.sgemm_all = s.threads == 1 ? s.sgemm_one : all * product_flops * turns_per_second(s.threads, matrix_product);
  s.memory_rate = 3.0 * sizeof(float) * long_vector * turns_per_second(1, vector_sum);
  return s;
}

}  // namespace troupe::machine
