// A hash table from a 64-bit key to a value: linear probing in one array, no erasure, allocates
// only when it grows. The world looks up routes between nodes and the last arrival of a pair of
// roles once per message, where std::unordered_map would cost one more cache miss. References are
// valid until the next insertion.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace troupe::sim {

template <class Value>
class flat_map {
 public:
  Value& operator[](std::uint64_t key) {
    if (2 * (used_ + 1) > cells_.size()) grow();
    auto i = place(key);
    if (!cells_[i].present) {
      cells_[i].present = true;
      cells_[i].key = key;
      ++used_;
    }
    return cells_[i].value;
  }
  Value* find(std::uint64_t key) {
    if (cells_.empty()) return nullptr;
    auto& c = cells_[place(key)];
    return c.present ? &c.value : nullptr;
  }
  const Value* find(std::uint64_t key) const { return const_cast<flat_map*>(this)->find(key); }
  std::size_t size() const { return used_; }
  template <class F>
  void each(F&& f) const {
    for (const auto& c : cells_)
      if (c.present) f(c.key, c.value);
  }

 private:
  struct cell {
    std::uint64_t key = 0;
    Value value{};
    bool present = false;
  };
  std::size_t place(std::uint64_t key) const {
    const auto mask = cells_.size() - 1;
    auto i = static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ull) >> 32) & mask;
    while (cells_[i].present && cells_[i].key != key) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    auto old = std::move(cells_);
    cells_ = std::vector<cell>(old.empty() ? 8 : 2 * old.size());
    for (auto& c : old)
      if (c.present) cells_[place(c.key)] = std::move(c);
  }

  std::vector<cell> cells_;
  std::size_t used_ = 0;
};

}  // namespace troupe::sim
