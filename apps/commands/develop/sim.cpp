// `troupe sim JOB --nodes N`: runs the job's roles, the same values that daemons host, in a virtual
// cluster (runtime/sim/world.hpp).
#include "apps/commands/develop/sim.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <malloc.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "actors/supervision/stop_signals.hpp"
#include "apps/cli/command.hpp"
#include "apps/cli/screen.hpp"
#include "apps/commands/develop/sim_console.hpp"
#include "apps/commands/develop/sim_report.hpp"
#include "apps/commands/job.hpp"
#include "ops/device.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/simulation/sim_setup.hpp"
#include "runtime/node/trace_jobs.hpp"
#include "runtime/plan/plan.hpp"
#include "runtime/record/sha256.hpp"
#include "runtime/trace/timeline.hpp"
#include "runtime/trace/trace_writer.hpp"

namespace troupe {
namespace {

// Writes the trace of a simulated run (runtime/trace/timeline.hpp). Times are virtual.
class sim_trace {
 public:
  static expected<std::unique_ptr<sim_trace>> open(const std::string& file, const job_plan& plan, const trace_job& job);

  void task(role_id who, const char* kind, const std::optional<header>& packet, time_point begin, time_point end);
  // A message between two nodes.
  void crossed(const envelope& e, time_point sent, time_point arrived);
  // A message that a role is about to receive, and its state before.
  void delivered(const envelope& e, const role_status& before, time_point now);
  // Completes the file.
  expected<void> finish() { return out_.finish(); }

 private:
  sim_trace(track_event_file&& out, const job_plan& plan) : out_(std::move(out)), plan_(plan) {}
  void add(activity a, time_point at);
  bool known(role_id r) const { return index_of(r) < plan_.roles.size(); }

  track_event_file out_;
  timeline lines_{out_};
  const job_plan& plan_;
  std::uint64_t messages_ = 0;
};

expected<std::unique_ptr<sim_trace>> sim_trace::open(const std::string& file, const job_plan& plan, const trace_job& job) {
  auto out = track_event_file::create(file);
  if (!out) return unexpected(std::move(out).error());
  describe(*out, job);
  return std::unique_ptr<sim_trace>(new sim_trace(*std::move(out), plan));
}

void sim_trace::add(activity a, time_point at) {
  a.at = at;
  const auto node_of = [&](role_id r) { return known(r) ? std::string_view(plan_.nodes[plan_[r].node].name) : std::string_view(); };
  const auto name_of = [&](role_id r) { return known(r) ? std::string_view(plan_[r].name) : std::string_view(); };
  lines_.add(a, {node_of(a.role), name_of(a.role), node_of(a.peer), name_of(a.peer)});
}

void sim_trace::task(role_id who, const char* kind, const std::optional<header>& packet, time_point begin, time_point end) {
  add(activity_of_task(who, kind, packet, end - begin), begin);
}

void sim_trace::crossed(const envelope& e, time_point sent, time_point arrived) {
  if (!known(e.h.src)) return;
  for (const auto end : {activity::kind_of::sent, activity::kind_of::received}) {
    auto a = activity_of_message(end, e);
    a.value = messages_;
    add(a, end == activity::kind_of::sent ? sent : arrived);
  }
  ++messages_;
}

void sim_trace::delivered(const envelope& e, const role_status& before, time_point now) {
  add(activity_of_status(e.h.dst, before), now);
  const bool here = known(e.h.src) && plan_[e.h.src].node == plan_[e.h.dst].node;
  if (here && !std::holds_alternative<finished>(e.body)) add(activity_of_message(activity::kind_of::received, e), now);
}

using json = nlohmann::ordered_json;
using std::chrono::steady_clock;

double quantile(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  const auto at = static_cast<std::size_t>(std::lround(q * static_cast<double>(v.size() - 1)));
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(at), v.end());
  return v[at];
}

class simulation {
 public:
  simulation(sim_setup s, const output& out) : s_(std::move(s)), out_(out), report_(s_), world_(s_.world) {
    world_.on_event = [this](const event_effect& e) { handle_event(e); };
    world_.on_store = [this](const store_effect& e) {
      if (e.what == store_effect::kind_of::weights) weights_ = e.named;
    };
    world_.on_stored = [this](std::uint64_t step, time_point begun) { stored(step, begun); };
    world_.on_deliver = [this](const envelope& e, time_point now) {
      report_.delivered(e);
      if (trace_) trace_->delivered(e, world_.find(e.h.dst)->status(), now);
    };
    world_.on_span = [this](const sim::world::span& t) {
      report_.span(t.who, t.kind, t.begin, t.end);
      if (trace_) trace_->task(t.who, t.kind, t.packet, t.begin, t.end);
    };
  }

  int run(const std::string& trace_file) {
    if (!trace_file.empty()) {
      if (const auto fine = check_writable_file(trace_file); !fine) return out_.wrong(trace_file, fine.error().text);
      auto made = sim_trace::open(trace_file, s_.job->plan, trace_job_of(*s_.job, s_.world.compute.cores));
      if (!made) return out_.wrong(trace_file, made.error().text);
      trace_ = *std::move(made);
      world_.on_wire = [this](const envelope& e, time_point sent, time_point arrived) { trace_->crossed(e, sent, arrived); };
    }
    introduce();
    begin_sim(s_, world_);
    const auto begin = steady_clock::now();
    const stop_signals watch([this](int) { interrupted_ = true; });
    const auto unread = [only_prints = trace_ == nullptr] { return only_prints && stdout_unread(); };
    while (!over_ && !interrupted_ && !unread() && world_.step()) {
    }
    wall_ = std::chrono::duration<double>(steady_clock::now() - begin).count();
    if (trace_)
      if (const auto written = trace_->finish(); !written) return out_.failed(trace_file, written.error().text);
    if (interrupted_ && !over_) {
      out_.remark("interrupted at " + now_text());
      return watch.exit_code(exit_failed);
    }
    if (unread() && !over_) return exit_done;
    if (!error_.empty()) return out_.failed(s_.job->spec.name, error_);
    if (!over_)
      return out_.failed(s_.job->spec.name, "no events are left at " + now_text() + ", and the job is not done" + who_waits());
    tell_links();
    tell_staleness();
    tell_bottleneck();
    tell_done();
    return exit_done;
  }

 private:
  std::string now_text() const { return fixed(seconds_of(world_.now()), 6) + " s (virtual)"; }

  void introduce() {
    out_.text(job_summary(*s_.job));
    if (s_.asked_batch != s_.job->spec.data.batch)
      out_.remark("the batch was rounded up from " + std::to_string(s_.asked_batch) + " to " +
                  std::to_string(s_.job->spec.data.batch) + ", a multiple of " + std::to_string(s_.job->plan.packets) +
                  " packets\n");
  }

  void handle_event(const event_effect& e) {
    if (const auto* s = e.as<step_event>()) return step(e.step, *s);
    if (const auto* s = e.as<staleness_event>()) {
      for (const auto& entry : s->parameters)
        for (const auto& [clocks, times] : entry.reads)
          staleness_[entry.parameter][std::to_string(clocks)] = static_cast<double>(times);
      return;
    }
    if (const auto* bad = e.as<error_event>()) error_ = "at " + now_text() + ": " + bad->message;
    if (const auto* d = e.as<done_event>()) done_ = *d;
    over_ = over_ || ends_job(e);
    if (ends_job(e)) return;
    json o{{"event", name_of(e).name}, {"step", e.step}};
    std::string text = std::string(name_of(e).name) + " at step " + with_commas(e.step) + ", " + now_text();
    for (const auto& [name, value] : flatten(e).values) {
      o[name] = value;
      text += ", " + name + " " + fixed(value, 4);
    }
    o["virtual_seconds"] = seconds_of(world_.now());
    tell(o, text + "\n");
  }

  void stored(std::uint64_t step, time_point begun) {
    const auto took = seconds_of(world_.now() - begun);
    tell({{"event", "stored"}, {"step", step}, {"seconds", took}, {"virtual_seconds", seconds_of(world_.now())}},
         "checkpoint of step " + with_commas(step) + " stored after " + fixed(took, 3) + " s, " + now_text() + "\n");
  }

  void step(std::uint64_t n, const step_event& e) {
    const auto took = seconds_of(world_.now() - last_step_);
    last_step_ = world_.now();
    if (n > s_.job->first_step + 1) step_times_.push_back(took);  // the first step includes the wait for the weights
    json o{{"event", "step"}, {"step", n}};
    if (s_.maths) o["loss"] = e.loss;
    if (e.lr) o["lr"] = *e.lr;
    if (e.skipped > 0) o["skipped"] = e.skipped;
    o["step_seconds"] = took;
    o["examples_per_s"] = took > 0 ? static_cast<double>(s_.job->spec.data.batch) / took : 0.0;
    o["virtual_seconds"] = seconds_of(world_.now());
    if (out_.json()) return out_.object(o);
    if (n % 10 == 0 || n == 1)
      out_.text("step " + with_commas(n) + ", " + now_text() + ", " + fixed(1000 * took, 3) + " ms" +
                (s_.maths ? ", loss " + fixed(e.loss, 4) : std::string()) + "\n");
  }

  void tell(const json& o, const std::string& text) const {
    if (out_.json())
      out_.object(o);
    else
      out_.text(text);
  }

  // What roles wait for, for the first five roles that wait.
  std::string who_waits() {
    std::string s;
    int announced = 0;
    for (const auto& r : s_.job->plan.roles) {
      auto* role = world_.find(r.id);
      if (!role || announced >= 5) continue;
      const auto st = role->status();
      if (st.waits_for.empty()) continue;
      s += "; " + r.name + " waits for " + st.waits_for;
      ++announced;
    }
    return s;
  }

  // Prints the bytes of each link of the fabric, or of each pair of nodes if it has no links.
  void tell_links() {
    auto list = json::array();
    std::vector<std::pair<std::uint64_t, std::string>> entries;
    const auto add = [&](json o, std::uint64_t bytes, std::string text) {
      if (out_.json()) return list.push_back(std::move(o));
      entries.emplace_back(bytes, std::move(text));
    };
    const double all = std::max(seconds_of(world_.now()), 1e-12);
    const auto& links = world_.wires().links();
    for (std::uint32_t i = 0; i < links.size(); ++i) {
      const auto& l = links[i];
      if (l.messages == 0) continue;
      const auto name = world_.wires().name_of(i);
      const double busy = seconds_of(l.busy) / all;
      add({{"link", name}, {"messages", l.messages}, {"bytes", l.bytes}, {"busy", busy}}, l.bytes,
          left(name, 14) + flush_right(bytes_text(static_cast<double>(l.bytes)), 12) + flush_right(fixed(100 * busy, 1), 8) +
              " % busy\n");
    }
    if (links.empty())
      for (const auto& [pair, t] : world_.links()) {
        const auto& nodes = s_.job->plan.nodes;
        const auto name = nodes[pair.first].name + " to " + nodes[pair.second].name;
        add({{"link", name}, {"messages", t.messages}, {"bytes", t.bytes}}, t.bytes,
            left(name, 14) + flush_right(bytes_text(static_cast<double>(t.bytes)), 12) + "\n");
      }
    if (out_.json()) return out_.object({{"event", "links"}, {"links", list}});
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string s = entries.empty() ? "" : "\nbusiest links\n";
    for (std::size_t i = 0; i < std::min<std::size_t>(entries.size(), 8); ++i) s += entries[i].second;
    out_.text(s);
  }

  void tell_staleness() {
    if (staleness_.empty()) return;
    json o{{"event", "staleness"}, {"histogram", json::object()}};
    std::string text = "\nreads by staleness, in clocks\n";
    for (const auto& [name, counts] : staleness_) {
      auto& into = o["histogram"][name] = json::object();
      text += left(name, 24);
      for (const auto& [value, n] : counts) {
        into[value] = n;
        text += "  " + value + ": " + with_commas(static_cast<std::uint64_t>(n));
      }
      text += "\n";
    }
    tell(o, text);
  }

  void tell_bottleneck() {
    const auto b = report_.bottleneck(world_, static_cast<double>(done_.steps - std::min(done_.steps, s_.job->first_step)));
    if (out_.json())
      return out_.object({{"event", "bottleneck"},
                          {"kind", name_of(b.what)},
                          {"name", b.name},
                          {"busy", b.busy},
                          {"why", b.why},
                          {"advice", b.advice}});
    std::string text;
    switch (b.what) {
      case sim_bottleneck::kind::link: text = "the link \"" + b.name + "\" is"; break;
      case sim_bottleneck::kind::uplink: text = "the uplink \"" + b.name + "\" is"; break;
      case sim_bottleneck::kind::cores: text = "the cores of " + b.name + " are"; break;
      case sim_bottleneck::kind::role: text = b.name + " is"; break;
      case sim_bottleneck::kind::latency: text = "nothing is busy for more than"; break;
    }
    text += std::string(b.what == sim_bottleneck::kind::latency ? " " : " busy ") + fixed(100 * b.busy, 0) + " % of the time";
    if (b.what == sim_bottleneck::kind::latency && !b.name.empty()) text += " (" + b.name + ")";
    if (!b.why.empty()) text += ": " + b.why;
    if (!b.advice.empty()) text += "; " + b.advice;
    out_.drawn("\n" + report_.models_text() + report_.faults_text(world_) + labelled(screen::of_stdout(), "bottleneck", text));
  }

  void tell_done() {
    std::uint64_t bytes = 0, messages = 0;
    for (const auto& [pair, t] : world_.links()) bytes += t.bytes, messages += t.messages;
    const double steps = static_cast<double>(std::max<std::uint64_t>(done_.steps - s_.job->first_step, 1));
    json o{{"event", "done"}, {"steps", done_.steps}};
    o["epochs"] = done_.epochs;
    if (done_.test_accuracy) o["test_accuracy"] = *done_.test_accuracy;
    o["nodes"] = s_.job->plan.nodes.size();
    o["packets"] = s_.job->plan.packets;
    o["batch"] = s_.job->spec.data.batch;
    o["parameters"] = s_.job->graph.parameter_count;
    o["step_seconds_median"] = quantile(step_times_, 0.5);
    o["step_seconds_p99"] = quantile(step_times_, 0.99);
    o["messages_per_step"] = static_cast<double>(messages) / steps;
    o["bytes_per_step"] = static_cast<double>(bytes) / steps;
    o["faults"] = json_of(world_.counts());
    o["events"] = world_.events();
    o["deliveries"] = world_.deliveries();
    o["most_queued"] = world_.max_queued();
    o["seconds"] = wall_;
    if (s_.maths) o["weights_sha256"] = weights_sha256(weights_);
    const auto words = world_.trace_state();
    const auto trace = sha256_hex(words.data(), sizeof(words));
    o["trace_sha256"] = trace;
    o["virtual_seconds"] = seconds_of(world_.now());
    tell(o, "\n" + with_commas(done_.steps) + " steps in " + now_text() + "; a step takes " +
                fixed(1000 * quantile(step_times_, 0.5), 3) + " ms (median), " + fixed(1000 * quantile(step_times_, 0.99), 3) +
                " ms (p99), and moves " + bytes_text(static_cast<double>(bytes) / steps) + " between nodes\n" +
                with_commas(world_.events()) + " events in " + fixed(wall_, 2) + " s; trace_sha256 " + trace + "\n");
  }

  sim_setup s_;
  const output& out_;
  sim_report report_;  // of s_
  std::unique_ptr<sim_trace> trace_;
  sim::world world_;
  bool over_ = false;
  std::atomic<bool> interrupted_{false};  // by a signal
  std::string error_;
  done_event done_;
  std::vector<std::pair<std::string, tensor>> weights_;
  time_point last_step_{};
  std::vector<double> step_times_;
  std::map<std::string, std::map<std::string, double>> staleness_;  // parameter -> clocks -> reads
  double wall_ = 0;
};

struct sim_arguments : job_arguments {
  sim_request request;                   // without the job
  std::vector<std::string> replay = {};  // post-mortem folders of a failed job, instead of a job
  std::string trace;                     // file for a Perfetto trace
  std::string seeds;                     // "A..B"; empty: one run
  bool repl = false;
  std::optional<std::string> commands;  // of the REPL
};

// Puts the heap on huge pages: a simulation of many nodes visits millions of small objects in no
// order, and misses of the TLB take about a fifth of its time. Advice; without effect where the
// kernel or the C library has none.
void use_huge_pages() {
#ifdef __GLIBC__
  constexpr long page = 2 << 20;
  const auto memory = ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE);
  const auto room = std::min(memory / 2, 2L * INT_MAX / page * page);
  if (room < 64 * page) return;
  ::mallopt(M_MMAP_MAX, 0);         // large blocks, too, come from the heap
  ::mallopt(M_TRIM_THRESHOLD, -1);  // it is never given back
  auto* const begin = static_cast<char*>(::sbrk(0));
  // The heap grows, and none of it is touched. Volatile: a compiler may leave out a block that
  // nobody uses.
  void* volatile large = std::malloc(static_cast<std::size_t>(room));
  auto* const end = static_cast<char*>(::sbrk(0));
  std::free(large);
  const auto skipped = page - reinterpret_cast<std::intptr_t>(begin) % page;
  if (end - begin > 2 * page)
    ::madvise(begin + skipped, static_cast<std::size_t>(end - begin - skipped) / page * page, MADV_HUGEPAGE);
#endif
}

int run_sim(const sim_arguments& a, const output& out) {
  const std::shared_ptr<device> dev = make_cpu_device();
  if (!dev) return out.failed("cpu", "the kernels do not support this machine's CPU; try: troupe doctor");
  if (!a.replay.empty())
    return a.file.empty() ? run_replay(a.replay, a.load_of_run, dev, out)
                          : out.wrong("--replay", "the job comes from the folder: omit JOB");
  if (a.file.empty()) return out.wrong("command line", "JOB is required (or --replay DIR, the folder of a failed job)");
  auto request = a.request;
  request.job = a.file;
  request.overrides = a.overrides;
  request.job_of_run = !a.run.empty();
  request.load_plugins = a.load_of_run;
  const auto seeds = a.seeds.empty() ? std::nullopt : seeds_in(a.seeds);
  if (!a.seeds.empty() && !seeds) return out.wrong("--seeds", "expected A..B, e.g. 1..1000, instead of " + in_quotes(a.seeds));
  const bool console = a.repl || a.commands;
  request.daemons = seeds || console;
  auto made = make_sim(std::move(request), dev, std::make_shared<const tables>(node_tables()));
  if (!made) return out.wrong(made.error());
  if (made->daemons && !a.trace.empty())
    return out.wrong("--trace", "a simulation with faults of daemons cannot be traced: omit --trace or those faults");
  if (!seeds && a.request.nodes > 64) use_huge_pages();
  if (seeds) return run_seeds_on_sim_cluster(*made, *seeds, out);
  if (console) return run_sim_console(*made->daemons, a.commands ? &*a.commands : nullptr, out);
  if (made->daemons) return run_on_sim_cluster(*made, out);
  return simulation(std::move(*made), out).run(a.trace);
}

void add_options(CLI::App& c, sim_arguments& a) {
  job_options(c, a);
  c.get_option("JOB")->required(false);
  c.add_option("--nodes", a.request.nodes, "Number of nodes of the virtual cluster, each with one worker")
      ->option_text("N")
      ->check(CLI::Range(1u, 65535u));
  file_option(c, "--cluster", a.request.cluster, "Instead of --nodes: use the nodes of this cluster file, with the job unchanged");
  file_option(c, "--network", a.request.network, "Network and compute model (TOML)");
  file_option(c, "--faults", a.request.faults, "Faults to inject (TOML)");
  c.add_option("--seed", a.request.seed, "Seed of the simulation; the job has its own seed (default: 1)")
      ->option_text("S")
      ->check(CLI::Range(std::int64_t{0}, INT64_MAX));
  c.add_option("--seeds", a.seeds, "Run once for each of these seeds, with other faults, on all cores; report the first mistake")
      ->option_text("A..B")
      ->excludes("--seed");
  c.add_option("--maths", a.request.maths, "real: train; none: only count messages and bytes, which is faster (default: real)")
      ->option_text("real|none")
      ->check(CLI::IsMember({"real", "none"}));
  c.add_option("--buckets", a.request.buckets, "With --maths none: send gradients in K buckets; 0: layer by layer (default: 4)")
      ->option_text("K")
      ->check(CLI::Range(0, 4096));
  c.add_option("--steps", a.request.steps, "End after N steps, instead of the job's own end")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, INT64_MAX));
  c.add_flag("--repl", a.repl, "Run the job on simulated daemons in a REPL, which steps through virtual time")->excludes("--seeds");
  c.add_option("-c", a.commands, "Run these commands of the REPL, separated by ';', and exit")
      ->option_text("COMMANDS")
      ->excludes("--seeds");
  c.add_option("--replay", a.replay, "Instead of JOB: replay a failed job from the post-mortem folders of its nodes")
      ->option_text("DIR...");
  c.get_option("--load-plugins")
      ->description(
          "Load the plugins that a scenario's job, a run's job.toml, or the folder of --replay\nnames, which runs their code");
  file_option(c, "--trace", a.trace, "Write what the roles do to this file, a trace for ui.perfetto.dev");
}

}  // namespace

cli_command sim_command() {
  return make_command<sim_arguments>(
      "sim", "Simulate a job on a virtual cluster, with the same roles, virtual time and seeded faults",
      "  troupe sim configs/jobs/lenet_synthetic.toml --nodes 16 --network configs/sim/ethernet.toml\n"
      "  troupe sim job.toml --nodes 8 --faults configs/faults/everything.toml --seed 7\n"
      "  troupe sim configs/sim/firecaffe_googlenet_128.toml\n"
      "  troupe sim configs/jobs/alexnet_fc.toml --cluster configs/clusters/alexnet_fc.toml --maths none --steps 3\n"
      "  troupe sim --replay post-mortem/20260731-101500-lenet\n"
      "With --nodes, each node has one worker. JOB may be a scenario: a file that names job, nodes, network and faults.",
      add_options, run_sim);
}

}  // namespace troupe
