#include "runtime/plan/exact_cover.hpp"

#include <algorithm>

namespace troupe {
namespace {

using fault = cover_fault::what;

// Between two neighbouring packet boundaries, every claim present covers all packets.
std::optional<cover_fault> along_features(std::vector<claim>& here, span_of packets, span_of features) {
  std::stable_sort(here.begin(), here.end(), [](const claim& a, const claim& b) { return a.features.begin < b.features.begin; });
  auto at = features.begin;
  const claim* last = nullptr;
  for (const auto& c : here) {
    if (c.features.begin < features.begin || c.features.end > features.end)
      return cover_fault{fault::beyond, packets, c.features, c.who};
    if (c.features.begin > at) return cover_fault{fault::missing, packets, {at, c.features.begin}};
    if (c.features.begin < at)
      return cover_fault{fault::twice, packets, {c.features.begin, std::min(at, c.features.end)}, last->who, c.who};
    at = c.features.end;
    last = &c;
  }
  if (at < features.end) return cover_fault{fault::missing, packets, {at, features.end}};
  return std::nullopt;
}

}  // namespace

std::optional<cover_fault> exact_cover(std::vector<claim> claims, span_of packets, span_of features) {
  std::erase_if(claims, [](const claim& c) { return c.packets.count() <= 0 || c.features.count() <= 0; });
  std::vector<std::int64_t> bounds{packets.begin, packets.end};
  for (const auto& c : claims) {
    if (c.packets.begin < packets.begin || c.packets.end > packets.end)
      return cover_fault{fault::beyond, c.packets, c.features, c.who};
    bounds.push_back(c.packets.begin);
    bounds.push_back(c.packets.end);
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  std::stable_sort(claims.begin(), claims.end(), [](const claim& a, const claim& b) { return a.packets.begin < b.packets.begin; });
  std::vector<claim> here;
  std::size_t next = 0;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    std::erase_if(here, [&](const claim& c) { return c.packets.end <= bounds[i]; });
    for (; next < claims.size() && claims[next].packets.begin == bounds[i]; ++next) here.push_back(claims[next]);
    if (auto fault = along_features(here, {bounds[i], bounds[i + 1]}, features)) return fault;
  }
  return std::nullopt;
}

}  // namespace troupe
