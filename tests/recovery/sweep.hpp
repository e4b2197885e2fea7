// A fault at every point of a job: a small job runs once for each message that a role or a daemon
// handles, and the daemon that handled it is killed right after; and once for each pair of points.
#pragma once

#include "tests/recovery/laws.hpp"

namespace troupe::recovery {

inline fleet_config smallest(const std::string& mode, bool coordinator_works) {
  fleet_config c;
  c.coordinator_works = coordinator_works;
  small_text s;
  s.workers = 2, s.shards = 2, s.packets = 2, s.steps = 4, s.checkpoint = "2";
  if (mode == "tree") s.workers = s.packets = 4;
  c.job = text_of(mode_named(mode), s);
  c.logs = std::getenv("TROUPE_TRACE") != nullptr;
  return c;
}

struct sweep_result {
  std::uint64_t points = 0, runs = 0, recovered = 0, restarts = 0, old = 0;
  std::string wrong;  // the first failure
};

// Kills the daemon, or its machine, at point `at`. It restarts later in two of three runs, the
// coordinator's always.
inline void hit(fleet& f, std::uint64_t at, std::uint64_t salt) {
  f.after_point(at, [&f, salt](const std::string& who) {
    const bool power = salt % 5 == 4;
    if (power)
      f.lose(who);
    else
      f.kill(who);
    if (salt % 3 == 2 && who != f.coordinator()) return;
    const auto later = std::chrono::milliseconds(salt % 2 ? 200 : 7000);
    f.when().in(later, [&f, who] { f.start(who); });
  });
}

inline std::string judged(const outcome& o, const outcome& calm, bool lockstep) {
  if (!o.wrong.empty()) return o.wrong;
  if (o.kind != "done" || o.text == "stopped") return o.kind + ": " + o.text;
  if (lockstep && o.sha != calm.sha) return "the weights differ from those of the undisturbed run";
  return {};
}

// A run for every `stride`-th point, from `first`.
inline sweep_result sweep(const std::string& mode, bool coordinator_works, std::uint64_t first, std::uint64_t stride) {
  sweep_result r;
  const auto c = smallest(mode, coordinator_works);
  const auto calm = run_fleet(c);
  r.points = calm.points;
  r.wrong = calm.wrong;
  if (r.wrong.empty() && calm.kind != "done") r.wrong = "undisturbed: " + calm.text;
  for (auto at = first; at <= calm.points && r.wrong.empty(); at += stride) {
    const auto o = run_fleet(c, [&](fleet& f) { hit(f, at, at); });
    ++r.runs, r.recovered += o.recovered, r.old += o.old;
    if (auto what = judged(o, calm, mode_named(mode).lockstep); !what.empty())
      r.wrong = "point " + std::to_string(at) + ": " + what;
  }
  return r;
}

}  // namespace troupe::recovery
