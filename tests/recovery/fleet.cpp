#include "tests/recovery/fleet.hpp"

#include <algorithm>
#include <cstdio>

#include "ops/device.hpp"
#include "ops/device_descriptors.hpp"
#include "tests/error_text.hpp"

namespace troupe::recovery {

using namespace std::chrono_literals;

namespace {

constexpr auto rest = 90s;  // after the end of the job
constexpr std::size_t max_logged = 4000;

cluster_spec cluster_of(const fleet_config& c) {
  cluster_spec s;
  s.name = "fleet";
  for (std::uint32_t i = 0; i < c.nodes; ++i) {
    node_spec n;
    n.name = "n" + std::to_string(i + 1);
    n.address = "127.0.0.1:1";
    n.roles = {"worker", "server", "tester"};
    if (i == 0)
      n.roles = c.coordinator_works ? std::vector<std::string>{"coordinator", "data", "worker", "server", "tester"}
                                    : std::vector<std::string>{"coordinator", "data"};
    s.nodes.push_back(n);
  }
  return s;
}

std::shared_ptr<device> shared_cpu() {
  static const std::shared_ptr<device> d = make_cpu_device();
  return d;
}

// As the backend of a daemon (actors/control/host/repl.cpp).
class fleet_backend final : public repl_backend {
 public:
  fleet_backend(sim::sim_daemon& d, std::string who) : d_(d), who_{std::move(who), certificate_role::admin} {}
  repl_view view() const override { return d_.published(); }
  const repl_events& events() const override { return d_.said(); }
  expected<command_id> tell(std::uint32_t job, command c) override { return d_.command_of(who_, job, std::move(c)); }
  expected<std::uint32_t> submit(const repl_submission&) override { return unexpected(error("not simulated")); }

 private:
  sim::sim_daemon& d_;
  const person who_;
};

}  // namespace

sim::cluster_config simulated(const fleet_config& c, std::shared_ptr<const tables> all) {
  sim::cluster_config s;
  s.world.seed = c.seed;
  s.world.network.least = c.data.least;
  s.world.network.most = c.data.most;
  s.world.compute.cores = 64;
  s.world.dev = shared_cpu().get();
  s.world.no_fence = c.no_fence;
  s.wrong = c.wrong;
  s.times = c.times;
  s.cluster = cluster_of(c);
  s.job = {"job.toml", c.job, {}};
  s.all = std::move(all);
  s.dev = shared_cpu();
  s.numerics = numerics_of({shared_cpu()});
  return s;
}

fleet::fleet(fleet_config c, std::shared_ptr<const tables> all)
    : config_(std::move(c)), tasks_(config_.seed * 97 + 11), cluster_(simulated(config_, std::move(all))) {
  for (std::uint32_t n = 0; n < cluster_.nodes(); ++n) names_.push_back(cluster_.name_of(n));
  cluster_.watch = this;
  cluster_.on_event = [this](const heard_event& e) { heard(e); };
  cluster_.on_refusal = [this](const std::string& why) {
    forgotten_ = journal_fails_ && why.starts_with("there is no job");
    if (!forgotten_) violated((cluster_.submitted() ? "a request of its client was refused: " : "the job was refused: ") + why);
  };
  cluster_.on_start = [this](std::uint32_t node) {
    if (node == cluster_.coordinator() && cluster_.connection() > 0 && restarted) restarted();
  };
  when().measured = [this](role_id, const task_cost&) { return config_.compute.task.drawn(tasks_); };
  when().on_acted = [this](std::uint32_t node, std::uint32_t plan, role_id who, const envelope& e, bool old) {
    acted(node, plan, who, e, old);
  };
}

std::uint32_t fleet::index(const std::string& node) const {
  return static_cast<std::uint32_t>(std::find(names_.begin(), names_.end(), node) - names_.begin());
}

void fleet::tell(const command& c) {
  auto* d = at(coordinator());
  const auto why = d ? test::error_text(d->tell(c)) : std::string("no daemon");
  log_line("client", name_of(c) + (why.empty() ? std::string() : ": " + why));
}

void fleet::ask(const std::string& who, const std::string& text, std::function<void(const std::optional<repl_reply>&)> answer) {
  const auto l = std::make_shared<open_line>(open_line{std::move(answer), cluster_.connection()});
  if (at(coordinator()) == nullptr) return when().in(1ms, [l] { l->end(std::nullopt); });
  std::erase_if(lines_, [](const auto& old) { return !old->answer; });
  lines_.push_back(l);
  when().in(10s, [l] { l->end(std::nullopt); });
  const auto way = [this] { return range{10us, 2ms}.drawn(cluster_.draws()); };
  when().in(way(), [this, l, who, text, way] {
    if (l->connection != cluster_.connection()) return;
    auto& d = *at(coordinator());
    d.now_or_later([this, l, who, text, way, &d] {
      fleet_backend here(d, who);
      when().in(way(), [l, r = repl_session(here, false).run(text)] { l->end(r); });
    });
  });
}

// --- observed events

void fleet::violated(const std::string& what) {
  violations_.push_back("at " + std::to_string(seconds_of(when().now())) + " s: " + what);
  log_line("violation", what);
}

void fleet::point(const std::string& who) {
  if (!cluster_.submitted() || ended()) return;
  ++points_;
  for (auto [at, end] = hooks_.equal_range(points_); at != end; ++at) cluster_.soon([what = at->second, who] { what(who); });
}

void fleet::acted(std::uint32_t node, std::uint32_t plan, role_id who, const envelope& e, bool old) {
  if (old) return void(++old_);
  // Only messages of this plan may arrive: a later plan has not begun, and the fence drops messages
  // of earlier ones.
  const auto generation = when().generation_of(plan);
  if (e.h.src != no_role && e.h.src != e.h.dst && e.h.incarnation != generation)
    violated(names_[node] + ": role " + std::to_string(index_of(who)) + " of plan " + std::to_string(generation) + " receives '" +
             name_of(e.body) + "' of plan " + std::to_string(e.h.incarnation));
  point(names_[node]);
}

void fleet::on_message(std::uint32_t node, const control::message& m) {
  if (!std::holds_alternative<control::report>(m)) point(names_[node]);
}

void fleet::on_order(const control::order& o) {
  const auto silent = [this](const char* moment) {
    if (std::exchange(owed_, false)) violated(std::string("no `recovered` event for a node failure, ") + moment);
  };
  if (const auto* c = std::get_if<control::check_move>(&o); c && c->back) {
    going_back_ = true;
    kept_ = saved_;
  }
  if (std::holds_alternative<control::begin_job>(o)) {
    silent("although another plan begins");
    if (over_ && !journal_fails_) violated("the job begins again after its last event");
    owed_ = std::exchange(going_back_, false);
  }
  if (const auto* h = std::get_if<control::followed_event>(&o)) {
    const auto& e = h->what.event;
    if (e.is<recovered_event>()) owed_ = false;
    const auto* p = e.as<preempted_event>();
    if (ends_job(e) && (!p || p->goes_on.empty())) silent("although the job is over");
  }
}

void fleet::on_role_event(std::uint32_t generation, const event_effect& e, std::uint32_t running) {
  if (e.is<done_event>()) going_back_ = owed_ = false;  // the job ended before the next plan began
  if (generation != running)
    violated(std::string("'") + name_of(e).name + "' of plan " + std::to_string(generation) + " arrives while plan " +
             std::to_string(running) + " runs");
}

void fleet::lose_lines() {
  going_back_ = owed_ = false;
  for (auto& l : std::exchange(lines_, {})) when().in(range{10us, 2ms}.drawn(cluster_.draws()), [l] { l->end(std::nullopt); });
}

void fleet::on_log(std::uint32_t node, const std::string& line) {
  log_line(names_[node], line);
  if (node == cluster_.coordinator() && !cluster_.at(node)) lose_lines();
}

void fleet::heard(const heard_event& e) {
  if (over_) {
    if (!journal_fails_) violated("'" + e.kind + "' after the last event: " + e.text);
    return;
  }
  if (e.kind != "step") log_line("client", e.kind + " " + std::to_string(e.step) + " " + e.text);
  if (e.kind == "checkpoint") saved_ = std::max(saved_, e.step);
  // A checkpoint that was saved while the plan was made is of steps that the plan makes again.
  if (e.kind == "recovered") saved_ = std::min(saved_, e.step);
  if (e.kind == "step" && e.step <= kept_)
    violated("step " + std::to_string(e.step) + " is made again after a checkpoint of step " + std::to_string(kept_));
  over_ = ended();
}

void fleet::log_line(const std::string& who, const std::string& line) {
  const auto text = std::to_string(seconds_of(when().now())) + " " + who + ": " + line;
  if (config_.logs) std::printf("%s\n", text.c_str());
  if (log_.size() < max_logged) log_.push_back(text);
}

std::size_t fleet::count(const std::string& kind) const {
  return static_cast<std::size_t>(
      std::count_if(events().begin(), events().end(), [&](const heard_event& e) { return e.kind == kind; }));
}

const heard_event* fleet::last() const { return events().empty() || !is_last(events().back()) ? nullptr : &events().back(); }

std::string fleet::text(const std::string& key) const {
  if (const auto* e = last())
    for (const auto& [k, v] : e->texts)
      if (k == key) return v;
  return {};
}

std::vector<double> fleet::weights() const {
  std::vector<double> all;
  for (const auto& [name, t] : cluster_.weights())
    if (t.type() == dtype::f64) all.insert(all.end(), t.data<double>(), t.data<double>() + t.count());
  return all;
}

std::string fleet::waits() {
  std::string all;
  for (const auto& name : names_)
    if (const auto* d = at(name))
      for (const auto& r : d->roles())
        if (!r.waits_for.empty())
          all += name + ": " + r.name + " (step " + std::to_string(r.step) + ") waits for " + r.waits_for + "; ";
  return all;
}

// --- running

bool fleet::run(duration most) {
  while (!ended())
    if (when().now() > most || !cluster_.step()) return false;
  const auto until = when().now() + rest;
  while (when().now() < until && cluster_.step()) {
  }
  for (const auto& name : names_)
    if (auto* d = at(name); d && !d->idle())
      violated(name + " still has roles of the job after " + std::to_string(rest.count()) + " s: " + waits());
  return true;
}

}  // namespace troupe::recovery
