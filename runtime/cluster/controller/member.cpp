#include "runtime/cluster/controller/member.hpp"

#include <algorithm>
#include <utility>

namespace troupe::control {
namespace {

constexpr auto mesh_timeout = std::chrono::seconds(10);  // without a new data connection
constexpr auto keep_timeout = std::chrono::seconds(30);
// Delay before a fault begins, so that the answer, the event and the log line are out first.
constexpr auto inject_after = std::chrono::milliseconds(200);
constexpr std::size_t max_injected = 64;

}  // namespace

void member::on(const message& m, instant now, member_orders& out) {
  const auto* j = std::get_if<control::joined>(&m);
  if (!j) keeps_.just_joined = false;
  if (j && j->ends != 0) {
    keeps_.joins_again = true;
    keeps_.roles = false;
    if (!job_ || job_->what.job != j->ends) return introduce_again(out);
    job_->left_at = 0;
    end(out);
  } else if (j) {
    const bool kept = keeps_.roles || keeps_.just_joined;
    keeps_ = {};
    keeps_.just_joined = kept && j->refusal.empty();
    joined_ = j->refusal.empty();
    refusal_ = j->refusal;
    out.push_back(log_line{joined_ ? "joined the cluster at " + coordinator_ : coordinator_ + " refused this node: " + refusal_});
  } else if (const auto* p = std::get_if<prepare>(&m)) {
    take(*p, now, out);
  } else if (const auto* e = std::get_if<end_job>(&m)) {
    take_end(*e, out);
  } else if (const auto* r = std::get_if<revise>(&m)) {
    take(*r, now, out);
  } else if (const auto* s = std::get_if<swap>(&m)) {
    take(*s, out);
  } else if (const auto* f = std::get_if<forget>(&m)) {
    if (plan_generation_ && plan_generation_->what.job == f->job && plan_generation_->plan_generation == f->plan_generation &&
        !plan_generation_->swapping)
      drop_generation(out);
  } else if (const auto* i = std::get_if<inject>(&m)) {
    take(*i, now, out);
  }
}

void member::take_end(const end_job& why, member_orders& out) {
  const auto job = why.job;
  if (plan_generation_ && plan_generation_->what.job == job && plan_generation_->swapping) {
    plan_generation_->ending = true;  // ends once its roles exist
    plan_generation_->why = why;
    return;
  }
  if (plan_generation_ && plan_generation_->what.job == job) drop_generation(out);
  if (next_ && next_->job == job) {
    next_.reset();
    return say(ended{job, 0}, out);
  }
  if (!job_ || job_->what.job != job) return say(ended{job, 0}, out);
  job_->left_at = 0;
  job_->why = why;
  end(out);
}

void member::on_coordinator_up(member_orders& out) {
  auto m = introduction_;
  if (job_ && keeps_.roles) m.job = job_->what.job, m.plan_generation = job_->plan_generation;
  say(m, out);
}

// A coordinator's daemon that was silent, or whose connection was replaced by a newer one, may
// continue with the roles of this node. One that has closed the connection has ended or has
// declared this node failed, unless it has just taken the node back: this node dialed several times
// while the coordinator's daemon was suspended, and a later connection replaces the one that
// joined.
bool member::keep_roles(const std::string& reason) {
  const bool may_go_on = reason.starts_with("peer_silent") || reason.starts_with("replaced") || keeps_.just_joined;
  return may_go_on && job_ && job_->answered && !job_->ending && !(plan_generation_ && plan_generation_->swapping) && !next_;
}

void member::introduce_again(member_orders& out) {
  if (std::exchange(keeps_.joins_again, false)) say(introduction_, out);
}

void member::drop_kept(instant now, member_orders& out) {
  if (!keeps_.roles) return;
  if (!keeps_.until) keeps_.until = now + keep_timeout;
  if (now < *keeps_.until) return;
  keeps_ = {};
  if (job_ && !plan_generation_) end(out);
}

void member::on_coordinator_down(const std::string& reason, member_orders& out) {
  if (std::exchange(joined_, false)) out.push_back(log_line{"the coordinator's daemon " + coordinator_ + " is lost: " + reason});
  keeps_.joins_again = false;
  keeps_.roles = keeps_.roles || keep_roles(reason);
  if (keeps_.roles && plan_generation_) drop_generation(out);  // the coordinator drops that plan, too
  if (keeps_.roles) return;
  next_.reset();
  if (plan_generation_ && plan_generation_->swapping)
    plan_generation_->ending = true;
  else if (plan_generation_)
    drop_generation(out);
  if (job_ && !plan_generation_) end(out);
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
  job_->deadline = now + mesh_timeout;
  job_->what = std::move(p);
  connect(*job_, out);
  out.push_back(make_roles{job_->what});
}

// Every node begins with the peers behind itself in the plan. If all began with the same ones,
// these would have to accept all nodes at once.
void member::connect(hosted_plan& h, member_orders& out) {
  const auto& places = h.what.places;
  const auto self = std::find_if(places.begin(), places.end(), [&](const place& at) { return at.node == self_; });
  const auto first = static_cast<std::size_t>(self - places.begin());
  h.missing.reserve(places.size());
  data_up_.reserve(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& at = places[(first + i) % places.size()];
    if (at.node == self_) continue;
    const auto up = data_up_.find(at.node);
    if (up != data_up_.end() && up->second == at.incarnation) continue;
    h.missing.emplace(at.node, at.incarnation);
    // Of two nodes the one with the smaller name dials, so that there are never two connections.
    if (self_ < at.node) out.push_back(connect_data{at.node, at.data_address});
  }
}

bool hosted_plan::needs(const std::string& peer) const {
  return std::any_of(what.places.begin(), what.places.end(), [&](const place& at) { return at.node == peer; });
}

void hosted_plan::found(const std::string& peer, std::uint64_t incarnation) {
  const auto at = missing.find(peer);
  if (at == missing.end() || at->second != incarnation) return;
  missing.erase(at);
  progressed = true;
}

void hosted_plan::lost(const std::string& peer) {
  for (const auto& at : what.places)
    if (at.node == peer) missing.emplace(peer, at.incarnation);
}

std::string hosted_plan::first_missing() const {
  return std::min_element(missing.begin(), missing.end(), [](const auto& a, const auto& b) { return a.first < b.first; })->first;
}

// On a slow machine with many nodes all connections take long, but one after the other is made.
void hosted_plan::renew_deadline(instant now) {
  if (std::exchange(progressed, false)) deadline = now + mesh_timeout;
}

void member::on_made(std::uint32_t job, const std::string& error, member_orders& out) {
  if (!job_ || job_->what.job != job || job_->ending) return;
  job_->made = true;
  if (!error.empty()) return answer(error, out);
  if (job_->missing.empty()) answer({}, out);
}

void member::answer(std::string error, member_orders& out, const std::string& peer) {
  if (std::exchange(job_->answered, true)) return;
  say(prepared{job_->what.job, std::move(error), peer}, out);
}

void member::on_data_up(const std::string& peer, std::uint64_t incarnation, member_orders& out) {
  data_up_[peer] = incarnation;
  if (plan_generation_) {
    plan_generation_->found(peer, incarnation);
    if (plan_generation_->made && plan_generation_->missing.empty()) answer_generation({}, out);
  }
  if (!job_ || job_->ending) return;
  job_->found(peer, incarnation);
  if (job_->made && job_->missing.empty()) answer({}, out);
}

// A plan that waits for a peer's next incarnation sees the end of the connection with the former
// one. That end is no answer to this plan's dial, which had no effect while the old connection was
// up.
void member::dial_again(const hosted_plan& h, const std::string& peer, member_orders& out) const {
  for (const auto& at : h.what.places)
    if (at.node == peer && self_ < peer) out.push_back(connect_data{peer, at.data_address});
}

void member::on_data_down(const std::string& peer, const std::string& reason, member_orders& out) {
  const bool former = data_up_.erase(peer) > 0;
  if (plan_generation_ && plan_generation_->needs(peer)) {
    if (plan_generation_->answered)  // no longer ready
      say(revised{plan_generation_->what.job, plan_generation_->plan_generation,
                  "lost the data connection to " + peer + ": " + reason, peer},
          out);
    else if (!plan_generation_->missing.contains(peer))
      plan_generation_->lost(peer);
    else if (former)
      dial_again(*plan_generation_, peer, out);
    else
      answer_generation("no data connection to " + peer + ": " + reason, out, peer);
  }
  if (!job_ || job_->ending || !job_->needs(peer)) return;
  if (plan_generation_ && plan_generation_->swapping && !plan_generation_->needs(peer))
    return;  // the peer is not part of the next plan
  if (job_->answered) return say(trouble{job_->what.job, peer, "lost the data connection to " + peer + ": " + reason}, out);
  if (!job_->missing.contains(peer))
    job_->lost(peer);
  else if (former)
    dial_again(*job_, peer, out);
  else
    answer("no data connection to " + peer + ": " + reason, out, peer);
}

void member::on_tick(instant now, member_orders& out) {
  look_after_injected(now, out);
  drop_kept(now, out);
  for (auto* h : {&job_, &plan_generation_})
    if (*h) (*h)->renew_deadline(now);
  if (plan_generation_ && !plan_generation_->answered && !plan_generation_->missing.empty() && now >= plan_generation_->deadline)
    answer_generation("no data connection to " + plan_generation_->first_missing() + " within 10 s", out,
                      plan_generation_->first_missing());
  if (!job_ || job_->answered || job_->ending || job_->missing.empty() || now < job_->deadline) return;
  answer("no data connection to " + job_->first_missing() + " within 10 s", out, job_->first_missing());
}

void member::on_role_error(std::uint32_t job, const error_event& e, member_orders& out) {
  if (job_ && job_->what.job == job && !job_->ending) say(trouble{job, self_, e.message, e.role}, out);
}

// --- injected faults

void member::take(const inject& i, instant now, member_orders& out) {
  const auto refuse = [&](const std::string& why) { out.push_back(log_line{i.who + " cannot inject here: " + why}); };
  if (!may_inject_) return refuse("the cluster file of " + self_ + " does not allow it ([cluster] inject)");
  constexpr auto longest = static_cast<std::uint64_t>(longest_fault_time.count());
  if (i.what >= fault_kinds || i.lasts_ms > longest || i.by_ms > longest) return refuse("unknown fault");
  const injection f{fault_kind{i.what}, self_, fault_time(i.lasts_ms), fault_time(i.by_ms)};
  if (const auto fine = check_fault_times(f); !fine) return refuse(fine.error().text);
  if (injected_.size() >= max_injected) return refuse(std::to_string(max_injected) + " faults are active already");
  out.push_back(log_line{"injected by " + i.who + ": " + text_of(f) + (i.until.empty() ? "" : ", until " + i.until)});
  injected_.push_back({f, now + inject_after, now + inject_after + f.lasts});
}

void member::look_after_injected(instant now, member_orders& out) {
  for (auto& x : injected_)
    if (now >= x.begins && !std::exchange(x.begun, true)) {
      x.ends = now + x.what.lasts;
      out.push_back(suffer{x.what});
      out.push_back(log_line{std::string("the injected ") + text_of(x.what.what) + " begins"});
    }
  std::erase_if(injected_, [&](const auto& x) {
    const bool over = x.begun && now >= x.ends && x.what.what != fault_kind::kill;
    if (over) out.push_back(log_line{std::string("the injected ") + text_of(x.what.what) + " is over"});
    return over;
  });
}

// --- another plan of the job

void member::take(const revise& r, instant now, member_orders& out) {
  if (plan_generation_ || (job_ && (job_->what.job != r.what.job || job_->ending)))
    return say(revised{r.what.job, r.plan_generation, "is busy with another plan"}, out);
  plan_generation_.emplace();
  plan_generation_->what = r.what;
  plan_generation_->plan_generation = r.plan_generation;
  plan_generation_->deadline = now + mesh_timeout;
  connect(*plan_generation_, out);
  out.push_back(make_plan_order{r});
}

void member::on_revised(std::uint32_t job, std::uint32_t plan_generation, const std::string& error, member_orders& out) {
  if (!plan_generation_ || plan_generation_->what.job != job || plan_generation_->plan_generation != plan_generation) return;
  plan_generation_->made = true;
  if (!error.empty()) return answer_generation(error, out);
  if (plan_generation_->missing.empty()) answer_generation({}, out);
}

void member::answer_generation(std::string error, member_orders& out, const std::string& peer) {
  if (std::exchange(plan_generation_->answered, true)) return;
  say(revised{plan_generation_->what.job, plan_generation_->plan_generation, std::move(error), peer}, out);
}

void member::drop_generation(member_orders& out) {
  out.push_back(forget_plan{plan_generation_->what.job, plan_generation_->plan_generation});
  plan_generation_.reset();
}

void member::take(const swap& s, member_orders& out) {
  if (plan_generation_ && plan_generation_->what.job == s.job && plan_generation_->plan_generation == s.plan_generation) {
    plan_generation_->swapping = true;
    out.push_back(swap_roles{s});
    return;
  }
  if (!job_ || job_->what.job != s.job || job_->ending) return say(swapped{s.job, s.plan_generation, 0, {}}, out);
  job_->left_at = s.plan_generation;
  end(out);
}

void member::on_swapped(std::uint32_t job, std::uint32_t plan_generation, const std::string& error, member_orders& out) {
  if (!plan_generation_ || plan_generation_->what.job != job || plan_generation_->plan_generation != plan_generation) return;
  job_ = std::move(plan_generation_);
  plan_generation_.reset();
  job_->made = job_->answered = true;
  job_->swapping = false;
  if (std::exchange(job_->ending, false)) return end(out);
  say(swapped{job, plan_generation, 0, error}, out);
}

void member::end(member_orders& out) {
  if (std::exchange(job_->ending, true)) return;
  out.push_back(end_roles{job_->what.job, job_->why});
}

void member::on_gone(std::uint32_t job, std::uint64_t tcp_bytes, instant now, member_orders& out, const std::string& post_mortem) {
  if (!job_ || job_->what.job != job) return;
  const auto left_at = job_->left_at;
  job_.reset();
  introduce_again(out);
  if (joined_ && left_at > 0)
    say(swapped{job, left_at, tcp_bytes, {}}, out);
  else if (joined_)
    say(ended{job, tcp_bytes, post_mortem}, out);
  if (auto p = std::exchange(next_, std::nullopt)) begin(std::move(*p), now, out);
}

void member::drain(member_orders& out) {
  if (joined_) say(leaving{}, out);
}

}  // namespace troupe::control
