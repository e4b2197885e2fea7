// What the roles of one job on this node have been handed, in their order
// (runtime/replay/delivery_log.hpp): written by each role's actor, read when the job has failed.
// Threads: any. Each role has a lock of its own, which nobody else holds while the job runs.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/replay/delivery_log.hpp"
#include "runtime/role.hpp"

namespace troupe {

class job_log {
 public:
  // `most`: bytes, of all roles here.
  job_log(std::size_t most, std::size_t roles) : room_(most), roles_(roles) {}

  // Before the role's first message.
  void opened(role_id r) { roles_[index_of(r)] = std::make_unique<one>(room_); }
  void handed(role_id r, const envelope& e, time_point now) { add(r, replay::delivery_of(e, now)); }
  void task_failed(role_id r, std::uint64_t token, std::uint64_t step, time_point now) {
    replay::delivery d;
    d.kind = replay::task_failed;
    d.from = r;
    d.what = token;
    d.step = step;
    d.at = now;
    add(r, d);
  }
  void failed(role_id r, const std::string& what) {
    auto& o = *roles_[index_of(r)];
    std::lock_guard guard(o.lock);
    o.failure = what;
  }

  // The role is about to go.
  void closed(role_id r, role_status s) {
    auto& o = *roles_[index_of(r)];
    std::lock_guard guard(o.lock);
    o.last = std::move(s);
  }
  // What it said of itself then; nothing: it is there still.
  std::optional<role_status> last_of(role_id r) const {
    if (index_of(r) >= roles_.size() || !roles_[index_of(r)]) return std::nullopt;
    const auto& o = *roles_[index_of(r)];
    std::lock_guard guard(o.lock);
    return o.last;
  }

  std::vector<replay::role_part> parts() const {
    std::vector<replay::role_part> all;
    for (std::uint32_t r = 0; r < roles_.size(); ++r) {
      if (!roles_[r]) continue;
      std::lock_guard guard(roles_[r]->lock);
      const auto& l = roles_[r]->log;
      all.push_back({role_id{r}, l.handled(), l.dropped(), roles_[r]->failure, l.chunks()});
    }
    return all;
  }

 private:
  struct one {
    explicit one(replay::log_room& room) : log(room) {}
    mutable std::mutex lock;
    replay::role_log log;
    std::string failure;
    std::optional<role_status> last;
  };
  void add(role_id r, const replay::delivery& d) {
    auto& o = *roles_[index_of(r)];
    std::lock_guard guard(o.lock);
    o.log.add(d);
  }

  replay::log_room room_;
  std::vector<std::unique_ptr<one>> roles_;  // by role; null: not here
};

}  // namespace troupe
