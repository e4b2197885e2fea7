// Roles on this node: queues, tasks, waits, staleness, gradients, drops.
#include <algorithm>
#include <array>

#include "actors/metrics/exposition.hpp"
#include "actors/metrics/page.hpp"
#include "runtime/spec/codec_spec.hpp"

namespace troupe {
namespace {

// By wait_kind.
constexpr std::array<const char*, wait_kinds> wait_names{"none",   "data",  "inputs",  "weights", "gradients",
                                                         "credit", "grant", "answers", "user"};
constexpr std::array<double, 11> clock_bounds{0, 1, 2, 3, 4, 5, 6, 8, 16, 32, 62};

void add_groups(exposition& x, const std::string& id, const role_totals::of_job& j) {
  std::map<std::string, double> roles;
  for (const auto& [key, g] : j.groups) {
    const auto& [kind, layer] = key;
    roles[kind] += g.roles;
    x.add("troupe_role_messages_total", {id, kind, layer}, g.messages);
    x.add("troupe_role_tasks_total", {id, kind, layer}, g.tasks);
    x.add("troupe_role_busy_seconds_total", {id, kind, layer}, g.busy);
    if (g.roles == 0) continue;
    x.add("troupe_role_queued_messages", {id, kind, layer}, g.queued);
    x.add("troupe_role_packets_in_flight", {id, kind, layer}, g.in_flight);
    x.add("troupe_role_credit_packets", {id, kind, layer}, g.credit);
  }
  for (const auto& [kind, n] : roles) x.add("troupe_roles", {id, kind}, n);
  for (const auto& [kind, seconds] : j.waited)
    for (std::size_t i = 1; i < wait_kinds; ++i)
      if (seconds[i] > 0) x.add("troupe_role_wait_seconds_total", {id, kind, wait_names[i]}, seconds[i]);
}

void add_staleness(exposition& x, const std::string& id, const std::vector<std::uint64_t>& reads) {
  if (reads.empty()) return;
  std::array<std::uint64_t, clock_bounds.size() + 1> counts{};
  double sum = 0;
  for (std::size_t clocks = 0; clocks < reads.size(); ++clocks) {
    const auto at = std::lower_bound(clock_bounds.begin(), clock_bounds.end(), static_cast<double>(clocks)) - clock_bounds.begin();
    counts[static_cast<std::size_t>(at)] += reads[clocks];
    sum += real(reads[clocks]) * real(clocks);
  }
  x.add("troupe_weights_staleness_clocks", {id}, clock_bounds, counts, sum);
}

void add_drops(exposition& x, const metrics_facts& f, const drop_counts& by_roles) {
  const auto add = [&](const char* reason, std::uint64_t n) { x.add("troupe_dropped_messages_total", {reason}, real(n)); };
  for (std::size_t i = 0; i < drop_reasons; ++i) add(name_of(static_cast<drop_reason>(i)), by_roles.by_reason[i]);
  add("unknown_job", f.view.dropped.unknown_job);
  add("unknown_role", f.view.dropped.unknown_role);
  add("old_incarnation", f.view.dropped.old_incarnation);
  add("to_failed", f.view.dropped.to_failed);
  add("unreadable", f.view.unreadable);
  add("wrong_source", f.view.wrong_source);
  add("unsent", f.frames.unsent);
}

}  // namespace

void add_roles(exposition& x, const metrics_facts& f, const role_totals& roles) {
  for (const auto& [number, j] : roles.jobs()) {
    const auto id = std::to_string(number);
    add_groups(x, id, j);
    add_staleness(x, id, j.staleness);
    for (std::size_t i = 0; i < j.pushed.size() && i < std::size(codec_words); ++i) {
      if (j.pushed[i].sums == 0) continue;
      x.add("troupe_gradient_bytes_total", {id, codec_words[i]}, j.pushed[i].sent);
      x.add("troupe_gradient_plain_bytes_total", {id, codec_words[i]}, j.pushed[i].sums);
    }
  }
  add_drops(x, f, roles.dropped());
}

}  // namespace troupe
