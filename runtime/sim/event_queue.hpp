// The world's pending events, in order of (time, order of insertion). Records live in a slab that
// never moves them and is reused last in, first out, so the queue allocates no memory in a steady
// state. The heap (4 children per node) holds 16 bytes per event.
// An entry may also be a number of the caller, from most_at_once to twice that, that has no record.
// Limits: 2^24 records at once (std::length_error), 2^39 events in total.
// Not thread-safe.
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages/ids.hpp"

namespace troupe::sim {

template <class Record>
class event_queue {
 public:
  using slot = std::uint32_t;
  static constexpr std::size_t most_at_once = std::size_t{1} << 24;

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  std::size_t most() const { return max_; }
  time_point next_at() const { return time_point(heap_.front().at); }

  // Returns a record to fill; its address is stable until give_back.
  slot take() {
    if (free_.empty()) grow();
    const auto s = free_.back();
    free_.pop_back();
    return s;
  }
  Record& operator[](slot s) { return chunks_[s / chunk][s % chunk]; }
  void give_back(slot s) { free_.push_back(s); }

  void push(time_point at, slot s) {
    assert(order_ < (1ull << 39) && s < 2 * most_at_once);
    const entry e{at.count(), (order_++ << 25) | s};
    std::size_t i = heap_.size();
    heap_.push_back(e);
    if (heap_.size() > max_) max_ = heap_.size();
    while (i > 0) {
      const std::size_t up = (i - 1) / 4;
      if (!(e < heap_[up])) break;
      heap_[i] = heap_[up];
      i = up;
    }
    heap_[i] = e;
  }

  std::pair<time_point, slot> pop() {
    const auto first = heap_.front();
    const auto last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return {time_point(first.at), static_cast<slot>(first.key & 0x1ffffff)};
  }

 private:
  static constexpr std::size_t chunk = 256;
  struct entry {
    std::int64_t at;
    std::uint64_t key;  // order of insertion, slot or number of the caller
    friend bool operator<(const entry& a, const entry& b) { return a.at != b.at ? a.at < b.at : a.key < b.key; }
  };

  void sink(entry e) {
    const std::size_t n = heap_.size();
    std::size_t i = 0;
    for (;;) {
      const std::size_t first = 4 * i + 1;
      if (first >= n) break;
      std::size_t least = first;
      const std::size_t end = first + 4 < n ? first + 4 : n;
      for (std::size_t c = first + 1; c < end; ++c)
        if (heap_[c] < heap_[least]) least = c;
      if (!(heap_[least] < e)) break;
      heap_[i] = heap_[least];
      i = least;
    }
    heap_[i] = e;
  }

  void grow() {
    const auto first = static_cast<slot>(chunks_.size() * chunk);
    if (first + chunk > most_at_once)
      throw std::length_error("the simulation has more than " + std::to_string(most_at_once) +
                              " events in its queue: use fewer nodes, or a reducer or mode with fewer messages");
    chunks_.push_back(std::make_unique<Record[]>(chunk));
    for (std::size_t k = chunk; k-- > 0;) free_.push_back(first + static_cast<slot>(k));
  }

  std::vector<std::unique_ptr<Record[]>> chunks_;
  std::vector<slot> free_;
  std::vector<entry> heap_;
  std::uint64_t order_ = 0;
  std::size_t max_ = 0;
};

}  // namespace troupe::sim
