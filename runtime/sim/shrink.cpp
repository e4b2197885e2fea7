#include "runtime/sim/shrink.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace troupe::sim {
namespace {

// ddmin, with complements only: removes elements of `list` while `test` holds for what is left. It
// holds for `list`.
template <class T, class F>
void minimise(std::vector<T>& list, const F& test, std::size_t least = 0) {
  if (least == 0 && test(std::vector<T>())) return list.clear();
  least = std::max<std::size_t>(least, 1);
  std::size_t parts = 2;
  while (list.size() > least) {
    parts = std::min(parts, list.size());
    bool smaller = false;
    for (std::size_t i = 0; i < parts && !smaller; ++i) {
      const auto begin = list.size() * i / parts, end = list.size() * (i + 1) / parts;
      if (list.size() - (end - begin) < least) continue;
      std::vector<T> rest(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(begin));
      rest.insert(rest.end(), list.begin() + static_cast<std::ptrdiff_t>(end), list.end());
      if (!test(rest)) continue;
      list = std::move(rest);
      smaller = true;
    }
    if (smaller) {
      parts = std::max<std::size_t>(parts - 1, 2);
    } else if (parts >= list.size()) {
      return;
    } else {
      parts *= 2;
    }
  }
}

class shrinker {
 public:
  shrinker(std::vector<happening> list, const fails_with& fails, std::size_t most_runs)
      : list_(std::move(list)), fails_(fails), left_(most_runs) {}

  std::vector<happening> result() {
    if (fail(list_)) {
      bool changed = true;
      while (changed && left_ > 0) {
        minimise(list_, [&](const auto& some) { return fail(some); });
        changed = false;
        for (std::size_t i = 0; i < list_.size(); ++i) changed = simplify(i) || changed;
      }
    }
    return sorted(std::move(list_));
  }

 private:
  static std::vector<happening> sorted(std::vector<happening> list) {
    std::stable_sort(list.begin(), list.end(), [](const happening& a, const happening& b) { return a.at < b.at; });
    return list;
  }

  bool fail(const std::vector<happening>& some) {
    if (left_ == 0) return false;
    --left_;
    return fails_(sorted(some));
  }

  // Changes happening `i` by `change` if the list still fails then.
  template <class F>
  bool simpler(std::size_t i, const F& change) {
    auto list = list_;
    change(list[i]);
    if (list[i] == list_[i] || !fail(list)) return false;
    list_ = std::move(list);
    return true;
  }

  // As `simpler`, with every element removed of a list of nodes that can be removed.
  bool fewer(std::size_t i, std::vector<std::uint32_t> happening::*nodes) {
    auto some = list_[i].*nodes;
    const auto before = some.size();
    if (before < 2) return false;
    minimise(
        some,
        [&](const auto& left) {
          auto list = list_;
          list[i].*nodes = left;
          return fail(list);
        },
        1);
    list_[i].*nodes = some;
    return some.size() < before;
  }

  bool simplify(std::size_t i) {
    bool changed = fewer(i, &happening::nodes);
    changed = fewer(i, &happening::to) || changed;
    changed = simpler(i, [](happening& h) { h.both_ways = false; }) || changed;
    if (list_[i].kind == fault_kind::cut && list_[i].plane == fault_plane::both)
      changed = simpler(i, [](happening& h) { h.plane = fault_plane::control; }) ||
                simpler(i, [](happening& h) { h.plane = fault_plane::data; }) || changed;
    for (int halvings = 0; halvings < 8 && list_[i].length > duration{1}; ++halvings) {
      if (!simpler(i, [](happening& h) { h.length /= 2; })) break;
      changed = true;
    }
    changed = rounder(i, &happening::length) || changed;
    changed = rounder(i, &happening::at) || changed;
    changed = rounder(i, &happening::ahead) || changed;
    return simpler(i, [](happening& h) { h.factor = h.factor < 2 ? h.factor : std::floor(h.factor); }) || changed;
  }

  // Rounds a time down, to whole seconds if possible.
  bool rounder(std::size_t i, duration happening::*time) {
    for (const std::int64_t unit : {1'000'000'000, 100'000'000, 10'000'000, 1'000'000}) {
      if (list_[i].*time < duration{}) return false;
      if (list_[i].*time % unit == duration{}) return false;
      if (simpler(i, [&](happening& h) { h.*time -= h.*time % unit; })) return true;
    }
    return false;
  }

  std::vector<happening> list_;
  const fails_with& fails_;
  std::size_t left_;
};

}  // namespace

std::vector<happening> shrink(std::vector<happening> list, const fails_with& fails, std::size_t most_runs) {
  return shrinker(std::move(list), fails, most_runs).result();
}

}  // namespace troupe::sim
