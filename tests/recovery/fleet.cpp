#include "tests/recovery/fleet.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "actors/control/admission.hpp"
#include "ops/device_descriptors.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe::recovery {

using namespace std::chrono_literals;

namespace {

constexpr const char* client = "client.1";
constexpr auto rest = 90s;  // after the end of the job
constexpr std::size_t max_logged = 4000;

std::filesystem::path new_folder() {
  static std::atomic<std::uint64_t> made{0};
  const std::filesystem::path memory = "/dev/shm";
  std::error_code ec;
  const auto base = std::filesystem::is_directory(memory, ec) ? memory : std::filesystem::temp_directory_path();
  return base / ("troupe-fleet-" + std::to_string(::getpid()) + "-" + std::to_string(++made));
}

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

}  // namespace

fleet::fleet(fleet_config c, std::shared_ptr<const tables> all)
    : config_(std::move(c)),
      random_(config_.seed * 2654435761u + 97),
      cluster_(cluster_of(config_)),
      net_(agenda_, random_, config_.net),
      around_{agenda_,
              random_,
              net_,
              config_.compute,
              config_.job_executor,
              cluster_,
              std::move(all),
              shared_cpu(),
              numerics_of({shared_cpu()}),
              config_.no_fence},
      folder_(new_folder()) {
  for (const auto& n : cluster_.nodes) {
    names_.push_back(n.name);
    machines_[n.name].state = folder_ / n.name;
    std::filesystem::create_directories(folder_ / n.name);
    agenda_.in(range{1ms, 300ms}.drawn(random_), [this, name = n.name] { start(name); });
  }
  agenda_.in(1500ms, [this] { client_asks(); });
}

fleet::~fleet() {
  machines_.clear();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

// --- machines

daemon* fleet::at(const std::string& node) { return machines_.at(node).daemon.get(); }

void fleet::start(const std::string& node) {
  auto& m = machines_.at(node);
  if (m.daemon) return;
  m.leaves = false;
  m.daemon = std::make_unique<recovery::daemon>(around_, *this, node, m.state, ++m.lives);
  on_log(node, "started");
  if (node == coordinator() && m.lives > 1 && restarted) restarted();
  if (node == coordinator() && asked_ > 0) agenda_.in(range{10ms, 800ms}.drawn(random_), [this] { client_asks(); });
}

void fleet::stop(const std::string& node, bool silently) {
  auto& m = machines_.at(node);
  if (!m.daemon) return;
  on_log(node, silently ? "lost" : "gone");
  net_.close(node, silently);
  m.daemon.reset();
  if (node != coordinator()) return;
  ++connection_, going_back_ = owed_ = false;
  for (auto& l : std::exchange(lines_, {})) agenda_.in(range{10us, 2ms}.drawn(random_), [l] { l->end({}); });
}

void fleet::kill(const std::string& node) { stop(node, false); }
void fleet::lose(const std::string& node) { stop(node, true); }

void fleet::stop_for(const std::string& node, duration time) {
  auto& m = machines_.at(node);
  if (!m.daemon) return;
  on_log(node, "stopped for " + std::to_string(seconds_of(time)) + " s");
  net_.stop(node);
  m.daemon->stop();
  agenda_.in(time, [this, node, life = m.lives] {
    const auto& now = machines_.at(node);
    if (!now.daemon || now.lives != life) return;
    on_log(node, "continues");
    net_.go_on(node);
    now.daemon->go_on();
  });
}

void fleet::drain(const std::string& node) {
  auto& m = machines_.at(node);
  if (!m.daemon) return;
  on_log(node, "receives SIGTERM");
  m.leaves = true;
  m.daemon->drain();
}

void fleet::on_drained(const std::string& node) {
  now_.push_back([this, node, life = machines_.at(node).lives] {
    if (machines_.at(node).lives == life) kill(node);
  });
}

void fleet::cut(plane p, const std::string& from, const std::string& to, bool yes) {
  on_log(from, std::string(yes ? "cut" : "mended") + (p == plane::data ? " data" : " control") + " to " + to);
  if (yes)
    net_.cut(p, from, to);
  else
    net_.mend(p, from, to);
}

void fleet::tell(command c) {
  auto* d = at(coordinator());
  const auto why = d ? d->tell(c) : std::string("no daemon");
  on_log("client", name_of(c) + (why.empty() ? std::string() : ": " + why));
}

void fleet::ask(const std::string& who, const std::string& text, std::function<void(std::optional<repl_reply>)> answer) {
  const auto l = std::make_shared<open_line>(open_line{std::move(answer)});
  if (at(coordinator()) == nullptr) return agenda_.in(1ms, [l] { l->end({}); });
  std::erase_if(lines_, [](const auto& old) { return !old->answer; });
  lines_.push_back(l);
  agenda_.in(10s, [l] { l->end({}); });
  const auto way = [this] { return range{10us, 2ms}.drawn(random_); };
  agenda_.in(way(), [this, l, who, text, way, connection = connection_] {
    if (connection != connection_) return;
    at(coordinator())->asks(who, text, [this, l, way](repl_reply r) { agenda_.in(way(), [l, r] { l->end(r); }); });
  });
}

// --- the client

void fleet::client_asks() {
  auto* d = at(coordinator());
  if (!d) return;
  if (ended_) return;
  ++asked_;
  if (number_ == 0)
    d->client_says(client, control::submit{{"job.toml", config_.job, {}}, true, asked_, {}});
  else
    d->client_says(client, control::follow{number_});
}

void fleet::on_client_message(const std::string&, const control::message& m) {
  heard_until_ = std::max(heard_until_, agenda_.now() + range{10us, 1ms}.drawn(random_));
  agenda_.at(heard_until_, [this, m, connection = connection_] {
    if (connection == connection_) client_hears(m);
  });
}

namespace {

// A job whose daemon shuts down continues when the daemon is back.
template <class Texts>
bool is_last(const std::string& kind, const Texts& texts) {
  const auto goes_on = [](const auto& t) { return t.first == "goes_on"; };
  return kind == "done" || kind == "error" || (kind == "preempted" && std::none_of(texts.begin(), texts.end(), goes_on));
}

}  // namespace

void fleet::client_hears(const control::message& m) {
  if (const auto* s = std::get_if<control::submitted>(&m)) {
    if (s->job != 0) {
      job_ = s->job;
      if (number_ == 0) submitted_at_ = agenda_.now(), counting_ = true;
      number_ = control::number_of(s->job);
      return;
    }
    on_log("client", "refused: " + (s->messages.empty() ? "" : s->messages.front()));
    violated((number_ == 0 ? "the job was refused: " : "a request of its client was refused: ") +
             (s->messages.empty() ? "" : s->messages.front()));
    ended_ = true;
    return;
  }
  const auto* e = std::get_if<control::said>(&m);
  if (!e || e->job != job_) return;
  const bool last = is_last(e->kind, e->texts);
  if (ended_) return violated("'" + e->kind + "' after the last event: " + e->text);
  if (e->kind != "step") on_log("client", e->kind + " " + std::to_string(e->step) + " " + e->text);
  events_.push_back({e->kind, e->text, e->step, e->values, e->texts, agenda_.now()});
  if (!last) return;
  ended_ = true;
}

// --- observed events

void fleet::violated(const std::string& what) {
  violations_.push_back("at " + std::to_string(seconds_of(agenda_.now())) + " s: " + what);
  on_log("violation", what);
}

void fleet::point(const std::string& who) {
  if (!counting_ || ended_) return;
  ++points_;
  for (auto [at, end] = hooks_.equal_range(points_); at != end; ++at) now_.push_back([what = at->second, who] { what(who); });
}

void fleet::on_acted(const acted& a) {
  if (a.old) return void(++old_);
  // Only messages of this plan may arrive: a later plan has not begun, and the fence drops messages
  // of earlier ones.
  if (a.what.h.src != no_role && a.what.h.src != a.what.h.dst && a.what.h.incarnation != a.plan_generation)
    violated(a.node + ": role " + a.who.name + " of plan " + std::to_string(a.plan_generation) + " receives '" +
             name_of(a.what.body) + "' of plan " + std::to_string(a.what.h.incarnation));
  point(a.node);
}

void fleet::on_message(const std::string& node, const std::string&, const control::message& m) {
  if (!std::holds_alternative<control::report>(m)) point(node);
}

void fleet::on_order(const control::order& o) {
  const auto silent = [this](const char* when) {
    if (std::exchange(owed_, false)) violated(std::string("no `recovered` event for a node failure, ") + when);
  };
  if (const auto* c = std::get_if<control::check_move>(&o); c && c->back) going_back_ = true;
  if (std::holds_alternative<control::begin_job>(o)) {
    silent("although another plan begins");
    owed_ = std::exchange(going_back_, false);
  }
  if (const auto* h = std::get_if<control::followed_event>(&o)) {
    const auto& e = h->what.event;
    if (e.is<recovered_event>()) owed_ = false;
    const auto* p = e.as<preempted_event>();
    if (ends_job(e) && (!p || p->goes_on.empty())) silent("although the job is over");
  }
}

void fleet::on_role_event(std::uint32_t, std::uint32_t plan_generation, const event_effect& e, std::uint32_t generation_now) {
  if (e.is<done_event>()) going_back_ = owed_ = false;  // the job ended before the next plan began
  if (plan_generation != generation_now)
    violated(std::string("'") + name_of(e).name + "' of plan " + std::to_string(plan_generation) + " arrives while plan " +
             std::to_string(generation_now) + " runs");
}

void fleet::on_log(const std::string& node, const std::string& line) {
  const auto text = std::to_string(seconds_of(agenda_.now())) + " " + node + ": " + line;
  if (config_.logs) std::printf("%s\n", text.c_str());
  if (log_.size() < max_logged) log_.push_back(text);
}

std::size_t fleet::count(const std::string& kind) const {
  return static_cast<std::size_t>(std::count_if(events_.begin(), events_.end(), [&](const auto& e) { return e.kind == kind; }));
}

const fleet::announced* fleet::last() const {
  return events_.empty() || !is_last(events_.back().kind, events_.back().texts) ? nullptr : &events_.back();
}

std::string fleet::text(const std::string& key) const {
  if (const auto* e = last())
    for (const auto& [k, v] : e->texts)
      if (k == key) return v;
  return {};
}

std::vector<double> fleet::weights() const {
  std::vector<double> all;
  std::error_code ec;
  std::filesystem::path newest;
  for (const auto& e : std::filesystem::directory_iterator(folder_ / coordinator(), ec)) {
    const auto file = e.path() / "weights.safetensors";
    if (!std::filesystem::exists(file, ec)) continue;
    if (newest.empty() || std::filesystem::last_write_time(file, ec) > std::filesystem::last_write_time(newest, ec)) newest = file;
  }
  const auto read = read_safetensors(newest.string());
  const auto* content = read ? &*read : nullptr;
  if (!content) return all;
  for (const auto& [name, t] : content->named)
    if (t.type() == dtype::f64) all.insert(all.end(), t.data<double>(), t.data<double>() + t.count());
  return all;
}

std::string fleet::waits() const {
  std::string all;
  for (const auto& [name, m] : machines_)
    if (m.daemon)
      for (const auto& r : m.daemon->roles().published())
        if (!r.waits_for.empty())
          all += name + ": " + r.name + " (step " + std::to_string(r.step) + ") waits for " + r.waits_for + "; ";
  return all;
}

// --- running

bool fleet::run(duration most) {
  const auto step = [this] {
    if (!agenda_.step()) return false;
    while (!now_.empty())
      for (auto& what : std::exchange(now_, {})) what();
    return true;
  };
  while (!ended_)
    if (agenda_.now() > most || !step()) return false;
  const auto until = agenda_.now() + rest;
  while (agenda_.now() < until && step()) {
  }
  for (const auto& [name, m] : machines_)
    if (m.daemon && !m.daemon->idle())
      violated(name + " still has roles of the job after " + std::to_string(rest.count()) + " s: " + waits());
  return true;
}

}  // namespace troupe::recovery
