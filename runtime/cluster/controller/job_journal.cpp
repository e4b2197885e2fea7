#include "runtime/cluster/controller/job_journal.hpp"

#include "runtime/base/printable.hpp"

namespace troupe::control {

void note_queued(job_call& c) {
  unfinished_job u;
  u.number = number_of(c.j.id);
  u.what = c.j.from.what;
  u.given = c.j.from.given;
  u.owner = c.j.view.owner;
  c.out.push_back(journal_line{journal_queued(u)});
}

void note_begun(job_call& c) { c.out.push_back(journal_line{journal_begun(number_of(c.j.id))}); }

void note_kept(job_call& c, const std::string& file) { c.out.push_back(journal_line{journal_kept(number_of(c.j.id), file)}); }

void note_settings(job_call& c) {
  c.out.push_back(journal_line{journal_set(number_of(c.j.id), c.j.recovery.settings(), c.j.recovery.paused())});
}

void note_changes(job_call& c) {
  if (const auto changes = c.j.plans.to_note(c.j.recovery.failures().away))
    c.out.push_back(journal_line{journal_changed(number_of(c.j.id), *changes)});
}

void note_over(job_call& c) {
  const auto& v = c.j.view;
  c.out.push_back(journal_line{journal_over({number_of(c.j.id), v.name, v.owner, v.state, c.j.files.weights, c.j.plan.last_step,
                                             *c.j.log.last(), v.loss, v.accuracy, v.examples_per_s, v.skipped})});
}

void restore(controlled_job& j, const finished_job& f) {
  // An earlier version may have accepted any name.
  j.view.name = as_name(f.name);
  j.view.owner = as_name(f.owner);
  j.view.state = f.state;
  j.view.step = f.last.event.step;
  j.view.loss = f.loss;
  j.view.accuracy = f.accuracy;
  j.view.examples_per_s = f.examples_per_s;
  j.view.skipped = f.skipped;
  j.view.last_step = f.last_step;
  if (const auto* bad = f.last.event.as<error_event>()) j.view.message = shortened(bad->message, longest_job_error);
  if (const auto* d = f.last.event.as<done_event>()) j.view.weights_sha256 = d->weights_sha256;
  j.files.weights = f.weights;
  auto last = f.last;
  last.job = j.id;
  j.log.end_with(last);
  j.log.sent(std::move(last));
  j.run.end({}, {});
  j.run.finish();
}

void restore(controlled_job& j, const unfinished_job& u) {
  j.from.what = u.what;
  j.from.given = begins_with(u);
  j.from.received = j.from.given.bytes;
  j.from.restored = true;
  j.recovery.restore(u.settings, u.paused, u.reached);
  j.plans.restore(u.changes);
  j.view.name = as_name(u.what.file);
  j.view.owner = as_name(u.owner);
}

bool begins_changed(const controlled_job& j) {
  const bool nowhere = !j.from.has_file() && (!j.recovery.settings().empty() || j.recovery.paused());
  return j.from.restored && (nowhere || j.plans.restored_changes());
}

}  // namespace troupe::control
