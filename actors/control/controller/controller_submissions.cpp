// cluster_controller: submissions until they are queued jobs, and the clients that follow a job's
// events.
//
// Invariants: all jobs that are not over stay within a budget of jobs and bytes (admission.hpp).
// One check runs at a time; the others wait here, so that a check whose client has gone costs
// nothing. A submission is answered within 60 s plus the time for its file.
#include <algorithm>

#include "actors/control/controller/cluster_controller.hpp"
#include "actors/control/pieces.hpp"

namespace troupe::control {
namespace {

using namespace std::chrono_literals;
constexpr auto answer_timeout = 60s;

}  // namespace

std::string cluster_controller::why_not_taken(const submit& m) const {
  if (draining_) return self_ + " shuts down and accepts no more jobs";
  if (const auto longest = std::max(m.what.file.size(), m.given.file.size()); longest > max_file_name)
    return "a file name has " + std::to_string(longest) + " bytes; it may have at most " + std::to_string(max_file_name);
  std::size_t jobs = 0;
  std::uint64_t bytes = 0;
  for (const auto& [id, j] : jobs_) {
    if (j.at == phase::over) continue;
    ++jobs;
    bytes += bytes_of(j.what);
  }
  if (auto why = over_budget(job_budget{}, jobs, bytes, bytes_of(m.what)); !why.empty()) return why;
  return why_not_given(m.given);
}

void cluster_controller::take_submission(const std::string& owner, const std::string& from, const submit& m, instant now,
                                         orders& out) {
  if (const auto refusal = why_not_taken(m); !refusal.empty()) {
    out.push_back(to_peer{from, submitted{m.ask, 0, {refusal}}});
    return;
  }
  const auto id = numbers_.next([this](std::uint32_t number) {
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& j) { return number_of(j.first) == number; });
  });
  job& j = jobs_[id];
  j.id = id;
  j.what = m.what;
  j.given = m.given;
  j.submitter = from;
  j.submitter_follows = m.follow;
  j.ask = m.ask;
  j.view.id = number_of(id);
  j.view.name = m.what.file;
  j.view.owner = owner;
  ask_for_check(j, now, out);
}

void cluster_controller::answer_submitter(job& j, std::uint32_t number, std::vector<std::string> messages, orders& out) {
  const auto client = std::exchange(j.submitter, {});
  if (client.empty()) return;
  if (number != 0 && j.submitter_follows) j.followers.insert(client);
  submitted s{j.ask, number, std::move(messages)};
  if (number != 0) describe(j, s);
  out.push_back(to_peer{client, std::move(s)});
}

// Adds what a client prints about the job before its events.
void cluster_controller::describe(const job& j, submitted& s) const {
  if (j.at == phase::queued) {
    const auto at = std::find(queue_.begin(), queue_.end(), j.id);
    s.ahead = static_cast<std::uint32_t>(at - queue_.begin()) + (active_ != 0 ? 1 : 0);
  }
  s.first_step = j.plan.from;
  s.last_step = j.plan.last_step;
  s.steps_per_epoch = j.plan.steps_per_epoch;
  s.batch = j.plan.batch;
  s.head = j.plan.head;
}

// --- checks

// Requests a check of the job, or of the job with its file.
void cluster_controller::ask_for_check(job& j, instant now, orders& out) {
  j.at = phase::checking;
  j.deadline = now + answer_timeout + time_for(j.received);
  checks_.waiting.push_back(j.id);
  next_check(out);
}

void cluster_controller::next_check(orders& out) {
  while (checks_.under_way == 0 && !checks_.waiting.empty()) {
    const auto id = checks_.waiting.front();
    checks_.waiting.pop_front();
    const auto* j = find(id);
    if (!j || j->at != phase::checking) continue;
    checks_.under_way = id;
    out.push_back(check_text{id, j->what, j->given, j->received > 0});
  }
}

void cluster_controller::on_checked(std::uint32_t id, checked c, instant now, orders& out) {
  if (checks_.under_way == id) checks_.under_way = 0;
  take_checked(id, std::move(c), now, out);
  next_check(out);
}

void cluster_controller::take_checked(std::uint32_t id, checked c, instant now, orders& out) {
  auto* j = find(id);
  if (!j || j->at != phase::checking) return;
  if (!c.messages.empty()) return refuse_submission(*j, std::move(c.messages), now, out);
  for (auto& note : c.notes) out.push_back(log_line{"job " + std::to_string(number_of(id)) + ": " + note});
  for (auto& chosen : c.overrides) j->what.overrides.push_back(std::move(chosen));
  if (c.found) {
    j->given = *c.found;
    j->received = c.found->bytes;
  }
  j->plan = std::move(c);
  if (j->given.kind != given_file::nothing && j->received == 0) return receive(*j, now, out);
  j->view.name = j->plan.name;
  j->view.last_step = j->plan.last_step;
  j->view.about = j->plan.about;
  j->at = phase::queued;
  if (!j->restored) {
    unfinished_job u;
    u.number = number_of(id);
    u.what = j->what;
    u.given = j->given;
    u.owner = j->view.owner;
    out.push_back(journal_line{journal_queued(u)});
  }
  answer_submitter(*j, id, {}, out);
  if (!j->restored && j->plan.from == 0 && !j->plan.alert.empty()) say(*j, {id, {0, alert_event{j->plan.alert}}}, out);
  out.push_back(log_line{"job " + std::to_string(number_of(id)) + " (" + j->plan.name + ") queued"});
  queue_.push_back(id);
  next(now, out);
}

void cluster_controller::refuse_submission(job& j, std::vector<std::string> messages, instant now, orders& out) {
  if (j.restored)
    return fail(j, self_, "cannot be restored: " + messages.front(), now, out);  // its check succeeded before the restart
  out.push_back(log_line{"job " + std::to_string(number_of(j.id)) + " refused: " + messages.front()});
  answer_submitter(j, 0, std::move(messages), out);
  if (j.received > 0) out.push_back(drop_given{j.id});
  jobs_.erase(j.id);
}

void cluster_controller::refuse_late_checks(instant now, orders& out) {
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    auto& j = (at++)->second;
    if (j.at != phase::checking || now <= j.deadline) continue;
    refuse_submission(j,
                      {j.id == checks_.under_way ? "reading the job and its data took more than 60 s"
                                                 : "it was not checked within 60 s: " + self_ + " checks other jobs"},
                      now, out);
  }
}

void cluster_controller::refuse_submissions(instant now, orders& out) {
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    auto& j = (at++)->second;
    if (j.at == phase::checking)
      refuse_submission(j, {self_ + " shuts down"}, now, out);
    else if (j.at == phase::receiving)
      refuse_given(j, self_ + " shuts down", out);
  }
}

// Drops submissions of a client that has gone; their numbers are not known to any client.
void cluster_controller::forget_submissions_of(const std::string& client, instant now, orders& out) {
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    auto& j = (at++)->second;
    if (j.submitter != client) continue;
    if (j.at != phase::checking && j.at != phase::receiving) continue;
    j.submitter.clear();
    if (j.at == phase::checking)
      refuse_submission(j, {"its client disconnected"}, now, out);
    else
      refuse_given(j, "its client disconnected", out);
  }
}

// --- followers

// The history is sent once per connection: a client that asks again has received it and every event
// since.
void cluster_controller::take(const std::string& from, const follow& m, instant, orders& out) {
  auto* j = find(m.job);
  for (auto& [id, one] : jobs_)
    if (!j && number_of(id) == m.job) j = &one;
  const bool early = j && (j->at == phase::checking || j->at == phase::receiving);
  if (!j || (early && !j->restored)) {
    out.push_back(to_peer{from, submitted{0, 0, {"there is no job " + std::to_string(m.job)}}});
    return;
  }
  submitted found{0, j->id, {}};
  describe(*j, found);
  out.push_back(to_peer{from, std::move(found)});
  if (!j->notified.insert(from).second || j->followers.contains(from)) return;
  std::vector<const job_event*> all;
  for (const auto* list : {&j->history, &j->steps})
    for (const auto& e : *list) all.push_back(&e);
  std::stable_sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->event.step < b->event.step; });
  const auto final = [&](const job_event* e) { return j->last && e->event.what.index() == j->last->event.what.index(); };
  std::stable_partition(all.begin(), all.end(), [&](auto* e) { return !final(e); });
  for (const auto* e : all) out.push_back(to_peer{from, to_message(*e)});
  if (j->at != phase::over) j->followers.insert(from);
}

}  // namespace troupe::control
