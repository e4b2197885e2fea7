#include "runtime/trace/recorder.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t words = sizeof(activity) / sizeof(std::uint64_t);
using activity_words = std::array<std::uint64_t, words>;

std::atomic<std::uint64_t> recorders{0};

}  // namespace

// One writer, any readers. A slot is overwritten after `capacity` more activities; a reader that
// was overtaken finds that in `count`.
struct activity_recorder::ring {
  explicit ring(std::size_t n) : capacity(n), slots(std::make_unique<std::uint64_t[]>(n * words)) {}
  void add(const activity& a) {
    const auto n = count.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // a reader of the new words sees at least this count
    const auto from = std::bit_cast<activity_words>(a);
    for (std::size_t i = 0; i < words; ++i) word(n, i).store(from[i], std::memory_order_relaxed);
    count.store(n + 1, std::memory_order_release);
  }
  void read(std::uint64_t& from, std::size_t most, reading& into) const {
    const auto newest = count.load(std::memory_order_acquire);
    from = std::min(from, newest);  // a position of another process may be anything
    const auto first = std::max(from, newest > capacity ? newest - capacity : 0);
    const auto end = first + std::min<std::uint64_t>(newest - first, most);
    into.more |= end < newest;
    const auto before = into.all.size();
    for (auto n = first; n < end; ++n) {
      activity_words to;
      for (std::size_t i = 0; i < words; ++i) to[i] = word(n, i).load(std::memory_order_relaxed);
      into.all.push_back(std::bit_cast<activity>(to));
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    const auto now = count.load(std::memory_order_relaxed);
    // The writer may be at `now`, whose slot is that of now - capacity.
    const auto whole = std::clamp(now >= capacity ? now - capacity + 1 : 0, first, end);
    into.all.erase(into.all.begin() + static_cast<std::ptrdiff_t>(before),
                   into.all.begin() + static_cast<std::ptrdiff_t>(before + (whole - first)));
    into.lost += whole - from;
    from = end;
  }
  std::atomic_ref<std::uint64_t> word(std::uint64_t n, std::size_t i) const {
    return std::atomic_ref<std::uint64_t>(slots[n % capacity * words + i]);
  }

  const std::size_t capacity;
  const std::unique_ptr<std::uint64_t[]> slots;
  std::atomic<std::uint64_t> count{0};
};

activity_recorder::activity_recorder(std::size_t bytes, unsigned threads)
    : serial_(++recorders), capacity_(std::max<std::size_t>(64, bytes / sizeof(activity) / std::max(1u, threads))) {}

activity_recorder::~activity_recorder() = default;

activity_recorder::ring& activity_recorder::own_ring() {
  thread_local std::pair<std::uint64_t, ring*> last{0, nullptr};
  if (last.first == serial_) return *last.second;
  std::lock_guard guard(lock_);
  auto& mine = of_thread_[std::this_thread::get_id()];
  if (mine == nullptr) mine = rings_.emplace_back(std::make_unique<ring>(capacity_)).get();
  last = {serial_, mine};
  return *mine;
}

void activity_recorder::add(const activity& a) { own_ring().add(a); }

void activity_recorder::name(std::uint32_t job, std::vector<std::string> roles) {
  std::lock_guard guard(lock_);
  if (names_.size() == plans_named) names_.erase(names_.begin());
  names_.push_back({now(), job, std::move(roles)});
}

std::vector<activity_names> activity_recorder::names() const {
  std::lock_guard guard(lock_);
  return names_;
}

activity_recorder::reading activity_recorder::read(position& from, std::size_t most) const {
  std::vector<const ring*> all;
  {
    std::lock_guard guard(lock_);
    for (const auto& r : rings_) all.push_back(r.get());
  }
  reading out;
  const auto share = std::max<std::size_t>(1, most / std::max<std::size_t>(1, all.size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i]->read(from.read[i], share, out);
  return out;
}

}  // namespace troupe
