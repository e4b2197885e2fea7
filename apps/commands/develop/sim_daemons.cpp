#include "apps/commands/develop/sim.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "actors/supervision/stop_signals.hpp"
#include "apps/cli/screen.hpp"
#include "apps/commands/develop/sim_report.hpp"
#include "apps/commands/job.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/faults_toml.hpp"
#include "runtime/node/simulation/sim_run.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

constexpr duration longest_schedule = std::chrono::hours(24 * 365);

// "1 fault", "3 faults".
std::string counted(std::uint64_t n, const std::string& one, const std::string& many = {}) {
  return with_commas(n) + " " + (n == 1 ? one : many.empty() ? one + "s" : many);
}
std::string ms_text(duration d) { return fixed(1000 * seconds_of(d), 1) + " ms"; }
std::string since(time_point t) { return fixed(seconds_of(t), 3) + " s"; }

// The phases of a recovery, each with its length.
std::vector<std::pair<std::string, duration>> phases_of(const sim::recovery& r) {
  std::vector<std::pair<std::string, duration>> all;
  const auto add = [&](const char* name, double ms) { all.emplace_back(name, duration(std::llround(1e6 * ms))); };
  if (r.failed) all.emplace_back("noticed", r.noticed - *r.failed);
  add("planned", r.what.planned_ms);
  add("ready", r.what.ready_ms);
  add(r.what.live ? "handed over" : "loaded", r.what.state_ms);
  add("replaced", r.what.replaced_ms);
  if (r.stepped) all.emplace_back("first step", *r.stepped - r.begun);
  return all;
}

class daemon_simulation {
 public:
  daemon_simulation(const sim_setup& s, const output& out) : s_(s), out_(out) {}

  int run() {
    out_.text(job_summary(*s_.job));
    const stop_signals watch([this](int) { interrupted_ = true; });
    const auto begin = clock::now();
    sim::run_options o;
    o.faults = draw_schedule(s_.machine_faults, static_cast<std::uint32_t>(s_.daemons->cluster.nodes.size()), s_.world.seed,
                             longest_schedule);
    o.stops = [this] { return interrupted_.load() || stdout_unread(); };
    o.on_begin = [this](time_point now) { begun(now); };
    o.on_event = [this](const sim::heard_event& e) { heard(e); };
    o.on_fault = [this](const sim::happening& h, time_point now) { fault(h, now); };
    o.on_recovery = [this](const sim::recovery& r) { recovered(r); };
    const auto r = run_cluster(*s_.daemons, o);
    wall_ = std::chrono::duration<double>(clock::now() - begin).count();
    if (interrupted_) {
      out_.remark("interrupted at " + since(r.over - r.begun) + " (virtual)");
      return watch.exit_code(exit_failed);
    }
    switch (r.how) {
      case sim::run_result::end::cut_short: return exit_done;
      case sim::run_result::end::done: tell_done(r); return exit_done;
      case sim::run_result::end::refused: return out_.wrong(s_.job->spec.name, r.text);
      case sim::run_result::end::failed:
      case sim::run_result::end::hung: break;
    }
    return out_.failed(s_.job->spec.name, "at " + since(r.over - r.begun) + " (virtual): " + r.text);
  }

 private:
  void tell(const json& o, const std::string& text) const {
    if (out_.json())
      out_.object(o);
    else
      out_.text(text);
  }
  double virtual_seconds(time_point t) const { return seconds_of(t - begun_); }

  void begun(time_point now) {
    begun_ = now;
    out_.text(counted(s_.daemons->cluster.nodes.size(), "daemon") + " joined, and the job began, in " + since(now) +
              " (virtual)\n");
  }

  void heard(const sim::heard_event& e) {
    if (sim::is_last(e) || e.kind == "recovered") return;
    json o{{"event", e.kind}, {"step", e.step}};
    for (const auto& [k, v] : e.values) o[k] = v;
    for (const auto& [k, v] : e.texts) o[k] = v;
    if (!e.text.empty()) o["message"] = e.text;
    o["virtual_seconds"] = virtual_seconds(e.when);
    if (out_.json()) return out_.object(o);
    const bool step = e.kind == "step";
    if (step && e.step % 10 != 0 && e.step != 1) return;
    std::string text = (step ? "step " : e.kind + " at step ") + with_commas(e.step) + ", " + since(e.when - begun_) + " (virtual)";
    for (const auto& [k, v] : e.values)
      if (!step || (k == "loss" && s_.maths)) text += ", " + k + " " + fixed(v, 4);
    if (!e.text.empty()) text += ": " + e.text;
    out_.text(text + "\n");
  }

  void fault(const sim::happening& h, time_point now) {
    const auto text = text_of(h, s_.world.node_names);
    tell({{"event", "fault"}, {"kind", sim::text_of(h.kind)}, {"text", text}, {"virtual_seconds", virtual_seconds(now)}},
         "fault: " + text + "\n");
  }

  void recovered(const sim::recovery& r) {
    json o{{"event", "recovered"},
           {"step", r.step},
           {"steps_again", r.what.steps_again},
           {"live", r.what.live ? 1 : 0},
           {"plans", r.what.plans}};
    std::string text = "recovered, " + since(*r.stepped - begun_) + " (virtual): " + r.what.message + " from step " +
                       with_commas(r.step) + ", " + counted(r.what.steps_again, "step") + " again;";
    duration sum{};
    for (const auto& [name, took] : phases_of(r)) {
      o["phases"][name] = seconds_of(took);
      text += " " + name + " " + ms_text(took) + ",";
      sum += took;
    }
    o["seconds"] = seconds_of(sum);
    o["message"] = r.what.message;
    o["virtual_seconds"] = virtual_seconds(*r.stepped);
    tell(o, text + " in all " + ms_text(sum) + "\n");
  }

  void tell_done(const sim::run_result& r) const {
    const auto took = r.over - r.begun;
    json o{{"event", "done"}, {"steps", r.steps}};
    o["nodes"] = s_.daemons->cluster.nodes.size();
    o["recoveries"] = r.recoveries.size();
    o["steps_again"] = r.steps_again();
    o["goodput"] = r.goodput();
    o["step_seconds_mean"] = r.mean_step();
    o["faults"] = json_of(r.counts);
    o["events"] = r.events;
    o["seconds"] = wall_;
    if (!r.weights_sha256.empty()) o["weights_sha256"] = r.weights_sha256;
    o["virtual_seconds"] = seconds_of(took);
    const auto counts = text_of(r.counts);
    tell(o, "\n" + (counts.empty() ? counts : labelled(screen{}, "faults", counts)) + with_commas(r.steps) + " steps in " +
                since(took) + " (virtual); a step takes " + fixed(1000 * r.mean_step(), 3) + " ms (mean); " +
                counted(r.recoveries.size(), "recovery", "recoveries") + ", " + counted(r.steps_again(), "step") +
                " computed again; goodput " + fixed(100 * r.goodput(), 1) + " %\n" + with_commas(r.events) + " events in " +
                fixed(wall_, 2) + " s" + (r.weights_sha256.empty() ? std::string() : "; weights_sha256 " + r.weights_sha256) +
                "\n");
  }

  const sim_setup& s_;
  const output& out_;
  time_point begun_{};
  double wall_ = 0;
  std::atomic<bool> interrupted_{false};
};

}  // namespace

int run_on_sim_cluster(const sim_setup& s, const output& out) { return daemon_simulation(s, out).run(); }

std::optional<std::pair<std::uint64_t, std::uint64_t>> seeds_in(const std::string& text) {
  std::pair<std::uint64_t, std::uint64_t> seeds;
  const auto* at = text.data();
  const auto* end = at + text.size();
  const auto first = std::from_chars(at, end, seeds.first);
  if (first.ec != std::errc()) return std::nullopt;
  seeds.second = seeds.first;
  if (first.ptr == end) return seeds;
  if (end - first.ptr < 3 || std::string_view(first.ptr, 2) != "..") return std::nullopt;
  const auto second = std::from_chars(first.ptr + 2, end, seeds.second);
  if (second.ec != std::errc() || second.ptr != end || seeds.second < seeds.first) return std::nullopt;
  return seeds;
}

int run_seeds_on_sim_cluster(const sim_setup& s, std::pair<std::uint64_t, std::uint64_t> seeds, const output& out) {
  out.text(job_summary(*s.job));
  std::atomic<bool> interrupted{false};
  const stop_signals watch([&](int) { interrupted = true; });
  const auto nodes = static_cast<std::uint32_t>(s.daemons->cluster.nodes.size());
  const auto begin = clock::now();
  sim::seeds_request q;
  q.first = seeds.first, q.last = seeds.second;
  q.threads = std::max(1u, std::thread::hardware_concurrency());
  q.same_bits = s.same_bits && s.maths;
  q.faults = [&](std::uint64_t seed, const sim::run_result& calm) {
    if (s.machine_faults.list.empty()) return random_storm(seed, storm_for(calm, nodes));
    return draw_schedule(s.machine_faults, nodes, seed, longest_schedule);
  };
  q.stops = [&] { return interrupted.load(); };
  const auto r = run_seeds(*s.daemons, q);
  const auto wall = std::chrono::duration<double>(clock::now() - begin).count();
  if (interrupted) return watch.exit_code(exit_failed);
  json o{{"event", "seeds"}, {"runs", r.runs}, {"done", r.done}, {"failed", r.failed}, {"recoveries", r.recoveries}};
  o["steps_again"] = r.steps_again;
  o["seconds"] = wall;
  if (r.wrong.empty()) {
    const auto text = counted(r.runs, "run") + ": " + with_commas(r.done) + " done, " + with_commas(r.failed) +
                      " ended by an error; " + with_commas(r.recoveries) + " recoveries; " + fixed(wall, 1) + " s\n";
    if (out.json())
      out.object(o);
    else
      out.text(text);
    return exit_done;
  }
  const auto file = faults_toml(r.faults, s.world.faults);
  o["wrong_seed"] = r.wrong_seed;
  o["wrong"] = r.wrong;
  o["faults"] = file;
  if (out.json())
    out.object(o);
  else
    out.text("seed " + std::to_string(r.wrong_seed) + ": " + r.wrong + "\n" + counted(r.faults_before, "fault") + ", shrunk to " +
             std::to_string(r.faults.size()) + " in " + counted(r.shrinking_runs, "run") + ". This file repeats it with --seed " +
             std::to_string(r.wrong_seed) + ":\n\n" + file);
  return out.failed(s.job->spec.name, "seed " + std::to_string(r.wrong_seed) + ": " + r.wrong);
}

}  // namespace troupe
