// cluster_controller: writes the journal, and restores from it the jobs of a former incarnation of
// this daemon (journal.hpp). A job that was queued is queued again in its place. A job that ran
// starts from its newest checkpoint, like a resumed job. Clients that followed it request it by
// number.
#include <algorithm>

#include "actors/control/controller/cluster_controller.hpp"

namespace troupe::control {
namespace {

// Incarnations of the daemon that may end during a job without a checkpoint between; the job may be
// the cause.
constexpr std::uint32_t lives_of_a_job = 3;
constexpr std::chrono::minutes turn_timeout{10};  // restored jobs are checked one after the other

}  // namespace

void cluster_controller::restore(const finished_job& f) {
  const auto id = numbers_.id_of(f.number);
  auto& j = jobs_[id];
  j.id = id;
  j.at = phase::over;
  j.view.id = f.number;
  j.view.name = f.name;
  j.view.owner = f.owner;
  j.view.state = f.state;
  j.view.step = f.last.event.step;
  j.view.loss = f.loss;
  j.view.accuracy = f.accuracy;
  j.view.examples_per_s = f.examples_per_s;
  j.view.skipped = f.skipped;
  j.view.last_step = f.last_step;
  if (const auto* bad = f.last.event.as<error_event>()) j.view.message = bad->message;
  if (const auto* d = f.last.event.as<done_event>()) j.view.weights_sha256 = d->weights_sha256;
  j.weights = f.weights;
  j.last = f.last;
  j.last->job = id;
  j.history = {*j.last};
}

void cluster_controller::restore(const journal_content& found, instant now, orders& out) {
  numbers_.go_on_after(found.last_number);
  for (const auto& f : found.finished) restore(f);
  for (const auto& u : found.jobs) {
    const auto id = numbers_.id_of(u.number);
    auto& j = jobs_[id];
    j.id = id;
    j.what = u.what;
    j.given = begins_with(u);
    j.received = j.given.bytes;
    j.restored = true;
    j.reached = u.reached;
    j.since = {u.settings, u.paused, 0};
    j.changes = j.noted = u.changes;
    j.view.id = u.number;
    j.view.name = u.what.file;
    j.view.owner = u.owner;
    out.push_back(log_line{"job " + std::to_string(u.number) + " was unfinished when this daemon ended: " +
                           (!u.kept.empty() ? "it continues from " + u.kept
                            : u.begun > 0   ? "it starts again"
                                            : "it is queued again")});
    const auto lives =
        "given up: this daemon ended " + std::to_string(u.begun) + " times while the job ran, with no checkpoint between";
    if (u.begun >= lives_of_a_job)
      fail(j, self_, lives, now, out);
    else
      ask_for_check(j, now, out);
    j.deadline = now + turn_timeout;
  }
}

void cluster_controller::note_set(const job& j, orders& out) const {
  out.push_back(journal_line{journal_set(number_of(j.id), j.since.settings, j.since.paused)});
}

// Writes the changes by users. Nodes that are excluded because they failed are not among them.
void cluster_controller::note_words(job& j, orders& out) const {
  auto said = j.changes;
  for (const auto& n : j.node_failures.away) said.without.erase(n);
  if (said == j.noted) return;
  j.noted = std::move(said);
  out.push_back(journal_line{journal_changed(number_of(j.id), j.noted)});
}

// Returns true if a restored job must not start with the plan of its file: users have changed the
// plan, or have changed settings and there is no file that could carry them. The first plan is then
// made like the one after the failure of all nodes.
bool cluster_controller::begins_changed(const job& j) const {
  const bool nowhere = j.given.kind == given_file::nothing && (!j.since.settings.empty() || j.since.paused);
  return j.restored && (nowhere || !(j.noted == amendments{}));
}

void cluster_controller::note_over(const job& j, orders& out) const {
  const auto& v = j.view;
  out.push_back(journal_line{journal_over({number_of(j.id), v.name, v.owner, v.state, j.weights, j.plan.last_step, *j.last, v.loss,
                                           v.accuracy, v.examples_per_s, v.skipped})});
}

}  // namespace troupe::control
