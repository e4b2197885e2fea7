// Cost of adding 431,080 floats (LeNet's parameters) to the array that Hogwild's workers share:
// param_store's relaxed load, add and store, against an atomic addition. Prints one JSON object;
// bench/hogwild.py makes the page.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "actors/shell/param_store.hpp"
#include "ops/device.hpp"

namespace {

using namespace troupe;
constexpr std::int64_t count = 431080;
constexpr int rounds = 101;

template <class F>
std::vector<double> milliseconds(F&& add) {
  std::vector<double> took;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    add();
    took.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(took.begin(), took.end());
  return took;
}

void print(const char* name, const std::vector<double>& ms) {
  std::printf("\"%s_ms\":%.4f,\"%s_least_ms\":%.4f,\"%s_most_ms\":%.4f,", name, ms[ms.size() / 2], name, ms.front(), name,
              ms.back());
}

}  // namespace

int main() {
  const auto dev = make_cpu_device();
  if (!dev) return 1;
  auto ones = std::make_shared<tensor>(tensor::allocate(*dev, {count}, dtype::f32));
  std::fill_n(static_cast<float*>(const_cast<void*>(ones->raw())), count, 1.0f);
  param_store store;
  shared_effect write{shared_effect::kind_of::write, 0, ones, 0}, add{shared_effect::kind_of::add, 0, ones, 0};
  store.perform(write, *dev);
  const auto relaxed = milliseconds([&] { store.perform(add, *dev); });

  std::vector<float> shared(static_cast<std::size_t>(count), 1.0f);
  const auto* from = static_cast<const float*>(ones->raw());
  const auto atomic = milliseconds([&] {
    for (std::size_t i = 0; i < shared.size(); ++i) std::atomic_ref<float>(shared[i]).fetch_add(from[i], std::memory_order_relaxed);
  });

  // Checks that both have added.
  auto now = std::make_shared<tensor>(tensor::declare({count}, dtype::f32));
  shared_effect read{shared_effect::kind_of::read, 0, now, 0};
  store.perform(read, *dev);
  const float expected = 1.0f + rounds;
  const auto* sum = static_cast<const float*>(now->raw());
  for (std::int64_t i = 0; i < count; ++i)
    if (sum[i] != expected || shared[static_cast<std::size_t>(i)] != expected) return 1;
  std::printf("{");
  print("relaxed", relaxed);
  print("fetch_add", atomic);
  std::printf("\"rounds\":%d}\n", rounds);
}
