#include "runtime/sim/storm.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace troupe::sim {
namespace {

constexpr duration recovery = std::chrono::seconds(10);

std::uint64_t frequency(fault_kind k) {
  switch (k) {
    case fault_kind::kill: return 6;
    case fault_kind::cut: return 4;
    case fault_kind::lose: return 3;
    case fault_kind::stop:
    case fault_kind::drain: return 2;
    case fault_kind::partition:
    case fault_kind::slow:
    case fault_kind::slow_disk:
    case fault_kind::disk_full: return 1;
    default: return 0;
  }
}

class storm {
 public:
  storm(std::uint64_t seed, const storm_shape& shape) : shape_(shape), random_(seed * 6364136223846793005ull + 0x73746f726d) {}

  std::vector<happening> drawn() {
    std::uint64_t sum = 0;
    for (const auto k : shape_.kinds) sum += frequency(k);
    const auto first = shape_.coordinator ? 0u : 1u;
    if (sum == 0 || shape_.nodes <= first) return {};
    const auto count = shape_.least + below(shape_.most - std::min(shape_.least, shape_.most) + 1);
    for (std::uint64_t i = 0; i < count; ++i) add(sum);
    std::stable_sort(list_.begin(), list_.end(), [](const happening& a, const happening& b) { return a.at < b.at; });
    return std::move(list_);
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_.below(n); }
  duration ms(std::uint64_t n) { return std::chrono::milliseconds(static_cast<std::int64_t>(n)); }
  duration within(duration d) { return duration(static_cast<std::int64_t>(below(static_cast<std::uint64_t>(d.count()) + 1))); }

  std::uint32_t any_node() {
    const auto first = shape_.coordinator ? 0u : 1u;
    return first + static_cast<std::uint32_t>(below(shape_.nodes - first));
  }
  std::vector<std::uint32_t> all_but(std::uint32_t node) {
    std::vector<std::uint32_t> list(shape_.nodes);
    std::iota(list.begin(), list.end(), 0u);
    list.erase(list.begin() + node);
    return list;
  }

  fault_kind kind(std::uint64_t sum) {
    auto n = below(sum);
    for (const auto k : shape_.kinds) {
      if (n < frequency(k)) return k;
      n -= frequency(k);
    }
    return shape_.kinds.back();
  }

  // A happening that `most_away` forbids is drawn again, a few times.
  void add(std::uint64_t sum) {
    for (int tries = 0; tries < 20; ++tries) {
      happening h;
      h.kind = kind(sum);
      const bool burst = !list_.empty() && random_.chance(shape_.bursts);
      h.at = burst ? list_.back().at + within(ms(2000)) : shape_.from + within(shape_.span);
      h.at = std::min(h.at, shape_.from + shape_.span);
      if (h.kind == fault_kind::cut || h.kind == fault_kind::partition) {
        if (shape_.nodes < 2) continue;
        cut(h);
      } else {
        hit(h);
      }
      const auto hit_node = away_.size();
      away_.push_back(absence(h));
      if (fits()) {
        list_.push_back(std::move(h));
        return;
      }
      away_.resize(hit_node);
    }
  }

  void hit(happening& h) {
    target_ = any_node();
    h.nodes = {target_};
    switch (h.kind) {
      case fault_kind::kill:
      case fault_kind::lose:
        h.length = ms(below(2) == 0 ? below(2000) : below(15000));
        if (below(3) == 0 && target_ != 0 && !shape_.all_return) h.length = duration{-1};
        break;
      case fault_kind::drain: h.length = ms(2000 + below(10000)); break;
      case fault_kind::stop: h.length = ms(below(3) == 0 ? 200 + below(5000) : 5000 + below(below(4) == 0 ? 40000 : 8000)); break;
      default:
        h.length = ms(500 + below(10000));
        if (h.kind != fault_kind::disk_full) h.factor = static_cast<double>(2 + below(19));
    }
  }

  // Cuts one node off from another or from all others, in one or both directions.
  void cut(happening& h) {
    target_ = any_node();
    h.nodes = {target_};
    h.length = ms(below(2) != 0 ? 100 + below(4000) : 4000 + below(12000));
    if (h.kind == fault_kind::partition) return;
    auto others = all_but(target_);
    const bool one = below(2) == 0;
    if (one) others = {others[below(others.size())]};
    h.plane = static_cast<fault_plane>(below(3));
    const auto ways = below(3);  // out, in, both
    h.both_ways = ways == 2;
    if (one || ways == 1) h.to = std::move(others);
    if (ways == 1) std::swap(h.nodes, h.to);
  }

  // --- the nodes that are away

  struct away {
    std::uint32_t node = 0;
    time_point from{}, until{};  // equal: the node is not away
  };
  away absence(const happening& h) const {
    const bool works = h.kind == fault_kind::slow || h.kind == fault_kind::slow_disk || h.kind == fault_kind::disk_full;
    if (works) return {target_, h.at, h.at};
    return {target_, h.at, h.length < duration{} ? duration::max() : h.at + h.length + recovery};
  }
  bool fits() const {
    if (shape_.most_away == 0) return true;
    return std::all_of(away_.begin(), away_.end(), [&](const away& a) {
      std::set<std::uint32_t> nodes;
      for (const auto& b : away_)
        if (b.from <= a.from && a.from < b.until) nodes.insert(b.node);
      return nodes.size() <= shape_.most_away;
    });
  }

  const storm_shape& shape_;
  random random_;
  std::uint32_t target_ = 0;  // the node that the last drawn happening is meant for
  std::vector<happening> list_;
  std::vector<away> away_;
};

}  // namespace

std::vector<happening> random_storm(std::uint64_t seed, const storm_shape& shape) { return storm(seed, shape).drawn(); }

}  // namespace troupe::sim
