#include "runtime/trace/activity.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <set>

namespace troupe {
namespace {

// Literals of the same text may have several addresses; then the text has several numbers.
constexpr std::size_t most_kinds = 255;
std::array<std::atomic<const char*>, most_kinds> kinds{};

}  // namespace

namespace task_kinds {

std::uint8_t number_of(const char* kind) {
  for (std::size_t i = 0; i < most_kinds; ++i) {
    const char* known = kinds[i].load(std::memory_order_relaxed);
    if (known == kind) return static_cast<std::uint8_t>(i);
    if (known == nullptr && (kinds[i].compare_exchange_strong(known, kind) || known == kind)) return static_cast<std::uint8_t>(i);
  }
  return most_kinds;
}

const char* name_of(std::uint8_t number) {
  const char* known = number < most_kinds ? kinds[number].load(std::memory_order_relaxed) : nullptr;
  return known == nullptr ? "other" : known;
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& k : kinds) {
    const char* known = k.load(std::memory_order_relaxed);
    if (known == nullptr) break;
    all.emplace_back(known);
  }
  return all;
}

std::uint8_t number_of_text(const std::string& kind) {
  static std::mutex lock;
  static std::set<std::string> texts;  // of other processes; at most most_kinds
  for (std::size_t i = 0; i < most_kinds; ++i) {
    const char* known = kinds[i].load(std::memory_order_relaxed);
    if (known == nullptr) break;
    if (kind == known) return static_cast<std::uint8_t>(i);
  }
  std::lock_guard guard(lock);
  if (texts.size() == most_kinds && !texts.contains(kind)) return most_kinds;
  return number_of(texts.insert(kind).first->c_str());
}

}  // namespace task_kinds

activity activity_of_message(activity::kind_of kind, const envelope& e) {
  const bool sent = kind == activity::kind_of::sent;
  activity a;
  a.kind = kind;
  a.what = static_cast<std::uint8_t>(e.body.index());
  a.role = sent ? e.h.src : e.h.dst;
  a.peer = sent ? e.h.dst : e.h.src;
  a.id = static_cast<std::uint64_t>(e.h.id);
  a.value = e.h.trace;
  a.step = e.h.step;
  a.packet = e.h.packet;
  a.size = static_cast<std::uint32_t>(std::min<std::size_t>(tensor_bytes(e.body), std::numeric_limits<std::uint32_t>::max()));
  return a;
}

activity activity_of_task(role_id role, const char* kind, const std::optional<header>& packet, duration took) {
  activity a;
  a.kind = activity::kind_of::task;
  a.what = task_kinds::number_of(kind);
  a.role = role;
  a.value = static_cast<std::uint64_t>(took.count());
  if (!packet) return a;
  a.id = static_cast<std::uint64_t>(packet->id);
  a.step = packet->step;
  a.packet = packet->packet;
  return a;
}

activity activity_of_status(role_id role, const role_status& s) {
  activity a;
  a.kind = activity::kind_of::status;
  a.what = static_cast<std::uint8_t>(s.waits);
  a.role = role;
  a.value = s.credit;
  a.step = s.step;
  a.packet = s.in_flight;
  a.size = s.queued;
  return a;
}

}  // namespace troupe
