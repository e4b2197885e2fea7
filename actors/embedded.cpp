#include "actors/embedded.hpp"

#include <future>
#include <mutex>
#include <thread>

#include "actors/embedded_notes.hpp"
#include "actors/shell/node_host.hpp"
#include "ops/cpu/processor.hpp"
#include "ops/device.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/node/trace_jobs.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kill_patience{5};

std::string who_waits(const std::vector<role_published>& entries) {
  std::string text;
  for (const auto& r : entries)
    if (!r.status.waits_for.empty()) text += "; " + r.name + " waits for " + r.status.waits_for;
  return text;
}

}  // namespace

// size: the parts of one embedded run, which its threads share
struct embedded_run::impl {
  impl(std::shared_ptr<const prepared_job> job, embedded_options o)
      : j(std::move(job)), options(std::move(o)), watch(options.stall_after), tasks(options.tasks) {}

  void start();
  void wait();
  void handle_event(const event_effect& e);
  void handle_event(const store_effect& s);
  void handle_event(const troupe::command& c);
  void handle_event(const kill_note& k);
  void end_killed();
  void refuse(const troupe::command& c, const std::string& why);
  void swap(const store_effect& s);
  void spawn(node_host& on, std::shared_ptr<const prepared_job> plan);
  void release();
  void begin();
  expected<void> begin_trace(const std::string& file);
  void fail(std::string where, std::string what);
  void look_for_stall();
  void keep_post_mortem();
  bool look_at_tasks(const std::vector<role_published>& entries);
  void look_for_stragglers();

  const std::shared_ptr<const prepared_job> j;  // the job of the first plan
  embedded_options options;
  note_queue notes;
  stall_watch watch;
  task_watch tasks;
  straggler_watch stragglers;
  mutable std::mutex lock;  // protects `host`, `early` and `moving`
  std::mutex looking;       // held while `host` is used without `lock`, and while it is set or released
  std::shared_ptr<node_host> host;
  std::unique_ptr<trace_recording> trace;  // of `host`; protected by `looking`
  std::vector<troupe::command> early;      // received before the job started, or while layers move
  bool moving = false;
  // The running plan, the next plan, and the command that requested it.
  std::shared_ptr<const prepared_job> running;
  std::shared_ptr<prepared_job> next;
  amendments changes, next_changes;
  troupe::command wish;
  std::uint32_t plan_generation = 0;
  bool over = false, paused = false, used = false, killed = false;
  bool result_was_hung = false;
  repl_events said;
  embedded_result result;
};

embedded_run::embedded_run(std::shared_ptr<const prepared_job> j, embedded_options o)
    : impl_(std::make_unique<impl>(std::move(j), std::move(o))) {}

namespace {

// Leaks what the thread of a hung task still uses, also while this process exits.
template <class T>
void leave_behind(std::unique_ptr<T> what) {
  static auto& all = *new std::vector<std::unique_ptr<T>>;
  static std::mutex lock;
  std::lock_guard guard(lock);
  all.push_back(std::move(what));
}

}  // namespace

embedded_run::~embedded_run() {
  if (impl_->result_was_hung) leave_behind(std::move(impl_));
}

void embedded_run::impl::fail(std::string where, std::string what) {
  if (over) return;
  over = true;
  result.ok = false;
  result.where = std::move(where);
  result.error = std::move(what);
}

void embedded_run::impl::start() {
  host_config c;
  c.threads = options.threads;
  c.devices = options.devices;
  c.activity_record = options.activity_record;
  c.callbacks.on_event = [this](std::uint32_t, const event_effect& e) { notes.put(e); };
  c.callbacks.on_store = [this](std::uint32_t, const store_effect& s) { notes.put(s); };
  auto made = std::make_shared<node_host>(std::move(c));
  spawn(*made, j);
  {
    std::scoped_lock guard(looking, lock);
    host = std::move(made);
    if (!options.trace.empty())
      if (const auto begun = begin_trace(options.trace); !begun) return fail("--trace", begun.error().text);
  }
  begin();
}

// Throws std::runtime_error if the plan cannot be recorded.
void embedded_run::impl::spawn(node_host& on, std::shared_ptr<const prepared_job> plan) {
  if (options.origin && plan->spec.record) {
    auto from = *options.origin;
    from.node = plan->plan.nodes.front().name;
    from.plan_generation = plan_generation;
    from.changes = changes;
    from.nodes = j->nodes;
    const auto recorded = std::make_shared<prepared_job>(*plan);
    const auto numerics = options.devices.empty() ? make_cpu_device()->numerics_id() : options.devices.front()->numerics_id();
    if (const auto ok = begin_recording(*recorded, from, numerics); !ok) throw std::runtime_error(ok.error().to_string());
    plan = recorded;
  }
  on.spawn(plan->id, plan, 0, plan_generation);
  running = std::move(plan);
}

void embedded_run::impl::begin() {
  envelope e;
  e.h.job = j->id;
  e.h.dst = role_id{0};
  e.body = troupe::start{};
  host->deliver(std::move(e));
  release();
}

// The caller holds `looking`.
expected<void> embedded_run::impl::begin_trace(const std::string& file) {
  if (trace) return unexpected(error("a trace is being written to " + trace->file().string() + "; stop it first"));
  if (host->activities() == nullptr) return unexpected(error("this run keeps no record of what its roles do"));
  const auto threads = options.threads > 0 ? options.threads : cpu::usable_threads();
  auto made = trace_recording::start(file, *host->activities(), j->nodes.front().name, trace_job_of(*j, threads));
  if (!made) return unexpected(std::move(made).error());
  trace = *std::move(made);
  return {};
}

// --- the next plan of the job

void embedded_run::impl::release() {
  std::lock_guard guard(lock);
  moving = false;
  for (auto& w : early) host->command(j->id, std::move(w));
  early.clear();
}

void embedded_run::impl::refuse(const troupe::command& c, const std::string& why) {
  if (!next) release();
  handle_event(event_effect{result.step, refused_event{why}, answers_to(c.id)});
}

void embedded_run::impl::handle_event(const troupe::command& c) {
  if (over) return;
  if (next) return refuse(c, "another move is under way: " + done_text(wish));
  auto a = amended(*running, changes, c);
  if (!a) return refuse(c, a.error().text);
  auto made = prepare_again(j, *a);
  if (!made) return refuse(c, made.error().front().message);
  next = *made;
  next_changes = *std::move(a);
  wish = c;
  std::lock_guard guard(lock);
  moving = true;
  host->command(j->id, {handover_command{mode_of(*next)}});
}

void embedded_run::impl::swap(const store_effect& s) {
  const auto begun = std::chrono::steady_clock::now();
  host->end(j->id);
  continue_at(*next, s.step, s.with, s.named);
  changes = std::move(next_changes);
  ++plan_generation;
  spawn(*host, std::exchange(next, nullptr));
  begin();
  watch.reset();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
  handle_event(event_effect{s.step, moved_event{took.count(), done_text(wish)}, answers_to(wish.id)});
}

void embedded_run::impl::handle_event(const event_effect& e) {
  if (over) return;
  result.step = std::max(result.step, e.step);
  if (e.is<paused_event>() && std::exchange(paused, true) && e.answers.empty()) return;  // the next plan begins paused, too
  if (e.is<resumed_event>()) paused = false;
  if (const auto* m = e.as<mode_event>()) set_mode(changes, m->mode);
  if (const auto* no = e.as<handover_refused_event>()) {
    next.reset();
    return refuse(wish, no->message);
  }
  if (const auto* d = e.as<done_event>()) {
    over = true;
    result.ok = true;
    result.stopped = d->stopped();
    result.done = *d;
    result.done.weights_sha256 = result.weights_sha256 = weights_sha256(result.weights);
  }
  if (const auto* bad = e.as<error_event>()) {
    if (bad->role)
      fail(bad->role->role, bad->role->reason);
    else
      fail(killed ? "" : "coordinator", bad->message);
  }
  said.put(j->id, e);
  if (options.on_event) options.on_event(e);
  if (const auto* b = e.as<balance_event>(); b && !next) handle_event(troupe::command{balance_command{b->packets}});
}

void embedded_run::impl::handle_event(const store_effect& s) {
  if (over) return;
  if (s.what == store_effect::kind_of::handover) return next ? swap(s) : void();
  if (s.what == store_effect::kind_of::weights) result.weights = s.named;
  if (options.on_store) options.on_store(s);
}

void embedded_run::impl::handle_event(const kill_note& k) {
  if (over) return;
  killed = true;
  handle_event(event_effect{result.step, error_event{k.why}});
}

// Ends the roles of a killed job on another thread, because a task may hang.
void embedded_run::impl::end_killed() {
  const auto ended = std::make_shared<std::promise<void>>();
  std::thread([ended, id = j->id, here = host.get()] {
    here->end(id);
    ended->set_value();
  }).detach();
  result.hung = ended->get_future().wait_for(kill_patience) != std::future_status::ready;
}

// Returns true if a task of the job runs.
bool embedded_run::impl::look_at_tasks(const std::vector<role_published>& entries) {
  std::vector<watched_task> tasks_that_run;
  for (const auto& r : entries) tasks_that_run.push_back({{}, r.name, r.task});
  const auto found = tasks.look(tasks_that_run, std::chrono::steady_clock::now());
  for (const auto& t : found.overlong) handle_event(event_effect{result.step, slow_task_of(t)});
  if (found.hung && !over) {
    result.hung = true;
    role_failure what{found.hung->what.role, found.hung->text() + ", and is considered hung"};
    handle_event(event_effect{result.step, error_event{what.text(), {}, {}, what}});
  }
  return found.runs;
}

void embedded_run::impl::look_for_stall() {
  if (paused) return watch.reset();
  const auto entries = host->published();
  if (look_at_tasks(entries)) return watch.reset();
  if (!watch.stalled(entries)) return;
  const auto seconds = std::to_string(options.stall_after.count());
  handle_event(event_effect{result.step, error_event{"no role handled a message for " + seconds + " s" + who_waits(entries)}});
}

void embedded_run::impl::look_for_stragglers() {
  std::vector<role_load> loads;
  for (const auto& r : host->published()) loads.push_back({j->nodes.front().name, r.name, r.status.step, r.busy_seconds});
  for (const auto& s : stragglers.look(loads, std::chrono::steady_clock::now()))
    handle_event(event_effect{result.step, event_of(s)});
}

void embedded_run::impl::wait() {
  constexpr auto notes_every = std::chrono::milliseconds(250);
  auto next_look = std::chrono::steady_clock::now() + stall_watch::every, next_load = next_look;
  while (!over) {
    for (auto& n : notes.take(notes_every)) std::visit([this](const auto& x) { handle_event(x); }, n);
    if (options.on_tick) options.on_tick();
    const auto now = std::chrono::steady_clock::now();
    if (!over && now >= next_load) look_for_stragglers(), next_load = now + notes_every;
    if (over || now < next_look) continue;
    look_for_stall();
    next_look = now + stall_watch::every;
  }
}

// Called while the roles exist; an exception here does not replace the job's error. For a hung job
// the log is written as it is now.
void embedded_run::impl::keep_post_mortem() {
  if (result.ok || killed || !options.origin || options.origin->home.empty() || !host || !running) return;
  try {
    auto from = *options.origin;
    from.node = running->plan.nodes.front().name;
    from.plan_generation = plan_generation;
    if (plan_generation > 0) {  // this plan has amendments; commands to a running plan are in its log
      from.changes = changes;
      from.begins.kind = plan_beginning::with::handover;
    } else if (options.begins)
      from.begins = options.begins->now();
    const failed_job failed(*host, running, std::move(from));
    if (!result.hung) host->end(j->id);
    auto kept = failed.write(result.where, result.error, result.step, said.after(0, j->id));
    result.post_mortem = kept ? *kept : "not kept: " + kept.error().to_string();
  } catch (const std::exception& e) {
    result.post_mortem = std::string("not kept: ") + e.what();
  }
}

embedded_result embedded_run::run() {
  auto& me = *impl_;
  if (std::exchange(me.used, true)) {
    embedded_result twice;
    twice.error = "embedded_run::run() was called twice";
    return twice;
  }
  me.result.step = me.j->first_step;
  try {
    me.start();
    me.wait();
  } catch (const std::exception& e) {
    me.fail("embedded", e.what());
  } catch (...) {
    me.fail("embedded", "unknown exception");
  }
  me.notes.close();
  if (me.killed && me.host) me.end_killed();
  me.keep_post_mortem();
  {
    std::lock_guard guard(me.looking);
    if (me.trace) me.result.trace = me.trace->stop();
    me.trace.reset();
  }
  if (me.result.hung) {
    me.result_was_hung = true;
    return std::move(me.result);
  }
  std::shared_ptr<node_host> last;
  {
    std::scoped_lock guard(me.looking, me.lock);
    last = std::move(me.host);
  }
  last.reset();  // joins
  return std::move(me.result);
}

void embedded_run::command(troupe::command c) {
  std::unique_lock guard(impl_->lock);
  if (amends(c)) {
    impl_->moving = true;  // later commands are delivered after it
    guard.unlock();
    impl_->notes.put(std::move(c), false);
  } else if (impl_->host && !impl_->moving)
    impl_->host->command(impl_->j->id, std::move(c));
  else
    impl_->early.push_back(std::move(c));
}

expected<void> embedded_run::start_trace(const std::string& file) {
  std::lock_guard guard(impl_->looking);
  return impl_->host ? impl_->begin_trace(file) : unexpected(error("no job runs"));
}

expected<trace_summary> embedded_run::stop_trace() {
  std::lock_guard guard(impl_->looking);
  if (!impl_->trace) return unexpected(error("no trace is being written"));
  const auto trace = std::move(impl_->trace);
  return trace->stop();
}

void embedded_run::stop() { command({stop_command{}}); }

void embedded_run::kill(const std::string& why) { impl_->notes.put(kill_note{why}, false); }

std::shared_ptr<node_host> embedded_run::host() const {
  std::lock_guard guard(impl_->lock);
  return impl_->host;
}

bool embedded_run::look(const std::function<void(const node_host&)>& look) const {
  std::lock_guard guard(impl_->looking);
  if (!impl_->host) return false;
  look(*impl_->host);
  return true;
}

}  // namespace troupe
