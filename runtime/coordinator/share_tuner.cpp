#include "runtime/coordinator/share_tuner.hpp"

#include <algorithm>
#include <cstdlib>

#include "runtime/base/median.hpp"

namespace troupe {
namespace {

constexpr std::size_t kept_steps = 5;
constexpr double least_seconds = 1e-9;     // a virtual clock may not have moved
constexpr std::uint32_t needed_steps = 4;  // with the first, which does not count

double slowest(const std::vector<double>& cost, const auto& packets) {
  double most = 0;
  for (std::size_t w = 0; w < cost.size(); ++w) most = std::max(most, cost[w] * static_cast<double>(packets[w]));
  return most;
}

}  // namespace

share_tuner::share_tuner(const std::vector<packet_range>& ranges) {
  for (const auto& r : ranges) workers_.push_back({.packets = r.count});
  behind_ = workers_.size();
}

bool share_tuner::take(std::uint32_t worker, std::uint64_t step, double seconds) {
  auto& w = workers_.at(worker);
  if (step < w.next) return false;
  w.next = step + 1;
  if (w.steps == seen_) --behind_;
  if (w.steps++ == 0) return true;
  w.per_packet.push_back(std::max(seconds, least_seconds) / w.packets);
  if (w.per_packet.size() > kept_steps) w.per_packet.pop_front();
  return true;
}

std::optional<std::vector<std::uint32_t>> share_tuner::proposal() {
  if (behind_ > 0) return std::nullopt;
  ++seen_;
  for (const auto& w : workers_) behind_ += w.steps == seen_ ? 1 : 0;
  if (seen_ < needed_steps) return std::nullopt;
  std::vector<double> cost;
  std::vector<std::uint32_t> now;
  for (const auto& w : workers_) cost.push_back(lower_median(w.per_packet)), now.push_back(w.packets);
  std::int64_t packets = 0;
  for (auto n : now) packets += n;
  const auto best = balanced(packets, cost);
  std::int64_t moved = 0;
  for (std::size_t w = 0; w < best.size(); ++w) moved = std::max(moved, std::abs(best[w] - now[w]));
  const auto gain = 1 - slowest(cost, best) / slowest(cost, now);
  gained_ = gain < least_gain || moved <= 1 ? 0 : gained_ + gain;
  std::vector<std::uint32_t> wanted(best.begin(), best.end());
  if (gained_ < worth_a_change || wanted == proposed_) return std::nullopt;
  gained_ = 0;
  proposed_ = wanted;
  return wanted;
}

}  // namespace troupe
