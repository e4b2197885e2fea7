// Goodput of a cluster of a thousand nodes that fail, in simulation (bench/goodput.py runs it and
// compares with Young and Daly).
//
// Simulated event by event, with the code of the daemons: the cluster controller, a member for
// every node, and every message that they exchange for a failure, a plan, a swap and a returning
// node. Lifetimes of nodes are drawn from a distribution. Detection, connections, plans and
// checkpoints take time. Not event by event: steps (training advances by one step in `step_s`
// seconds, stops during a checkpoint, and stops from a failure to the first grant) and ticks, which
// occur only while something is in progress. The coordinator's node does not fail.
//
//   bench_goodput KEY=VALUE...      prints one JSON object
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "runtime/cluster/controller/cluster_controller.hpp"
#include "runtime/cluster/controller/member.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "runtime/sim/random.hpp"
#include "runtime/sim/world.hpp"

namespace troupe::control {
namespace {

struct setup {
  double nodes = 1024, mtbf_h = 500, repair_s = 1800, step_s = 1, checkpoint_s = 30, every_s = 3600, detect_s = 5;
  double plan_s = 1, roles_s = 1, load_s = 30, latency_s = 0.001, failures = 300, shape = 1, live = 0, seed = 1;
};

duration in_ns(double s) { return duration(static_cast<std::int64_t>(s * 1e9)); }

// size: a cluster, its coordinator's training and the counters of both; every order reads or
// changes most of them
class cluster {
 public:
  explicit cluster(const setup& s) : s_(s), random_(static_cast<std::uint64_t>(s.seed)) {
    for (int i = 0; i < static_cast<int>(s.nodes); ++i) {
      node_spec n;
      n.name = "n" + std::to_string(i + 1);
      n.address = "127.0.0.1:1";
      spec_.nodes.push_back(n);
    }
    controller_ = std::make_unique<cluster_controller>(spec_, "n1", std::uint16_t{1});
  }

  int run() {
    for (const auto& n : spec_.nodes) join_cluster(n.name);
    run_orders();
    say("client.1", submit{{"job.toml", "text", {}}, false, 1, {}});
    while (!over_ && (node_failures_ < static_cast<std::uint64_t>(s_.failures) || busy() || !training_) && agenda_.step())
      run_orders();
    if (!error_.empty()) return std::fprintf(stderr, "%s\n", error_.c_str()), 1;
    const auto all = seconds(agenda_.now() - first_grant_);
    const auto n = static_cast<double>(std::max<std::uint64_t>(recovered_, 1));
    std::printf(
        "{\"nodes\": %.0f, \"mtbf_h\": %g, \"every_s\": %g, \"live\": %s, \"failures\": %llu, \"recovered\": %llu, \"days\": %.3f, "
        "\"goodput\": %.6f, \"steps_again\": %.1f, \"recovery_s\": %.4f, \"back_s\": %.4f, \"taken_back\": %llu, \"events\": "
        "%llu}\n",
        s_.nodes, s_.mtbf_h, s_.every_s, s_.live > 0 ? "true" : "false", ull(node_failures_), ull(recovered_), all / 86400,
        static_cast<double>(step_now()) * s_.step_s / all, static_cast<double>(again_) / n, stood_ / n,
        moved_ > 0 ? stood_to_move_ / static_cast<double>(moved_) : 0, ull(moved_), ull(agenda_.events()));
    return 0;
  }

 private:
  struct node {
    std::unique_ptr<member> self;
    std::uint64_t life = 0;
    std::map<std::string, bool> up;  // data connections
  };
  static double seconds(duration d) { return std::chrono::duration<double>(d).count(); }
  static unsigned long long ull(std::uint64_t n) { return n; }
  instant now() const { return instant{} + std::chrono::hours(1) + agenda_.now(); }
  duration some(double s) { return in_ns(s * (0.8 + 0.4 * random_.unit())); }
  bool busy() const { return !nodes_gone_.empty(); }

  // --- nodes

  void join_cluster(const std::string& name) {
    auto& n = nodes_[name];
    n.self = std::make_unique<member>(name, "n1");
    ++n.life;
    n.self->introduce({"sim", "same", protocol, abi_version, n.life});
    if (name != "n1") controller_->on_peer_up(name, n.life);
    n.self->on_coordinator_up(member_out(name));
    if (name != "n1") agenda_.in(lifetime(), [this, name, life = n.life] { dies(name, life); });
  }

  duration lifetime() {
    const double mean = s_.mtbf_h * 3600, x = random_.exponential();
    return in_ns(s_.shape == 1 ? mean * x : mean / std::tgamma(1 + 1 / s_.shape) * std::pow(x, 1 / s_.shape));
  }

  void dies(const std::string& name, std::uint64_t life) {
    auto& n = nodes_[name];
    if (n.life != life || !n.self) return;
    n.self.reset();
    ++node_failures_;
    nodes_gone_[name] = true;
    if (plan_.count(name)) stop_training();
    const auto peers = std::exchange(n.up, {});
    agenda_.in(some(s_.detect_s), [this, name] { controller_->on_peer_down(name, "gone", now(), controller_out_); });
    for (const auto& [peer, yes] : peers)
      agenda_.in(some(s_.detect_s), [this, name, peer = peer] {
        auto& p = nodes_[peer];
        if (!p.self || p.up.erase(name) == 0) return;
        p.self->on_data_down(name, "gone", member_out(peer));
      });
    agenda_.in(some(s_.repair_s) + in_ns(2 * s_.detect_s), [this, name] {
      nodes_gone_.erase(name);
      join_cluster(name);
    });
    tick();
  }

  // Runs the controller's ticks, and so its deadlines, while something is in progress.
  void tick() {
    if (std::exchange(ticking_, true)) return;
    agenda_.in(in_ns(1), [this] {
      ticking_ = false;
      report r;
      r.roles.push_back({job_, 0, "coordinator", {}, 0, 0, ++messages_, 0, 0, 0, 0, 0});
      controller_->on("n1", r, now(), controller_out_);
      controller_->on_tick(now(), controller_out_);
      if (!training_ || ++idle_ticks_ < 60) tick();
      if (!training_) idle_ticks_ = 0;
    });
  }

  // --- training

  std::uint64_t step_now() const {
    return training_ ? std::min(segment_end_, base_ + static_cast<std::uint64_t>(seconds(agenda_.now() - began_) / s_.step_s))
                     : base_;
  }

  void begin_training(std::uint64_t step) {
    if (first_grant_ == duration{}) first_grant_ = agenda_.now();
    if (lost_at_ != duration{}) {
      stood_ += seconds(agenda_.now() - lost_at_);
      again_ += base_ - step;
      ++recovered_;
    } else if (handed_at_ != duration{}) {
      stood_to_move_ += seconds(agenda_.now() - handed_at_);
      ++moved_;
    }
    lost_at_ = handed_at_ = {};
    segment(step);
  }

  void segment(std::uint64_t step) {
    training_ = true;
    base_ = step;
    began_ = agenda_.now();
    const auto steps = static_cast<std::uint64_t>(std::max(1.0, std::round(s_.every_s / s_.step_s)));
    segment_end_ =
        s_.every_s > 0 ? std::max(kept_ + steps, base_) : UINT64_MAX;  // counted from the last checkpoint, not from a move
    if (s_.every_s <= 0) return;
    agenda_.in(in_ns(static_cast<double>(segment_end_ - base_) * s_.step_s), [this, g = ++generation_] {
      if (g != generation_) return;
      agenda_.in(in_ns(s_.checkpoint_s), [this, g] {
        if (g != generation_) return;
        kept_ = segment_end_;
        controller_->on_event({job_, {kept_, step_event{.loss = 1.0}}}, now(), controller_out_);
        controller_->on_store_begun(job_);
        controller_->on_event({job_, {kept_, checkpoint_event{}}}, now(), controller_out_);
        controller_->on_stored({job_, kept_kind::checkpoint, "file", {}, {}}, now(), controller_out_);
        segment(kept_);
      });
    });
  }

  void stop_training() {
    if (lost_at_ == duration{}) lost_at_ = agenda_.now();
    handed_at_ = {};
    if (!training_) return;
    base_ = step_now();
    training_ = false;
    ++generation_;
    controller_->on_event({job_, {base_, step_event{.loss = 1.0}}}, now(), controller_out_);
  }

  // --- orders

  std::vector<member_order>& member_out(const std::string& name) { return member_out_[name]; }

  void run_orders() {
    while (!controller_out_.empty() || !member_out_.empty()) {
      for (auto& x : std::exchange(controller_out_, {})) std::visit([this](auto& o) { order(o); }, x);
      for (auto& [name, list] : std::exchange(member_out_, {}))
        for (auto& x : list) std::visit([this, who = name](auto& o) { order_of(who, o); }, x);
    }
  }

  void say(const std::string& from, const message& m) { controller_->on(from, m, now(), controller_out_); }
  template <class F>
  void to_member(const std::string& name, double after, F what) {
    agenda_.in(some(after), [this, name, life = nodes_[name].life, what] {
      auto& n = nodes_[name];
      if (n.self && n.life == life) what(*n.self);
    });
  }

  void order(to_peer& x) {
    if (!nodes_.count(x.peer)) return;
    if (const auto* s = std::get_if<swap>(&x.what)) swap_step_ = s->step;
    to_member(x.peer, s_.latency_s, [this, name = x.peer, m = std::make_shared<message>(std::move(x.what))](member& me) {
      me.on(*m, now(), member_out(name));
    });
  }
  void order(check_text& x) {
    job_ = x.job;
    std::vector<std::string> all;
    for (const auto& n : spec_.nodes) all.push_back(n.name);
    next_plan_ = all;
    agenda_.in(some(s_.plan_s), [this, id = x.job, all] { controller_->on_checked(id, facts(all), now(), controller_out_); });
  }
  checked facts(std::vector<std::string> nodes) const {
    checked c;
    c.name = "goodput";
    c.plan_hash = "same";
    c.nodes = std::move(nodes);
    c.max_failures = std::nullopt;
    return c;
  }
  void order(check_move& x) {
    plan_found f;
    f.job = x.job;
    f.plan_generation = x.plan_generation;
    f.changes = x.so_far;
    f.mode = {"bsp"};
    if (const auto* added = x.wish.as<add_node_command>()) f.changes.without.erase(added->node);
    if (const auto* lost = x.wish.as<lose_command>()) f.changes.without.insert(lost->nodes.begin(), lost->nodes.end());
    std::vector<std::string> nodes;
    for (const auto& n : spec_.nodes)
      if (!f.changes.without.contains(n.name)) nodes.push_back(n.name);
    f.plan = facts(std::move(nodes));
    const bool back = x.back.has_value();
    agenda_.in(some(s_.plan_s) + (back && s_.live <= 0 ? some(s_.load_s) : duration{}), [this, f, back]() mutable {
      if (back) f.from = s_.live > 0 ? base_ : kept_;
      next_plan_ = f.plan.nodes;
      controller_->on_plan_found(f, now(), controller_out_);
    });
    tick();
  }
  void order(begin_job&) {
    plan_.clear();
    for (const auto& name : next_plan_) plan_[name] = true;
    begin_training(swap_step_);
    swap_step_ = 0;
  }
  void order(tell_job& x) {
    if (!x.what.is<handover_command>()) return;
    const double into = std::fmod(seconds(agenda_.now() - began_), s_.step_s);
    agenda_.in(in_ns(s_.step_s - into), [this, g = generation_] {
      if (g != generation_ || !training_) return;
      base_ = step_now();
      training_ = false;
      ++generation_;
      handed_at_ = agenda_.now();
      controller_->on_handover(job_, base_, now(), controller_out_);
      tick();
    });
  }
  void order(followed_event& x) {
    if (!x.what.event.is<error_event>() && !x.what.event.is<done_event>()) return;
    over_ = true;
    error_ = "at " + std::to_string(seconds(agenda_.now())) + " s: " + message_of(x.what.event);
  }
  template <class O>
  void order(O&) {}

  void order_of(const std::string& who, to_peer& x) {
    agenda_.in(some(s_.latency_s), [this, who, life = nodes_[who].life, m = std::make_shared<message>(std::move(x.what))] {
      if (nodes_[who].life == life) say(who, *m);
    });
  }
  void order_of(const std::string& who, connect_data& x) {
    agenda_.in(some(s_.latency_s), [this, who, peer = x.peer] {
      auto &a = nodes_[who], &b = nodes_[peer];
      if (!a.self) return;
      if (!b.self) return a.self->on_data_down(peer, "no answer", member_out(who));
      if (!a.up.emplace(peer, true).second) return;
      b.up.emplace(who, true);
      a.self->on_data_up(peer, b.life, member_out(who));
      b.self->on_data_up(who, a.life, member_out(peer));
    });
  }
  void order_of(const std::string& who, make_roles& x) {
    to_member(who, s_.roles_s, [this, who, job = x.what.job](member& m) { m.on_made(job, {}, member_out(who)); });
  }
  void order_of(const std::string& who, end_roles& x) {
    to_member(who, s_.latency_s, [this, who, job = x.job](member& m) { m.on_gone(job, 0, now(), member_out(who)); });
  }
  void order_of(const std::string& who, make_plan_order& x) {
    to_member(who, s_.plan_s, [this, who, job = x.what.what.job, plan_generation = x.what.plan_generation](member& m) {
      m.on_revised(job, plan_generation, {}, member_out(who));
    });
  }
  void order_of(const std::string& who, swap_roles& x) {
    to_member(who, s_.roles_s, [this, who, job = x.what.job, plan_generation = x.what.plan_generation](member& m) {
      m.on_swapped(job, plan_generation, {}, member_out(who));
    });
  }
  template <class O>
  void order_of(const std::string&, O&) {}

  const setup s_;
  sim::random random_;
  sim::world agenda_{sim::world_config{}};
  cluster_spec spec_;
  std::unique_ptr<cluster_controller> controller_;
  std::map<std::string, node> nodes_;
  std::map<std::string, bool> plan_, nodes_gone_;
  std::vector<std::string> next_plan_;
  orders controller_out_;
  std::map<std::string, member_orders> member_out_;
  bool over_ = false, training_ = false, ticking_ = false;
  std::string error_;
  std::uint32_t job_ = 0;
  std::uint64_t base_ = 0, segment_end_ = 0, kept_ = 0, generation_ = 0, swap_step_ = 0, messages_ = 0;
  std::uint64_t node_failures_ = 0, recovered_ = 0, moved_ = 0, again_ = 0, idle_ticks_ = 0;
  double stood_ = 0, stood_to_move_ = 0;
  time_point first_grant_{}, began_{}, lost_at_{}, handed_at_{};
};

std::map<std::string, double*> keys_of(setup& s) {
  return {{"nodes", &s.nodes},
          {"mtbf_h", &s.mtbf_h},
          {"repair_s", &s.repair_s},
          {"step_s", &s.step_s},
          {"checkpoint_s", &s.checkpoint_s},
          {"every_s", &s.every_s},
          {"detect_s", &s.detect_s},
          {"plan_s", &s.plan_s},
          {"roles_s", &s.roles_s},
          {"load_s", &s.load_s},
          {"latency_s", &s.latency_s},
          {"failures", &s.failures},
          {"shape", &s.shape},
          {"live", &s.live},
          {"seed", &s.seed}};
}

}  // namespace
}  // namespace troupe::control

int main(int argc, char** argv) {
  troupe::control::setup s;
  auto keys = troupe::control::keys_of(s);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto is = word.find('=');
    const auto at = keys.find(word.substr(0, is));
    if (is == std::string::npos || at == keys.end()) {
      std::fprintf(stderr, "bench_goodput KEY=VALUE...; keys:");
      for (const auto& [name, value] : keys) std::fprintf(stderr, " %s=%g", name.c_str(), *value);
      std::fprintf(stderr, "\n");
      return 2;
    }
    *at->second = std::atof(word.c_str() + is + 1);
  }
  return troupe::control::cluster(s).run();
}
