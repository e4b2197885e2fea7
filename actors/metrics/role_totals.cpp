#include "actors/metrics/role_totals.hpp"

#include <algorithm>

#include "runtime/messages/ids.hpp"

namespace troupe {
namespace {

constexpr std::size_t max_groups = 256;  // of a job

// A counter that is lower than before belongs to a new role.
template <class T>
T growth(T now, T before) {
  return now >= before ? now - before : now;
}

template <class T, class Get>
void grow_each(std::vector<T>& sums, std::size_t n, Get get) {
  if (sums.size() < n) sums.resize(n);
  for (std::size_t i = 0; i < n; ++i) get(sums[i], i);
}

}  // namespace

std::string layer_of(const role_published& r) {
  const auto slash = r.name.find('/');
  return r.kind == "stage" && slash != std::string::npos ? r.name.substr(slash + 1) : std::string();
}

void role_totals::take(const std::vector<role_published>& roles) {
  for (auto& [number, j] : jobs_)
    for (auto& [key, g] : j.groups) g.roles = g.queued = g.in_flight = g.credit = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, role_published> now;
  for (const auto& r : roles) {
    const std::pair key{r.job, index_of(r.id)};
    const auto before = seen_.find(key);
    add(jobs_[r.job & 0xffff], r, before == seen_.end() ? role_published{} : before->second);
    now.emplace(key, r);
  }
  seen_ = std::move(now);
  while (jobs_.size() > max_jobs_exported) jobs_.erase(jobs_.begin());
}

void role_totals::add(of_job& j, const role_published& r, const role_published& before) {
  auto key = std::pair(r.kind.empty() ? std::string("role") : std::string(r.kind), layer_of(r));
  if (!j.groups.contains(key) && j.groups.size() >= max_groups) key.second = "others";
  auto& g = j.groups[key];
  g.messages += static_cast<double>(growth(r.messages, before.messages));
  g.tasks += static_cast<double>(growth(r.tasks, before.tasks));
  g.busy += growth(r.busy_seconds, before.busy_seconds);
  g.roles += 1;
  g.queued += r.status.queued;
  g.in_flight += r.status.in_flight;
  g.credit += r.status.credit;
  auto& waited = j.waited[key.first];
  for (std::size_t i = 0; i < wait_kinds; ++i) waited[i] += growth(r.waited[i], before.waited[i]);
  const auto& old = before.status;
  grow_each(j.staleness, r.status.staleness.size(), [&](std::uint64_t& sum, std::size_t i) {
    sum += growth(r.status.staleness[i], i < old.staleness.size() ? old.staleness[i] : 0);
  });
  grow_each(j.pushed, r.status.pushed.size(), [&](codec_bytes& sum, std::size_t i) {
    const auto was = i < old.pushed.size() ? old.pushed[i] : role_status::pushed_bytes{};
    sum.sums += static_cast<double>(growth(r.status.pushed[i].sums, was.sums));
    sum.sent += static_cast<double>(growth(r.status.pushed[i].sent, was.sent));
  });
  for (std::size_t i = 0; i < drop_reasons; ++i)
    dropped_.by_reason[i] += growth(r.status.dropped.by_reason[i], old.dropped.by_reason[i]);
}

}  // namespace troupe
