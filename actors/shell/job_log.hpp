// The log of messages delivered to the roles of one job on this node, in order
// (runtime/replay/delivery_log.hpp). Each role's actor writes it; it is read when the job has
// failed. Threads: any. Each role has its own lock, which is uncontended while the job runs.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/replay/delivery_log.hpp"
#include "runtime/replay/log_stream.hpp"
#include "runtime/role.hpp"

namespace troupe {

class job_log {
 public:
  // `most`: capacity in bytes, for all roles on this node together.
  job_log(std::size_t most, std::size_t roles) : room_(most), roles_(roles) {}

  // Everything that roles receive is also written to `s`. Must be called before opened().
  void also_to(std::unique_ptr<replay::log_stream> s) { stream_ = std::move(s); }
  // Must be called before the role's first message.
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
    end_stream(r, o);
  }

  // The role is about to end; `s` is its last status.
  void closed(role_id r, role_status s) {
    auto& o = *roles_[index_of(r)];
    std::lock_guard guard(o.lock);
    o.last = std::move(s);
    end_stream(r, o);
  }
  // The status passed to closed(). Nullopt if the role has not ended.
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
    if (const auto* chunk = o.log.add(d); chunk && stream_) stream_->add(r, *chunk);
  }
  void end_stream(role_id r, one& o) {
    if (!stream_) return;
    if (const auto* chunk = o.log.complete()) stream_->add(r, *chunk);
    stream_->ended(r, o.failure);
  }

  std::unique_ptr<replay::log_stream> stream_;  // null: none
  replay::log_room room_;
  std::vector<std::unique_ptr<one>> roles_;  // by role; null: not on this node
};

}  // namespace troupe
