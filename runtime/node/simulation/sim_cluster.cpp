#include "runtime/node/simulation/sim_cluster.hpp"

#include <algorithm>

#include "runtime/cluster/admission.hpp"
#include "runtime/node/executor/shared_preparer.hpp"

namespace troupe::sim {

using namespace std::chrono_literals;

namespace {

constexpr const char* client = "client.1";
constexpr auto submits_at = 1500ms;

world_config with_names(world_config w, const cluster_spec& c, const daemon_times& times) {
  w.node_names.clear();
  for (const auto& n : c.nodes) w.node_names.push_back(n.name);
  w.nodes = static_cast<std::uint32_t>(c.nodes.size());
  w.connects_within = times.control.most;
  return w;
}

std::shared_ptr<control::job_preparer> plans_of(const cluster_config& c) {
  if (c.plans) return c.plans();
  const auto& self = c.cluster.nodes.front().name;
  return std::make_shared<control::shared_preparer>(
      std::make_shared<control::node_preparer>(control::job_place{c.cluster, self, c.numerics, c.all, {}}));
}

// Of faults that overlap on a node, the one with the largest factor has effect.
double slowest(const std::multiset<double>& factors) { return factors.empty() ? 1 : *factors.rbegin(); }

void count(std::multiset<double>& factors, double factor, bool begins) {
  if (begins)
    factors.insert(factor);
  else
    factors.erase(factors.find(factor));
}

}  // namespace

bool is_last(const heard_event& e) {
  const auto goes_on = [](const auto& t) { return t.first == "goes_on"; };
  return e.kind == "done" || e.kind == "error" || (e.kind == "preempted" && std::none_of(e.texts.begin(), e.texts.end(), goes_on));
}

sim_cluster::sim_cluster(cluster_config c)
    : config_(std::move(c)),
      coordinator_(coordinator_in(config_.cluster)),
      draws_(config_.world.seed * 2654435761u + 97),
      world_(with_names(config_.world, config_.cluster, config_.times)),
      net_(
          world_, draws_, config_.times.lines,
          [this](plane, std::uint32_t, std::uint32_t) { return config_.times.control.drawn(draws_); }, config_.times.control.most),
      around_{world_,
              draws_,
              net_,
              config_.times,
              config_.cluster,
              config_.all,
              config_.dev,
              config_.numerics,
              plans_of(config_),
              *this,
              [this](std::uint32_t node) { return at(node); },
              config_.wrong,
              {}} {
  world_.session = [this](std::uint32_t here, std::uint32_t peer) { return net_.session(plane::data, here, peer); };
  world_.on_node_event = [this](std::uint32_t node, std::uint32_t plan, const event_effect& e) {
    if (auto* d = at(node)) d->role_event(world_.job_of(plan), world_.generation_of(plan), e);
  };
  world_.on_node_store = [this](std::uint32_t node, std::uint32_t plan, const store_effect& e) {
    if (e.what == store_effect::kind_of::weights) weights_ = e.named;
    if (auto* d = at(node)) d->role_store(world_.job_of(plan), e);
  };
  world_.on_role_failure = [this](std::uint32_t node, std::uint32_t plan, role_id who, std::uint64_t step,
                                  const std::string& what) {
    if (auto* d = at(node)) d->role_failure(world_.job_of(plan), world_.generation_of(plan), who, step, what);
  };
  const auto& all = config_.cluster.nodes;
  machines_.resize(all.size());
  for (std::uint32_t n = 0; n < all.size(); ++n) {
    around_.named.emplace(all[n].name, n);
    machines_[n].disk = {std::make_shared<control::memory_states>(config_.numerics), std::make_shared<control::memory_journal>()};
    world_.in(config_.times.boot.drawn(draws_), [this, n] { start(n); });
  }
  world_.in(submits_at, [this] { client_asks(); });
}

// --- machines

void sim_cluster::start(std::uint32_t node) {
  auto& m = machines_.at(node);
  if (m.daemon) return;
  world_.revive(node);
  m.daemon = std::make_unique<sim_daemon>(around_, node, m.disk, ++m.lives);
  m.daemon->slow_disk = slowest(m.slow_disk);
  on_log(node, "started");
  if (on_start) on_start(node);
  if (node == coordinator_ && asked_ > 0) world_.in(range{10ms, 800ms}.drawn(draws_), [this] { client_asks(); });
}

void sim_cluster::end_daemon(std::uint32_t node, bool silently) {
  auto& m = machines_.at(node);
  if (!m.daemon) return;
  net_.close(node, silently);
  world_.die(node);
  m.daemon.reset();
  if (node == coordinator_) ++connection_;
  on_log(node, silently ? "lost" : "gone");
  if (const auto when = std::exchange(m.starts_at, std::nullopt)) world_.at(*when, [this, node] { start(node); });
}

void sim_cluster::kill(std::uint32_t node) { end_daemon(node, false); }
void sim_cluster::lose(std::uint32_t node) { end_daemon(node, true); }

void sim_cluster::stop_for(std::uint32_t node, duration time) {
  auto& m = machines_.at(node);
  if (!m.daemon) return;
  on_log(node, "stopped for " + std::to_string(seconds_of(time)) + " s");
  net_.stop(node);
  world_.stop(node);
  m.daemon->stop();
  world_.in(time, [this, node, life = m.lives] {
    const auto& now = machines_.at(node);
    if (!now.daemon || now.lives != life) return;
    on_log(node, "continues");
    net_.go_on(node);
    now.daemon->go_on();
    world_.go_on(node);
  });
}

void sim_cluster::drain(std::uint32_t node) {
  auto& m = machines_.at(node);
  if (!m.daemon) return;
  on_log(node, "receives SIGTERM");
  m.daemon->drain();
}

void sim_cluster::on_drained(std::uint32_t node) {
  soon([this, node, life = machines_.at(node).lives] {
    if (machines_.at(node).lives == life) kill(node);
  });
  if (watch) watch->on_drained(node);
}

// Faults may overlap: a way is open again when the last one ends.
void sim_cluster::cut(plane p, std::uint32_t from, std::uint32_t to, bool yes) {
  auto& n = cuts_[{p, from, to}];
  if (yes ? ++n > 1 : n == 0 || --n > 0) return;
  on_log(from, std::string(yes ? "cut" : "mended") + (p == plane::data ? " data" : " control") + " to " + name_of(to));
  if (yes)
    net_.cut(p, from, to);
  else
    net_.mend(p, from, to);
  if (p == plane::control) return;
  if (yes)
    world_.cut(from, to);
  else
    world_.mend(from, to);
}

void sim_cluster::slow_disk(std::uint32_t node, double factor, bool begins) {
  auto& m = machines_.at(node);
  count(m.slow_disk, factor, begins);
  if (m.daemon) m.daemon->slow_disk = slowest(m.slow_disk);
}

void sim_cluster::slow_tasks(std::uint32_t node, double factor, bool begins) {
  auto& m = machines_.at(node);
  count(m.slow_tasks, factor, begins);
  world_.slow(node, slowest(m.slow_tasks));
}

void sim_cluster::fill_disk(std::uint32_t node, bool begins) {
  auto& m = machines_.at(node);
  m.full_disk = begins ? m.full_disk + 1 : m.full_disk - 1;
  m.disk.fill(m.full_disk > 0);
}

void sim_cluster::cut_or_mend(const happening& h, bool yes) {
  for (std::uint32_t a = 0; a < nodes(); ++a)
    for (std::uint32_t b = 0; b < nodes(); ++b) {
      if (a == b) continue;
      if (cuts(h, fault_plane::control, a, b)) cut(plane::control, a, b, yes);
      if (cuts(h, fault_plane::data, a, b)) cut(plane::data, a, b, yes);
    }
}

void sim_cluster::suffer(const happening& h) {
  // Calls a function for each node now, and another one when the fault ends.
  const auto hit = [this, &h](std::function<void(std::uint32_t)> begin, std::function<void(std::uint32_t)> end) {
    for (const auto n : h.nodes) begin(n);
    if (h.length < duration{} || !end) return;
    world_.in(h.length, [nodes = h.nodes, end] {
      for (const auto n : nodes) end(n);
    });
  };
  const auto again = [this](std::uint32_t n) { start(n); };
  switch (h.kind) {
    case fault_kind::kill:
    case fault_kind::crash: return hit([this](auto n) { kill(n); }, again);
    case fault_kind::lose: return hit([this](auto n) { lose(n); }, again);
    case fault_kind::drain:
      return hit(
          [this, &h](auto n) {
            if (at(n) && h.length >= duration{}) machines_[n].starts_at = world_.now() + h.length;
            drain(n);
          },
          {});
    case fault_kind::stop: return hit([this, &h](auto n) { stop_for(n, h.length); }, {});
    case fault_kind::slow_disk:
      return hit([this, &h](auto n) { slow_disk(n, h.factor, true); }, [this, f = h.factor](auto n) { slow_disk(n, f, false); });
    case fault_kind::disk_full: return hit([this](auto n) { fill_disk(n, true); }, [this](auto n) { fill_disk(n, false); });
    case fault_kind::slow:
      return hit([this, &h](auto n) { slow_tasks(n, h.factor, true); }, [this, f = h.factor](auto n) { slow_tasks(n, f, false); });
    case fault_kind::skew: return hit([this, &h](auto n) { world_.skew(n, h.ahead, h.factor); }, {});
    case fault_kind::cut:
    case fault_kind::partition:
      cut_or_mend(h, true);
      if (h.length >= duration{}) world_.in(h.length, [this, h] { cut_or_mend(h, false); });
      return;
    case fault_kind::delay:
    case fault_kind::reorder:
    case fault_kind::duplicate:
    case fault_kind::drop: return;  // the world's faults
  }
}

std::string sim_cluster::waits() {
  std::string all;
  int named = 0;
  for (const auto& m : machines_)
    if (m.daemon)
      for (const auto& r : m.daemon->roles())
        if (!r.waits_for.empty() && ++named <= 5)
          all += (all.empty() ? "" : "; ") + m.daemon->name() + ": " + r.name + " (step " + std::to_string(r.step) +
                 ") waits for " + r.waits_for;
  if (!at(coordinator_)) return "the coordinator's daemon on " + name_of(coordinator_) + " does not run";
  return all.empty() ? "no role waits" : all;
}

// --- the client

void sim_cluster::client_asks() {
  auto* d = at(coordinator_);
  if (!d || ended_) return;
  ++asked_;
  if (number_ == 0)
    d->client_says(client, control::submit{config_.job, true, asked_, {}});
  else
    d->client_says(client, control::follow{number_});
}

void sim_cluster::on_client_message(const std::string& to, const control::message& m) {
  if (watch) watch->on_client_message(to, m);
  if (to != client) return;
  heard_until_ = std::max(heard_until_, world_.now() + range{10us, 1ms}.drawn(draws_));
  world_.at(heard_until_, [this, m, connection = connection_] {
    if (connection == connection_) client_hears(m);
  });
}

void sim_cluster::client_hears(const control::message& m) {
  if (const auto* s = std::get_if<control::submitted>(&m)) {
    if (s->job != 0) {
      job_ = s->job;
      if (number_ == 0) submitted_at_ = world_.now();
      number_ = control::number_of(s->job);
      return;
    }
    const auto why = s->messages.empty() ? std::string() : s->messages.front();
    on_log(coordinator_, "refused: " + why);
    ended_ = true;
    if (on_refusal) on_refusal(why);
    return;
  }
  const auto* e = std::get_if<control::said>(&m);
  if (!e || e->job != job_) return;
  events_.push_back({e->kind, e->text, e->step, e->values, e->texts, world_.now()});
  if (is_last(events_.back())) ended_ = true;
  if (on_event) on_event(events_.back());
}

// --- observed events

void sim_cluster::on_message(std::uint32_t node, const control::message& m) {
  if (watch) watch->on_message(node, m);
}
void sim_cluster::on_order(const control::order& o) {
  if (!begun_at_ && std::holds_alternative<control::begin_job>(o)) begin();
  if (watch) watch->on_order(o);
}
void sim_cluster::on_role_event(std::uint32_t generation, const event_effect& e, std::uint32_t running) {
  if (watch) watch->on_role_event(generation, e, running);
}
void sim_cluster::on_said(const event_effect& e) {
  if (watch) watch->on_said(e);
}
void sim_cluster::on_log(std::uint32_t node, const std::string& line) {
  if (watch) watch->on_log(node, line);
}

void sim_cluster::begin() {
  begun_at_ = world_.now();
  world_.begin_faults();
  for (const auto& h : planned_)
    world_.at(*begun_at_ + h.at, [this, &h] {
      if (ended_) return;
      if (on_fault) on_fault(h);
      suffer(h);
    });
}

bool sim_cluster::step() {
  if (!world_.step()) return false;
  while (!soon_.empty())
    for (auto& what : std::exchange(soon_, {})) what();
  return true;
}

}  // namespace troupe::sim
