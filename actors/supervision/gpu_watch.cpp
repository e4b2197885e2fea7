#include "actors/supervision/gpu_watch.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "ops/device_descriptors.hpp"

namespace troupe {
namespace {

constexpr auto silent_after = std::chrono::seconds(5);

}  // namespace

std::vector<int> gpus_in(const std::vector<std::string>& devices) {
  std::vector<int> numbers;
  for (const auto& word : devices) {
    const auto d = parse_device(word);
    if (d.kind == "gpu" && d.number >= 0 && std::find(numbers.begin(), numbers.end(), d.number) == numbers.end())
      numbers.push_back(d.number);
  }
  return numbers;
}

gpu_watch::gpu_watch(std::vector<int> numbers, describe ask, std::chrono::milliseconds every)
    : numbers_(std::move(numbers)), ask_(std::move(ask)), every_(every) {
  if (!numbers_.empty()) thread_ = std::thread([this] { run(); });
}

gpu_watch::~gpu_watch() {
  {
    const std::lock_guard guard(lock_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

std::vector<watched_gpu> gpu_watch::latest(clock::time_point now) const {
  std::vector<watched_gpu> list;
  clock::time_point answered;
  {
    const std::lock_guard guard(lock_);
    list = latest_;
    answered = answered_;
  }
  if (now - answered <= silent_after + every_) return list;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - answered).count();
  for (auto& g : list) g.facts.failure = "the driver has not answered for " + std::to_string(seconds) + " s";
  return list;
}

std::vector<watched_gpu> gpu_watch::described(const std::vector<watched_gpu>& earlier) const {
  std::vector<watched_gpu> list;
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const auto* before = i < earlier.size() && !earlier[i].facts.name.empty() ? &earlier[i].facts : nullptr;
    try {
      list.push_back({numbers_[i], ask_(numbers_[i], before)});
    } catch (const std::exception& e) {
      list.push_back({numbers_[i], before ? *before : gpu_facts{}});
      list.back().facts.failure = e.what();
    }
  }
  return list;
}

void gpu_watch::run() {
  std::vector<watched_gpu> seen;
  std::unique_lock guard(lock_);
  while (!ends_) {
    guard.unlock();
    seen = described(seen);
    guard.lock();
    latest_ = seen;
    answered_ = clock::now();
    changed_.wait_for(guard, every_, [this] { return ends_; });
  }
}

namespace {

repl_gpu shown_gpu(const watched_gpu& g) {
  const auto& f = g.facts;
  repl_gpu s;
  s.number = static_cast<std::uint32_t>(g.number);
  s.name = f.name;
  s.failure = f.failure;
  s.memory_total = f.memory_total;
  // The sensors' number is that of the whole GPU; CUDA's is that of the part that this process may
  // use (MIG).
  s.memory_used = f.memory_free ? std::optional(f.memory_total - std::min(f.memory_total, *f.memory_free)) : f.sensors.memory_used;
  if (f.pool) s.held = f.pool->bytes_held, s.in_use = f.pool->bytes_in_use, s.peak = f.pool->peak_bytes_in_use;
  s.utilisation = f.sensors.utilisation;
  s.memory_utilisation = f.sensors.memory_utilisation;
  s.temperature = f.sensors.temperature;
  s.power = f.sensors.power;
  return s;
}

}  // namespace

std::vector<repl_gpu> shown(const std::vector<watched_gpu>& list) {
  std::vector<repl_gpu> all;
  for (const auto& g : list) all.push_back(shown_gpu(g));
  return all;
}

}  // namespace troupe
