#include "actors/control_plane_member.hpp"

#include <algorithm>

namespace troupe::control {
namespace {

constexpr auto mesh_within = std::chrono::seconds(10);

}  // namespace

void member::on(const message& m, instant now, member_orders& out) {
  if (const auto* j = std::get_if<control::joined>(&m)) {
    joined_ = j->refusal.empty();
    refusal_ = j->refusal;
    out.push_back(log_line{joined_ ? "joined the cluster at " + coordinator_ : coordinator_ + " refused this node: " + refusal_});
  } else if (const auto* p = std::get_if<prepare>(&m)) {
    take(*p, now, out);
  } else if (const auto* e = std::get_if<end_job>(&m)) {
    if (next_ && next_->job == e->job) {
      next_.reset();
      return say(ended{e->job, 0}, out);
    }
    if (!job_ || job_->what.job != e->job) return say(ended{e->job, 0}, out);
    end(out);
  }
}

void member::on_coordinator_up(member_orders& out) { say(introduction_, out); }

void member::on_coordinator_down(const std::string& reason, member_orders& out) {
  if (std::exchange(joined_, false)) out.push_back(log_line{"the coordinator's daemon " + coordinator_ + " is lost: " + reason});
  next_.reset();
  if (job_) end(out);
}

// --- preparing

void member::take(const prepare& p, instant now, member_orders& out) {
  if (job_) {
    next_ = p;
    return end(out);
  }
  begin(p, now, out);
}

void member::begin(prepare p, instant now, member_orders& out) {
  job_.emplace();
  job_->deadline = now + mesh_within;
  for (const auto& at : p.places) {
    if (at.node == self_) continue;
    const auto up = data_up_.find(at.node);
    if (up != data_up_.end() && up->second == at.incarnation) continue;
    job_->missing.insert(at.node);
    // One of two dials, so that no connection is made in vain.
    if (self_ < at.node) out.push_back(connect_data{at.node, at.data_address});
  }
  job_->what = std::move(p);
  out.push_back(make_roles{job_->what});
}

void member::on_made(std::uint32_t job, const std::string& error, member_orders& out) {
  if (!job_ || job_->what.job != job || job_->ending) return;
  job_->made = true;
  if (!error.empty()) return answer(error, out);
  if (job_->missing.empty()) answer({}, out);
}

void member::answer(std::string error, member_orders& out) {
  if (std::exchange(job_->answered, true)) return;
  say(prepared{job_->what.job, std::move(error)}, out);
}

void member::on_data_up(const std::string& peer, std::uint64_t incarnation, member_orders& out) {
  data_up_[peer] = incarnation;
  if (!job_ || job_->ending) return;
  for (const auto& at : job_->what.places)
    if (at.node == peer && at.incarnation == incarnation) job_->missing.erase(peer);
  if (job_->made && job_->missing.empty()) answer({}, out);
}

void member::on_data_down(const std::string& peer, const std::string& reason, member_orders& out) {
  data_up_.erase(peer);
  if (!job_ || job_->ending) return;
  const auto& places = job_->what.places;
  if (std::none_of(places.begin(), places.end(), [&](const place& at) { return at.node == peer; })) return;
  if (job_->answered) return say(trouble{job_->what.job, peer, "lost the data connection to " + peer + ": " + reason}, out);
  if (job_->missing.contains(peer)) {
    answer("no data connection to " + peer + ": " + reason, out);
  } else {
    job_->missing.insert(peer);
  }
}

void member::on_tick(instant now, member_orders& out) {
  if (!job_ || job_->answered || job_->ending || job_->missing.empty() || now < job_->deadline) return;
  answer("no data connection to " + *job_->missing.begin() + " within 10 s", out);
}

void member::on_role_error(std::uint32_t job, const std::string& text, member_orders& out) {
  if (job_ && job_->what.job == job && !job_->ending) say(trouble{job, self_, text}, out);
}

// --- ending

void member::end(member_orders& out) {
  if (std::exchange(job_->ending, true)) return;
  out.push_back(end_roles{job_->what.job});
}

void member::on_gone(std::uint32_t job, std::uint64_t tcp_bytes, instant now, member_orders& out) {
  if (!job_ || job_->what.job != job) return;
  job_.reset();
  if (joined_) say(ended{job, tcp_bytes}, out);
  if (auto p = std::exchange(next_, std::nullopt)) begin(std::move(*p), now, out);
}

void member::drain(member_orders& out) {
  if (joined_) say(leaving{}, out);
}

}  // namespace troupe::control
