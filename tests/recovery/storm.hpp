// Random faults in a fleet, drawn from a seed: daemons killed and machines lost, once or
// repeatedly, restarted or not; connections cut in one or both directions, on either plane; daemons
// stopped (SIGSTOP) and continued; daemons drained; the coordinator's daemon killed; commands at
// random times. After some time the storm ends: daemons that are to come back start, connections
// are restored, and a paused job resumes.
#pragma once

#include "tests/recovery/laws.hpp"

namespace troupe::recovery {

struct storm {
  std::uint64_t seed = 1;
  std::string mode;
  fleet_config config;
  bool stops = false;      // the storm stops the job or drains its coordinator
  bool same_bits = false;  // a job that is not stopped ends with the weights of an undisturbed run
  bool converges = false;  // the weights come close to the minimiser of least squares
  std::string text;        // the planned faults, for messages
  std::vector<std::function<void(fleet&)>> plans;
};

inline std::chrono::milliseconds ms(std::uint64_t n) { return std::chrono::milliseconds(n); }

class storm_maker {
 public:
  explicit storm_maker(std::uint64_t seed) : random_(seed * 6364136223846793005ull + 5) { s_.seed = seed; }

  storm make() {
    const auto& m = modes()[s_.seed % modes().size()];
    s_.mode = m.name;
    s_.same_bits = m.lockstep;
    auto& c = s_.config;
    c.seed = s_.seed;
    c.nodes = 2 + static_cast<std::uint32_t>(below(4));
    c.coordinator_works = below(2) == 0;
    c.logs = std::getenv("TROUPE_TRACE") != nullptr;
    draw_times(c);
    small_text t;
    const auto able = c.nodes - (c.coordinator_works ? 0 : 1);
    t.workers = std::max<std::uint32_t>(1, able - static_cast<std::uint32_t>(below(able)));
    if (!m.topology.empty() || m.name == "gossip" || m.name == "tree") t.workers = able;
    t.shards = 1 + static_cast<std::uint32_t>(below(able));
    t.packets = t.workers + static_cast<std::uint32_t>(below(3));
    t.steps = 10 + below(30);
    t.layers = 1 + static_cast<std::uint32_t>(below(2));
    t.checkpoint = below(5) == 0 ? "" : below(4) == 0 ? "\"1s\"" : std::to_string(2 + below(8));
    if (m.name != "eamsgd") t.rule = std::vector<std::string>{"sgd", "momentum", "adam"}[below(3)];
    if (m.name == "eamsgd") t.rule = "nesterov";
    if (below(3) == 0) t.eval_every = 4 + below(8);
    if (m.name == "tree") t.packets = std::max(t.packets, 2u), t.workers = std::max(t.workers, 2u);
    if (!m.lockstep && below(3) == 0) {
      s_.converges = true;
      t.sampler = "whole", t.falling = true, t.layers = 1, t.eval_every = 0;
      t.steps = 500, t.checkpoint = "50";
      // Groups that add their updates to one centre move it once per group, so their rate is
      // divided.
      if (m.name != "eamsgd") t.rule = "sgd", t.lr = m.topology.empty() ? 0.2 : 0.4 / t.workers;
      c.compute.task = {std::chrono::microseconds(20), std::chrono::microseconds(500)};
    }
    c.job = text_of(m, t);
    // The faults are drawn after an undisturbed run has shown the job's length: draw().
    return std::move(s_);
  }

  // Draws the faults, from the duration and the number of points of the undisturbed run.
  void draw(storm& s, duration took, std::uint64_t points) {
    s_ = std::move(s);
    took_ = took;
    points_ = std::max<std::uint64_t>(points, 1);
    for (auto n = 1 + below(4); n > 0; --n) one();
    const bool all_back = below(3) > 0;
    const auto over = ms(15000 + below(20000));
    s_.plans.push_back([over, all_back, seed = s_.seed](fleet& f) { calm_down(f, over, all_back, seed); });
    s = std::move(s_);
  }

 protected:
  std::uint64_t below(std::uint64_t n) { return random_.below(n); }
  void note(const std::string& what) { s_.text += "\n    " + what; }

  void draw_times(fleet_config& c) {
    const auto us = [](std::uint64_t n) { return std::chrono::microseconds(n); };
    const std::uint64_t scales[] = {200, 2000, 20000, 100000};
    const auto wire = scales[below(3)], task = scales[below(4)];
    c.data = {us(20), us(20 + wire)};
    c.times.control = {us(50), us(50 + scales[below(4)])};
    c.compute.task = {us(20), us(20 + task)};
    c.times.plan = {us(500), us(1000 + 10 * scales[below(3)])};
    c.times.roles = {us(500), us(1000 + 10 * scales[below(3)])};
    c.times.store = {us(500), us(1000 + 20 * scales[below(4)])};
  }

  std::string any_node() { return "n" + std::to_string(1 + below(s_.config.nodes)); }
  std::string other_node() { return "n" + std::to_string(2 + below(s_.config.nodes - 1)); }

  // Schedules a fault at a point of the run, or at a time during or shortly after it.
  void when(const std::string& what, std::function<void(fleet&, const std::string& who)> act) {
    if (near_ > 0 || below(2) == 0) {
      const auto at = near_ > 0 ? near_ : 1 + below(points_ + points_ / 4);
      note("point " + std::to_string(at) + ": " + what);
      s_.plans.push_back([=](fleet& f) { f.after_point(at, [&f, act](const std::string& who) { act(f, who); }); });
      return;
    }
    const auto span = static_cast<std::uint64_t>(took_.count()) * 3 / 2 + 2'000'000'000;
    const auto at = time_point(1'500'000'000 + static_cast<std::int64_t>(below(span)));
    note(std::to_string(seconds_of(at)) + " s: " + what);
    s_.plans.push_back([=](fleet& f) { f.when().at(at, [&f, act] { act(f, {}); }); });
  }

  void one() {
    switch (below(10)) {
      case 0:
      case 1:
      case 2: return death();
      case 3: return below(2) == 0 ? coordinator_death() : stop();
      case 4:
      case 5: return cuts();
      case 6: return leave();
      default: return word();
    }
  }

  void death() {
    const bool power = below(3) == 0, back = below(3) > 0, whoever = below(3) == 0;
    const auto node = other_node();
    const auto later = ms(below(2) ? below(2000) : below(15000));
    when((power ? "power off " : "kill ") + (whoever ? "the node that handled it" : node) +
             (back ? ", back after " + std::to_string(later.count()) + " ms" : ""),
         [=](fleet& f, const std::string& who) {
           const auto it = whoever && !who.empty() ? who : node;
           if (power)
             f.lose(it);
           else
             f.kill(it);
           if (back || it == f.coordinator()) f.when().in(later, [&f, it] { f.start(it); });
         });
  }

  void coordinator_death() {
    const auto later = ms(below(2) ? below(1000) : below(12000));
    when("kill the coordinator, back after " + std::to_string(later.count()) + " ms", [=](fleet& f, const std::string&) {
      const auto it = f.coordinator();
      f.kill(it);
      f.when().in(later, [&f, it] { f.start(it); });
    });
  }

  void stop() {
    const auto node = below(3) == 0 ? other_node() : std::string("n1");
    const auto time = ms(below(3) == 0 ? 200 + below(5000) : 5000 + below(below(4) == 0 ? 40000 : 8000));
    when("stop " + node + " for " + std::to_string(time.count()) + " ms",
         [=](fleet& f, const std::string&) { f.stop_for(node, time); });
  }

  void cuts() {
    const auto a = any_node();
    const bool one = below(2) == 0;  // one peer only
    auto b = any_node();
    if (b == a) b = a == "n1" ? "n2" : "n1";
    const auto planes = below(3);  // control, data, both
    const auto ways = below(3);    // from, to, both
    const auto how_long = ms(below(2) ? 100 + below(4000) : 4000 + below(12000));
    when("cut " + a + " and " + (one ? b : "all others") +
             (planes == 0   ? ", control"
              : planes == 1 ? ", data"
                            : ", both planes") +
             (ways == 0   ? ", out"
              : ways == 1 ? ", in"
                          : ", both ways") +
             " for " + std::to_string(how_long.count()) + " ms",
         [=](fleet& f, const std::string&) {
           const auto set = [=](fleet& g, bool yes) {
             for (const auto& n : g.names()) {
               if (n == a || (one && n != b)) continue;
               for (const auto p : {plane::control, plane::data}) {
                 if ((p == plane::control && planes == 1) || (p == plane::data && planes == 0)) continue;
                 if (ways != 1) g.cut(p, a, n, yes);
                 if (ways != 0) g.cut(p, n, a, yes);
               }
             }
           };
           set(f, true);
           f.when().in(how_long, [&f, set] { set(f, false); });
         });
  }

  void leave() {
    const bool whole = below(6) == 0;
    const auto node = whole ? std::string("n1") : other_node();
    if (whole) s_.stops = true;
    const auto later = ms(2000 + below(10000));
    when("tell " + node + " to go", [=](fleet& f, const std::string&) {
      f.drain(node);
      f.when().in(later, [&f, node] { f.start(node); });
    });
  }

  void word() {
    command c;
    switch (below(8)) {
      case 0: c = {pause_command{}}; break;
      case 1: c = {resume_command{}}; break;
      case 2:
      case 3: c = {checkpoint_command{}}; break;
      case 4: c = {drain_command{any_node()}}; break;
      case 5: c = {add_node_command{any_node()}}; break;
      case 6:
        if (below(3) == 0) {
          c = {stop_command{}};
          s_.stops = true;
        } else {
          c = {mode_command{{"ssp", {{"staleness", "1"}}}}};
          s_.same_bits = false;
        }
        break;
      default: c = {move_command{"loss0", any_node()}}; break;
    }
    when(std::string("say ") + name_of(c), [c](fleet& f, const std::string&) { f.tell(c); });
  }

  static void mend(fleet& f, bool all_back) {
    for (const auto& a : f.names())
      for (const auto& b : f.names())
        if (a != b)
          for (const auto p : {plane::control, plane::data}) f.cut(p, a, b, false);
    for (const auto& n : f.names())
      if (n == f.coordinator() || all_back) f.start(n);
  }

  static void calm_down(fleet& f, duration at, bool all_back, std::uint64_t seed) {
    f.when().in(at, [&f, all_back, seed] {
      mend(f, all_back);
      if (!f.ended()) f.tell({resume_command{}});
      if (!f.ended()) calm_down(f, std::chrono::seconds(20), all_back, seed);
    });
  }

  sim::random random_;
  storm s_;
  duration took_{};
  std::uint64_t points_ = 1, near_ = 0;  // near_: faults happen at this point; 0: anywhere
};

// The largest difference of two lists of weights.
inline double apart(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.empty()) return 1e300;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// The largest weight is about 4. With several server groups the weights oscillate around the
// minimiser, with an amplitude that the rate determines.
constexpr double converged = 0.05;

// Ends that are correct: no node is left for a role, or the job failed too often.
inline bool named_end(const std::string& text) {
  return text.find("is the last with the role") != std::string::npos || text.find("given up") != std::string::npos;
}

struct storm_result {
  outcome calm, got;
  double off = -1;  // distance from the minimiser; -1 if it is not checked
  std::string text, wrong, mode;
};

inline storm_result run_storm(std::uint64_t seed, bool no_fence = false) {
  storm_maker maker(seed);
  auto s = maker.make();
  s.config.no_fence = no_fence;
  storm_result r;
  r.mode = s.mode;
  r.calm = run_fleet(s.config);
  if (!r.calm.wrong.empty() || r.calm.kind != "done") {
    r.wrong = "undisturbed: " + r.calm.kind + " " + r.calm.text + " " + r.calm.wrong;
    return r;
  }
  maker.draw(s, r.calm.took, r.calm.points);
  r.text = s.mode + ", " + std::to_string(s.config.nodes) + " nodes:" + s.text;
  r.got = run_fleet(s.config, [&](fleet& f) {
    for (const auto& p : s.plans) p(f);
  });
  r.wrong = r.got.wrong;
  const bool whole = r.got.kind == "done" && r.got.text != "stopped";
  if (r.wrong.empty() && r.got.kind == "done" && !whole && !s.stops) r.wrong = "stopped without a stop command";
  if (r.wrong.empty() && r.got.kind == "preempted" && s.text.find("to go") == std::string::npos)
    r.wrong = "preempted without a drained node";
  if (r.wrong.empty() && whole && s.same_bits && r.got.sha != r.calm.sha)
    r.wrong = "the weights differ from those of the undisturbed run";
  if (r.wrong.empty() && whole && s.converges) {
    r.off = apart(r.got.weights, r.calm.weights);
    if (!(r.off < converged)) r.wrong = "the weights are " + std::to_string(r.off) + " away from the minimiser";
  }
  if (r.wrong.empty() && r.got.kind == "error" && !named_end(r.got.text)) r.wrong = "an unexpected error: " + r.got.text;
  if (!r.wrong.empty()) r.wrong = "seed " + std::to_string(seed) + ", " + r.text + "\n" + r.wrong;
  return r;
}

}  // namespace troupe::recovery
