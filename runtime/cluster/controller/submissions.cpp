#include "runtime/cluster/controller/submissions.hpp"

#include <algorithm>
#include <utility>

#include "runtime/base/printable.hpp"
#include "runtime/cluster/controller/job_events.hpp"
#include "runtime/cluster/controller/job_journal.hpp"
#include "runtime/cluster/controller/job_phases.hpp"
#include "runtime/cluster/pieces.hpp"

namespace troupe::control {
namespace {

using phase = job_run::phase;
constexpr std::chrono::seconds answer_timeout{60}, piece_timeout{60};
constexpr std::chrono::minutes turn_timeout{10};  // restored jobs are checked one after the other
constexpr std::ptrdiff_t max_receiving = 8;

}  // namespace

expected<void> submissions::admit(const control::submit& m) const {
  const auto& self = state_.nodes.self();
  if (state_.draining) return unexpected(error(self + " shuts down and accepts no more jobs"));
  for (const auto* file : {&m.what.file, &m.given.file})  // every error message of a job contains the name of its file
    if (auto fine = check_path(*file); !fine && !file->empty()) return fine;
  std::vector<std::string> nodes;
  for (const auto& [name, n] : state_.nodes.all()) nodes.push_back(name);
  if (auto fits = check_frames(m.what, nodes); !fits) return fits;
  std::size_t jobs = 0;
  std::uint64_t bytes = 0;
  std::ptrdiff_t receiving = 0;
  for (const auto& [id, j] : state_.jobs.all()) {
    if (j.run.over()) continue;
    ++jobs;
    bytes += bytes_of(j.from.what);
    receiving += j.run.at() == phase::receiving ? 1 : 0;
  }
  if (auto fits = check_budget(job_budget{}, jobs, bytes, bytes_of(m.what)); !fits) return fits;
  const auto& g = m.given;
  if (g.kind == given_file::nothing) return {};
  if (g.kind > given_file::checkpoint) return unexpected(error(g.file + ": " + self + " knows only weights and checkpoints"));
  if (g.bytes == 0) return unexpected(error(g.file + ": the file is empty"));
  if (receiving >= max_receiving)
    return unexpected(error("files of " + std::to_string(receiving) + " other jobs are being uploaded; try again later"));
  return {};
}

void submissions::submit(const std::string& owner, const std::string& from, const control::submit& m, instant now, orders& out) {
  if (const auto admitted = check_name(owner).and_then([&] { return admit(m); }); !admitted) {
    out.push_back(to_peer{from, submitted{m.ask, 0, {admitted.error().text}}});
    return;
  }
  auto& j = state_.jobs.add(numbers_.next([this](std::uint32_t number) { return state_.jobs.has_number(number); }));
  j.from.what = m.what;
  j.from.given = m.given;
  j.from.client = waiting_client{from, m.ask, m.follow};
  j.view.name = as_name(m.what.file);
  j.view.owner = owner;
  ask_for_check(j, now, out);
}

void submissions::answer(controlled_job& j, std::uint32_t number, std::vector<std::string> messages, orders& out) const {
  const auto client = j.from.take_client();
  if (!client) return;
  if (number != 0 && client->follows) j.log.follow(client->name);
  submitted s{client->ask, number, std::move(messages)};
  if (number != 0) describe(j, s);
  out.push_back(to_peer{client->name, std::move(s)});
}

void submissions::describe(const controlled_job& j, submitted& s) const {
  if (j.run.at() == phase::queued) {
    const auto at = std::find(queue_.begin(), queue_.end(), j.id);
    s.ahead = static_cast<std::uint32_t>(at - queue_.begin()) + (state_.active != 0 ? 1 : 0);
  }
  s.first_step = j.plan.from;
  s.last_step = j.plan.last_step;
  s.steps_per_epoch = j.plan.steps_per_epoch;
  s.batch = j.plan.batch;
  s.head = j.plan.head;
}

std::optional<std::uint32_t> submissions::next_in_queue() {
  if (queue_.empty()) return std::nullopt;
  const auto id = queue_.front();
  queue_.pop_front();
  return id;
}

// --- checks

// Requests a check of the job, or of the job with its file.
void submissions::ask_for_check(controlled_job& j, instant now, orders& out) {
  j.run.check(now + answer_timeout + time_for(j.from.received));
  waiting_.push_back(j.id);
  next_check(out);
}

void submissions::check_again(controlled_job& j, instant now, orders& out) {
  ask_for_check(j, now, out);
  j.run.check(now + turn_timeout);
}

void submissions::next_check(orders& out) {
  while (under_way_ == 0 && !waiting_.empty()) {
    const auto id = waiting_.front();
    waiting_.pop_front();
    const auto* j = state_.jobs.find(id);
    if (!j || j->run.at() != phase::checking) continue;
    under_way_ = id;
    out.push_back(check_text{id, j->from.what, j->from.given, j->from.received > 0, j->view.owner});
  }
}

void submissions::checked(std::uint32_t id, control::checked c, instant now, orders& out) {
  if (under_way_ == id) under_way_ = 0;
  auto* j = state_.jobs.find(id);
  if (!j || j->run.at() != phase::checking) return;
  if (!c.messages.empty()) return refuse(*j, std::move(c.messages), now, out);
  for (auto& note : c.notes) out.push_back(log_line{j->text() + ": " + note});
  if (c.found) {
    j->from.given = *c.found;
    j->from.received = c.found->bytes;
  }
  j->plan = std::move(c);
  if (j->from.has_file() && j->from.received == 0)
    receive(*j, now, out);
  else
    accept(*j, now, out);
}

void submissions::accept(controlled_job& j, instant now, orders& out) {
  auto c = state_.about(j, now, out);
  j.view.name = j.plan.name;
  j.view.last_step = j.plan.last_step;
  j.view.about = j.plan.about;
  j.run.queue();
  if (!j.from.restored) note_queued(c);
  answer(j, j.id, {}, out);
  if (!j.from.restored && j.plan.from == 0 && !j.plan.alert.empty()) say(c, {j.id, {0, alert_event{j.plan.alert}}});
  c.log(j.text() + " (" + j.plan.name + ") queued");
  queue_.push_back(j.id);
}

void submissions::refuse(controlled_job& j, std::vector<std::string> messages, instant now, orders& out) {
  if (j.from.restored) {
    auto c = state_.about(j, now, out);
    return fail(c, c.self(), "cannot be restored: " + messages.front());
  }
  out.push_back(log_line{j.text() + " refused: " + messages.front()});
  answer(j, 0, std::move(messages), out);
  if (j.from.received > 0) out.push_back(drop_given{j.id});
  state_.jobs.erase(j.id);
}

// --- uploads

// The job is valid; starts the upload of its file.
void submissions::receive(controlled_job& j, instant now, orders& out) {
  if (j.from.given.bytes > j.plan.room)
    return refuse_file(j,
                       "the file has " + std::to_string(j.from.given.bytes) + " bytes; a file of this job has at most " +
                           std::to_string(j.plan.room),
                       out);
  j.run.receive(now + piece_timeout);
  out.push_back(to_peer{j.from.client ? j.from.client->name : std::string(), fetch{j.id, 0}});
}

void submissions::take(const std::string& from, const piece& m, instant now, orders& out) {
  auto* j = state_.jobs.find(m.job);
  if (!j || j->run.at() != phase::receiving || !j->from.awaited_by(from)) return;
  if (const auto fine = j->from.check(m); !fine) return refuse_file(*j, fine.error().text, out);
  j->from.received += m.bytes.size();
  j->run.receive(now + piece_timeout);
  out.push_back(keep_piece{j->id, m.offset, m.bytes, j->from.given});
}

void submissions::piece_kept(std::uint32_t id, const expected<void>& kept, instant now, orders& out) {
  auto* j = state_.jobs.find(id);
  if (!j || j->run.at() != phase::receiving) return;
  if (!kept) return refuse_file(*j, state_.nodes.self() + " cannot store it: " + kept.error().text, out);
  if (!j->from.complete())
    return out.push_back(to_peer{j->from.client ? j->from.client->name : std::string(), fetch{id, j->from.received}});
  ask_for_check(*j, now, out);
}

void submissions::refuse_file(controlled_job& j, const std::string& why, orders& out) {
  const auto text = j.from.given.file + ": " + why;
  out.push_back(log_line{j.text() + " refused: " + text});
  answer(j, 0, {text}, out);
  out.push_back(drop_given{j.id});
  state_.jobs.erase(j.id);
}

// --- time, and the end

void submissions::watch_deadlines(instant now, orders& out) {
  const auto overdue_in = [&](phase p) {
    return [p, now](const controlled_job& j) { return j.run.at() == p && j.run.overdue(now); };
  };
  state_.jobs.for_each(overdue_in(phase::receiving),
                       [&](controlled_job& j) { refuse_file(j, "no piece of it was received for 60 s", out); });
  state_.jobs.for_each(overdue_in(phase::checking), [&](controlled_job& j) {
    refuse(j,
           {j.id == under_way_ ? "reading the job and its data took more than 60 s"
                               : "it was not checked within 60 s: " + state_.nodes.self() + " checks other jobs"},
           now, out);
  });
}

void submissions::close(instant now, orders& out) {
  const auto why = state_.nodes.self() + " shuts down";
  state_.jobs.for_each([](const controlled_job& j) { return j.run.submitted(); },
                       [&](controlled_job& j) {
                         if (j.run.at() == phase::checking)
                           refuse(j, {why}, now, out);
                         else
                           refuse_file(j, why, out);
                       });
}

void submissions::disconnected(const std::string& client, instant now, orders& out) {
  state_.jobs.for_each([&](const controlled_job& j) { return j.run.submitted() && j.from.awaited_by(client); },
                       [&](controlled_job& j) {
                         j.from.take_client();
                         if (j.run.at() == phase::checking)
                           refuse(j, {"its client disconnected"}, now, out);
                         else
                           refuse_file(j, "its client disconnected", out);
                       });
}

}  // namespace troupe::control
