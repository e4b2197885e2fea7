#include "runtime/node/runs/run_recorder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/base/number_text.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/events/event_json.hpp"
#include "runtime/node/runs/curve_svg.hpp"
#include "runtime/node/runs/run_curve.hpp"
#include "runtime/node/runs/run_database.hpp"
#include "runtime/node/runs/run_files.hpp"
#include "runtime/node/tensorboard/tensorboard_log.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
constexpr std::size_t recorder_bound = 4096;  // queued notes
constexpr auto info_every = 5s;               // run.json while nothing but steps happens
constexpr const char* best_name = "best.safetensors";
constexpr const char* last_name = "last.safetensors";

// The step of the evaluation whose weights are in best.safetensors; nullopt: there is no whole file
// with an intact header.
std::optional<std::uint64_t> step_of_best(const fs::path& folder) {
  const auto metadata = read_safetensors_metadata((folder / best_name).string());
  if (!metadata) return std::nullopt;
  const auto at = metadata->find("step");
  std::uint64_t step = 0;
  if (at == metadata->end() || !read_number(at->second, step)) return std::nullopt;
  return step;
}

double unix_now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

std::optional<best_evaluation> kept_best(const fs::path& folder, const run_info& r, const prepared_job& j) {
  const auto stored = j.before ? step_of_best(folder) : std::nullopt;
  if (!stored || *stored > j.first_step) return std::nullopt;
  const auto values = read_run_values(run_metrics_file(folder), j.first_step);
  // run.json and metrics.csv may be newer or older than the checkpoint; the rows have fewer digits.
  for (const auto& known : {j.before->best, best_of(r), values ? values->best : std::nullopt})
    if (known && known->step == *stored) return known;
  return std::nullopt;
}

void continue_best(const fs::path& folder, const run_info& r, prepared_job& j) {
  if (j.before) j.before->best = kept_best(folder, r, j);
}

// size: the state of one recorder, which one thread writes
struct run_recorder::impl {
  struct note {
    double time = 0;
    std::variant<event_effect, store_effect> what;
  };

  impl(fs::path f, std::shared_ptr<const prepared_job> job, run_info r, folder_lock l, std::unique_ptr<run_database> d)
      : folder(std::move(f)), j(std::move(job)), lock(std::move(l)), db(std::move(d)), info(std::move(r)) {}
  ~impl() { close({}); }

  expected<void, record_error> open();
  void put(note n, bool waits = true);
  void close(std::optional<end> how);
  void work();
  void write(const std::deque<note>& notes_of_batch);
  void record(double time, const event_effect& e);
  void record_step(double time, std::uint64_t step, const step_event& s);
  void go_back(std::uint64_t step);
  void record_evaluation(double time, std::uint64_t step, const eval_event& v);
  void flush();
  run_info info_now();
  void write_info(const run_info& now);
  void write_end(const end& how);
  void draw_curve();
  void check(const expected<void, record_error>& written);
  double epoch(std::uint64_t step) const {
    return j->steps_per_epoch > 0 ? static_cast<double>(step) / static_cast<double>(j->steps_per_epoch) : 0;
  }

  const fs::path folder;
  const std::shared_ptr<const prepared_job> j;
  const folder_lock lock;
  double begun = unix_now(), earlier_seconds = 0;

  // Used by the recorder's thread.
  row_file metrics, events;
  std::unique_ptr<run_database> db;
  std::optional<tensorboard_log> board;
  double info_written = 0;
  std::uint64_t steps = 0;  // of the last row
  best_so_far best;
  bool info_due = false;
  expected<void, record_error> weights_written;  // read after the thread has ended

  mutable std::mutex guard;  // protects what follows
  std::condition_variable filled, room;
  std::deque<note> notes;
  run_info info;
  std::string trouble;
  bool closing = false;
  std::optional<end> ending;

  std::thread thread;
};

expected<void, record_error> run_recorder::impl::open() {
  earlier_seconds = info.seconds;
  steps = j->first_step;
  if (const auto b = best_of(info)) best.note(*b);
  for (auto* f : {&metrics, &events}) {
    const auto file = f == &metrics ? run_metrics_file(folder) : run_events_file(folder);
    if (auto ok = f->open(file); !ok) return ok;
  }
  if (metrics.empty()) metrics.add(metrics_header);
  auto opened = tensorboard_log::open(folder / "tensorboard", begun);
  if (!opened) return unexpected(std::move(opened).error());
  board.emplace(std::move(*opened));
  if (j->first_step > 0 || !info.resumed_at.empty()) board->restart(j->first_step + 1, begun);
  if (auto ok = write_text(run_info_file(folder), run_info_text(info)); !ok) return ok;
  if (auto ok = metrics.flush(); !ok) return ok;
  db->of_run(info.number);
  db->begin();
  db->forget_after(j->first_step);
  db->run(info, folder.filename().string());
  db->commit();
  if (!db->status()) return db->status();
  thread = std::thread([this] { work(); });
  return {};
}

void run_recorder::impl::put(note n, bool waits) {
  n.time = unix_now();
  std::unique_lock hold(guard);
  if (waits) room.wait(hold, [&] { return notes.size() < recorder_bound || closing; });
  if (notes.size() >= recorder_bound) ++info.not_recorded;
  if (closing || notes.size() >= recorder_bound) return;
  notes.push_back(std::move(n));
  if (notes.size() == 1) filled.notify_one();
}

void run_recorder::impl::close(std::optional<end> how) {
  {
    std::lock_guard hold(guard);
    if (closing) return;
    closing = true;
    ending = std::move(how);
  }
  filled.notify_all();
  room.notify_all();
  if (thread.joinable()) thread.join();
}

void run_recorder::impl::work() {
  for (;;) {
    std::deque<note> taken;
    bool last = false;
    {
      std::unique_lock hold(guard);
      filled.wait(hold, [&] { return closing || !notes.empty(); });
      filled.wait_for(hold, interval, [&] { return closing || notes.size() >= recorder_bound / 2; });
      taken.swap(notes);
      last = closing;
      room.notify_all();
    }
    write(taken);
    if (!last) continue;
    if (ending) write_end(*ending);
    return;
  }
}

// The transaction is short, because other processes may wait for the database.
void run_recorder::impl::write(const std::deque<note>& notes_of_batch) {
  db->begin();
  for (const auto& n : notes_of_batch)
    if (const auto* e = std::get_if<event_effect>(&n.what)) record(n.time, *e);
  const bool due = info_due || unix_now() - info_written > std::chrono::duration<double>(info_every).count();
  const auto now = info_now();
  if (due) db->run(now, folder.filename().string());
  db->commit();
  check(db->status());
  for (const auto& n : notes_of_batch) {
    const auto* s = std::get_if<store_effect>(&n.what);
    if (!s) continue;
    check(write_safetensors((folder / best_name).string(), s->named, weights_metadata(*j, s->step)));
    board->weights(s->step, n.time, s->named);
  }
  flush();
  if (due) write_info(now);
}

void run_recorder::impl::record(double time, const event_effect& e) {
  if (e.is<recovered_event>() && e.step < steps) go_back(e.step);
  board->event(e, time);
  if (e.is<histogram_event>()) return;
  if (const auto* s = e.as<step_event>()) return record_step(time, e.step, *s);
  if (const auto* v = e.as<eval_event>()) record_evaluation(time, e.step, *v);
  if (const auto* s = e.as<staleness_event>())
    for (const auto& entry : s->parameters)
      for (const auto& [clocks, reads] : entry.reads) db->staleness(e.step, entry.parameter, clocks, reads);
  events.add(event_line(e, event_form::file, time));
  db->event(e.step, time, name_of(e).name, message_of(e));
  info_due = true;
}

// A job on a cluster that lost a node may go back to a checkpoint: its steps after `step` are
// repeated, if it does not end before.
void run_recorder::impl::go_back(std::uint64_t step) {
  check(metrics.flush());
  if (const auto kept = keep_metrics_until(run_metrics_file(folder), step); !kept) check(unexpected(kept.error()));
  check(metrics.open(run_metrics_file(folder)));
  check(events.flush());
  check(keep_events_until(run_events_file(folder), step));
  check(events.open(run_events_file(folder)));
  board->restart(step + 1, unix_now());
  db->forget_after(step);
  best.go_back(step);
  steps = step;
  const auto values = read_run_values(run_metrics_file(folder));
  std::lock_guard hold(guard);
  set_best(info, best.best());
  info.steps = step;
  if (!values) return;
  info.accuracy = values->last ? values->last->accuracy.value_or(-1) : -1;
  info.loss = values->loss.value_or(info.loss);
}

void run_recorder::impl::record_step(double time, std::uint64_t step, const step_event& s) {
  if (step <= steps) go_back(step > 0 ? step - 1 : 0);
  steps = step;
  const auto lr = s.lr.value_or(std::nan(""));
  metrics.add(metrics_row(step, epoch(step), time, {s.loss, std::nan(""), lr, s.examples_per_s, std::nan("")}));
  db->step(step, epoch(step), time, s.loss, lr, s.examples_per_s);
  std::lock_guard hold(guard);
  info.steps = step;
  if (std::isfinite(s.loss)) info.loss = s.loss;
}

void run_recorder::impl::record_evaluation(double time, std::uint64_t step, const eval_event& v) {
  const auto none = std::nan("");
  metrics.add(metrics_row(step, epoch(step), time, {none, v.accuracy.value_or(none), none, none, v.loss}));
  db->evaluation(step, epoch(step), time, v.loss, v.accuracy.value_or(none));
  best.note({step, v.accuracy, v.loss});
  std::lock_guard hold(guard);
  info.accuracy = v.accuracy.value_or(-1);
  set_best(info, best.best());
}

void run_recorder::impl::flush() {
  for (auto* f : {&metrics, &events}) {
    const auto rows = f->rows();
    if (const auto written = f->flush(); !written) {
      check(written);
      std::lock_guard hold(guard);
      info.not_recorded += rows;
    }
  }
  check(board->flush());
}

run_info run_recorder::impl::info_now() {
  std::lock_guard hold(guard);
  info.seconds = earlier_seconds + unix_now() - begun;
  return info;
}

void run_recorder::impl::write_info(const run_info& now) {
  info_due = false;
  info_written = unix_now();
  check(write_text(run_info_file(folder), run_info_text(now)));
}

void run_recorder::impl::write_end(const end& how) {
  {
    std::lock_guard hold(guard);
    info.state = how.state;
    info.steps = how.step;
    info.error = how.error;
    info.weights_sha256 = how.state == "done" ? how.weights_sha256 : std::string();
    info.ended = utc_text(std::chrono::system_clock::now());
  }
  if (how.state == "done" && !how.weights.empty()) {
    const auto last = folder / last_name, chosen = folder / best_name;
    weights_written = write_safetensors(last.string(), how.weights, weights_metadata(*j, how.step));
    check(weights_written);
    std::error_code ec;
    if (!best.best() && !fs::exists(chosen, ec)) fs::create_hard_link(last, chosen, ec);  // there was no evaluation
    board->weights(how.step, unix_now(), how.weights);
    check(board->flush());
  }
  draw_curve();
  const auto now = info_now();
  db->begin();
  db->run(now, folder.filename().string());
  db->commit();
  write_info(now);
  check(db->status());
}

void run_recorder::impl::draw_curve() {
  auto made = svg_of_run(folder);
  if (!made) return check(unexpected(made.error()));
  check(write_text(folder / "curve.svg", *made));
}

void run_recorder::impl::check(const expected<void, record_error>& written) {
  if (written) return;
  std::lock_guard hold(guard);
  if (trouble.empty()) trouble = written.error().to_string();
}

run_recorder::run_recorder(std::unique_ptr<impl> i) : impl_(std::move(i)) {}
run_recorder::~run_recorder() = default;

expected<std::unique_ptr<run_recorder>, record_error> run_recorder::create(const fs::path& runs,
                                                                           std::shared_ptr<const prepared_job> j, run_info r,
                                                                           const std::string& job_text,
                                                                           const lock_patience& patience) {
  if (auto ok = make_runs_folder(runs); !ok) return unexpected(std::move(ok).error());
  // Before the folder, because the user may interrupt a wait for the database.
  auto db = run_database::open(runs, patience);
  if (!db) return unexpected(std::move(db).error());
  auto made = new_numbered_folder(runs, r.name, r.number, patience);
  if (!made) return unexpected(std::move(made).error());
  auto& place = *made;
  const auto undone = [folder = place.path](record_error e) {
    std::error_code ec;
    fs::remove_all(folder, ec);
    return unexpected(std::move(e));
  };
  if (auto ok = write_text(run_job_file(place.path), job_text); !ok) return undone(std::move(ok).error());
  r.state = "running";
  r.started = utc_text(std::chrono::system_clock::now());
  if (j->before) set_best(r, j->before->best);  // of a job that another node began
  if (r.checkpoints.empty()) r.checkpoints = (place.path / "checkpoints").string();
  std::unique_ptr<run_recorder> out(
      new run_recorder(std::make_unique<impl>(place.path, std::move(j), std::move(r), std::move(place.lock), *std::move(db))));
  if (auto ok = out->impl_->open(); !ok) return undone(std::move(ok).error());
  return out;
}

expected<std::unique_ptr<run_recorder>, record_error> run_recorder::resume(const fs::path& folder,
                                                                           std::shared_ptr<const prepared_job> j, run_info r,
                                                                           const lock_patience& patience) {
  auto held = lock_folder(folder);
  if (!held) return unexpected(std::move(held).error());
  auto db = run_database::open(folder.parent_path(), patience);  // before the folder is changed
  if (!db) return unexpected(std::move(db).error());
  const auto step = j->first_step;
  const auto last = keep_metrics_until(run_metrics_file(folder), step);
  if (!last) return unexpected(last.error());
  if (*last < step) r.not_recorded += step - *last;  // the process was killed before it wrote them
  if (auto kept = keep_events_until(run_events_file(folder), step); !kept) return unexpected(std::move(kept).error());
  const auto best = kept_best(folder, r, *j);
  std::error_code ec;
  if (!best) fs::remove(folder / best_name, ec);
  fs::remove(folder / last_name, ec);  // of an earlier end
  r.state = "running";
  r.ended.clear();
  r.error.clear();
  r.weights_sha256.clear();
  r.steps = step;
  r.resumed_at.push_back(step);
  set_best(r, best);
  if (const auto values = read_run_values(run_metrics_file(folder))) {  // run.json may be newer, or older
    r.accuracy = values->last ? values->last->accuracy.value_or(-1) : -1;
    r.loss = values->loss.value_or(r.loss);
  }
  std::unique_ptr<run_recorder> out(
      new run_recorder(std::make_unique<impl>(folder, std::move(j), std::move(r), std::move(*held), *std::move(db))));
  if (auto ok = out->impl_->open(); !ok) return unexpected(std::move(ok).error());
  out->event({step, run_resumed_event{}});
  return out;
}

const fs::path& run_recorder::folder() const { return impl_->folder; }
std::uint32_t run_recorder::number() const { return info().number; }
std::string run_recorder::word() const { return std::to_string(number()); }
std::string run_recorder::words() const { return word() + (impl_->j->spec.plugins.empty() ? "" : " --load-plugins"); }
fs::path run_recorder::checkpoints() const { return info().checkpoints; }

void run_recorder::event(const event_effect& e) { impl_->put({0, e}); }

void run_recorder::store(const store_effect& s) {
  if (s.what == store_effect::kind_of::best) impl_->put({0, s});
}

void run_recorder::offer(const event_effect& e) { impl_->put({0, e}, false); }

void run_recorder::offer(const store_effect& s) {
  if (s.what == store_effect::kind_of::best) impl_->put({0, s}, false);
}

expected<void, record_error> run_recorder::finish(const end& how) {
  impl_->close(how);
  return impl_->weights_written;
}

expected<void> run_recorder::status() const {
  std::lock_guard hold(impl_->guard);
  if (!impl_->trouble.empty()) return unexpected(error(impl_->trouble));
  return {};
}

run_info run_recorder::info() const {
  std::lock_guard hold(impl_->guard);
  return impl_->info;
}

}  // namespace troupe
