// `troupe time JOB|RUN`: measures the overhead of the actors. The job runs on the actors and in a
// plain loop (runtime/plain/plain_loop), in alternating blocks of steps within one process, so that
// changes of the machine's speed affect both equally.
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/embedded.hpp"
#include "apps/cli/command.hpp"
#include "ops/conv_algorithm.hpp"
#include "ops/device_descriptors.hpp"
#include "runtime/job/convolutions.hpp"
#include "runtime/job/job.hpp"
#include "runtime/plain/plain_loop.hpp"

namespace troupe {
namespace {

// Lower bounds of a layer's work in a training step: the operations of its products, and the bytes
// that must be read and written once if none are cached. `troupe time` prints them for comparison
// with measured times.
struct layer_work {
  double forward_flops = 0, backward_flops = 0;  // of all packets of a step
  double forward_bytes = 0, backward_bytes = 0;
};

std::vector<const graph_layer*> layers_named(const model_graph& g, const std::string& names) {
  std::vector<const graph_layer*> found;
  for (std::size_t begin = 0; begin <= names.size();) {
    const auto end = std::min(names.find('+', begin), names.size());
    const auto name = names.substr(begin, end - begin);
    const auto l = std::find_if(g.layers.begin(), g.layers.end(), [&](const graph_layer& one) { return one.name == name; });
    if (l != g.layers.end()) found.push_back(&*l);
    begin = end + 1;
  }
  return found;
}

double elements(const shapes& all) {
  double n = 0;
  for (const auto& s : all) n += static_cast<double>(s.count());
  return n;
}

layer_work work_of(const prepared_job& j, const std::string& names) {
  layer_work w;
  const auto members = layers_named(j.graph, names);
  if (members.empty()) return w;
  const auto &head = *members.front(), &tail = *members.back();
  const bool back = std::any_of(members.begin(), members.end(), [](const graph_layer* l) { return l->wants_backward; });
  double params = 0, grad_in = 0;
  for (std::size_t i = 0; i < head.in.size(); ++i)
    if (i < head.grad_in_wanted.size() && head.grad_in_wanted[i]) grad_in += static_cast<double>(head.in[i].count());
  for (const auto* l : members) {
    for (const auto p : l->params) params += static_cast<double>(j.graph.params[p].spec.dims.count());
    const double flops = l->maths->flops(l->in);
    w.forward_flops += flops;
    if (back) w.backward_flops += flops * ((l != &head || grad_in > 0 ? 1 : 0) + (l->params.empty() ? 0 : 1));
  }
  const double size = static_cast<double>(size_of(j.spec.type())),
               of_params = params * static_cast<double>(size_of(j.spec.parameter_type()));
  w.forward_bytes = (elements(head.in) + elements(tail.out)) * size + of_params;
  if (back) {
    double activations = elements(tail.out) + grad_in;
    if (head.maths->backward_needs(head.in).inputs) activations += elements(head.in);
    if (tail.maths->backward_needs(tail.in).outputs) activations += elements(tail.out);
    w.backward_bytes =
        activations * size + of_params * (grad_in > 0 ? 2 : 1);  // gradients of the parameters and, for grad_in, the parameters
  }
  const double packets = j.plan.packets;
  w.forward_flops *= packets, w.backward_flops *= packets;
  w.forward_bytes *= packets, w.backward_bytes *= packets;
  return w;
}

struct time_arguments : job_arguments {
  std::string weights;
  unsigned threads = 1;
  unsigned steps = 50;
};

using clock = std::chrono::steady_clock;

double median(std::vector<double> v) {
  if (v.empty()) return 0;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  if (v.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(v.begin(), middle)) / 2;
}

// CPU time of the whole process, in seconds. Other load on the machine affects it less than the
// wall clock.
double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::string difference(double plain, double actors) {
  const double percent = 100 * (actors / plain - 1);
  return fixed(std::abs(percent), 1) + (percent < 0 ? " % less" : " % more");
}

// Alternates between actors and plain loop. When a block of steps is complete, the coordinator is
// asked to pause. At the event "paused" all roles are idle, and the thread that receives the event
// runs a block of the plain loop.
class alternation {
 public:
  alternation(std::shared_ptr<prepared_job> j, std::shared_ptr<device> d, unsigned threads, unsigned steps)
      : job_(std::move(j)), plain_(job_, d), steps_(steps), block_(std::clamp(steps / 5, 2u, 20u)) {
    embedded_options o;
    o.threads = threads;
    o.devices = {d};
    o.on_event = [this](const event_effect& e) { handle_event(e); };
    actors_ = std::make_unique<embedded_run>(job_, std::move(o));
  }

  embedded_result run() { return actors_->run(); }

  double plain_ms() const { return median(plain_times_); }
  double actors_ms() const { return median(actor_times_); }
  double plain_cpu_ms() const { return median(plain_cpu_); }
  double actors_cpu_ms() const { return median(actor_cpu_); }
  std::string name_of(std::uint32_t layer) const { return plain_.name_of(layer); }
  std::size_t samples() const { return plain_times_.size(); }
  double of(const std::function<double(const plain_times&)>& part) const {
    std::vector<double> v;
    for (const auto& t : entries_) v.push_back(1000 * part(t));
    return median(std::move(v));
  }

 private:
  // Does not count the first step of a block, which fills pipeline and caches, nor the whole first
  // block, which fills the memory pools.
  void handle_event(const event_effect& e) {
    if (const auto* s = e.as<step_event>()) {
      if (s->step_seconds > 0 && heard_ > 0 && blocks_ > 0) actor_times_.push_back(1000.0 * s->step_seconds);
      if (++heard_ == block_) actors_->command({pause_command{}});
    }
    if (!e.is<paused_event>()) return;
    if (blocks_ > 0) actor_cpu_.push_back(1000 * (cpu_seconds() - cpu_before_) / heard_);
    run_plain_block();
    ++blocks_;
    heard_ = 0;
    cpu_before_ = cpu_seconds();
    if (plain_times_.size() >= steps_ && actor_times_.size() >= steps_)
      actors_->stop();
    else
      actors_->command({resume_command{}});
  }

  void run_plain_block() {
    const double cpu = cpu_seconds();
    for (unsigned i = 0; i <= block_; ++i) {
      plain_times t;
      const auto begin = clock::now();
      plain_.step(&t);
      if (i == 0 || blocks_ == 0) continue;
      plain_times_.push_back(std::chrono::duration<double, std::milli>(clock::now() - begin).count());
      entries_.push_back(std::move(t));
    }
    if (blocks_ > 0) plain_cpu_.push_back(1000 * (cpu_seconds() - cpu) / (block_ + 1));
  }

  std::shared_ptr<prepared_job> job_;
  plain_loop plain_;
  unsigned steps_, block_, heard_ = 0, blocks_ = 0;
  std::unique_ptr<embedded_run> actors_;
  std::vector<double> plain_times_, actor_times_;
  std::vector<double> plain_cpu_, actor_cpu_;  // ms of one step, by block
  double cpu_before_ = 0;
  std::vector<plain_times> entries_;
};

using json = nlohmann::ordered_json;

// The algorithm of each pass of the layer's convolution; empty if the layer is no convolution.
std::vector<std::pair<conv_pass, std::string>> algorithms_of(const prepared_job& j, std::uint32_t layer, const device& d) {
  std::vector<std::pair<conv_pass, std::string>> list;
  for (const auto& task : conv_tasks(j.graph)) {
    if (task.layer != layer) continue;
    const auto a = d.algorithm_on(task.geometry, task.pass);
    const bool as_lowering1 = j.spec.type() == dtype::f64 && !has_f64(a);
    const bool on_tiles = j.spec.type() == dtype::bf16 && d.numerics_id().ends_with("/amx");
    list.emplace_back(task.pass, on_tiles ? "tiles of bf16" : name_of(as_lowering1 ? conv_algorithm::lowering1 : a));
  }
  return list;
}

void tell(const alternation& t, const prepared_job& j, const device& d, const output& out) {
  const auto rounded = [](double ms) { return std::round(ms * 1e4) / 1e4; };
  auto layers = json::array();
  std::string chosen, table = left("layer", 24) + flush_right("forward ms", 12) + flush_right("backward ms", 13) + "\n";
  for (const auto& l : j.graph.layers) {
    const auto forward = t.of([&](const plain_times& p) { return p.layers[l.index].forward; });
    const auto backward = t.of([&](const plain_times& p) { return p.layers[l.index].backward; });
    const auto name = t.name_of(l.index);
    if (name.empty()) continue;
    const auto work = work_of(j, name);
    layers.push_back({{"name", name},
                      {"forward_ms", rounded(forward)},
                      {"backward_ms", rounded(backward)},
                      {"forward_flops", work.forward_flops},
                      {"backward_flops", work.backward_flops},
                      {"forward_bytes", work.forward_bytes},
                      {"backward_bytes", work.backward_bytes}});
    for (const auto& [pass, algorithm] : algorithms_of(j, l.index, d)) {
      layers.back()["convolution"][name_of(pass)] = {{"algorithm", algorithm}};
      chosen += "  " + left(l.name, 22) + left(name_of(pass), 9) + algorithm + "\n";
    }
    table += left(name, 24) + flush_right(fixed(forward, 3), 12) + flush_right(fixed(backward, 3), 13) + "\n";
  }
  const auto load = t.of([](const plain_times&p) { return p.load; }), sum = t.of([](const plain_times&p) { return p.sum; });
  const auto update = t.of([](const plain_times& p) { return p.update; });
  if (out.json())
    return out.object({{"event", "time"},
                       {"plain_ms", rounded(t.plain_ms())},
                       {"actors_ms", rounded(t.actors_ms())},
                       {"layers", layers},
                       {"load_ms", rounded(load)},
                       {"sum_ms", rounded(sum)},
                       {"update_ms", rounded(update)},
                       {"plain_cpu_ms", rounded(t.plain_cpu_ms())},
                       {"actors_cpu_ms", rounded(t.actors_cpu_ms())},
                       {"packets", j.plan.packets},
                       {"sub_solvers", j.plan.sub_solvers},
                       {"steps", t.samples()}});
  table += "(load, sum of packets, update) " + fixed(load, 3) + ", " + fixed(sum, 3) + ", " + fixed(update, 3) + "\n\n";
  if (!chosen.empty()) table += "algorithms of convolutions:\n" + chosen + "\n";
  out.text(table + "one step, median of " + std::to_string(t.samples()) + ": plain loop " + fixed(t.plain_ms(), 3) +
           " ms, actors " + fixed(t.actors_ms(), 3) + " ms (" + difference(t.plain_ms(), t.actors_ms()) + ")\n");
  out.text("CPU time of one step: plain loop " + fixed(t.plain_cpu_ms(), 3) + " ms, actors " + fixed(t.actors_cpu_ms(), 3) +
           " ms (" + difference(t.plain_cpu_ms(), t.actors_cpu_ms()) + ")\n");
}

int run_time(const time_arguments& a, const output& out) {
  auto loaded = load_job_to_train(a);
  if (!loaded) return out.wrong(loaded.error());
  auto j = *loaded;
  if (j->spec.train.sync.kind != "bsp")
    return out.wrong(
        a.file, "mode '" + j->spec.train.sync.kind + "' has no plain loop to compare with; time it with --set train.sync.mode=bsp");
  if (const auto bad = plain_loop::why_not(*j); !bad.empty()) return out.wrong(bad);
  const auto dev = make_devices(j->nodes.front().devices).front();
  if (!a.weights.empty()) {
    const auto weights = weights_file(a, a.weights, out);
    if (!weights) return wrong_file(out, weights.error());
    auto from = begin_from_weights(*j, *weights);
    if (!from) return wrong_file(out, from.error());
  }
  // More sub-solvers than threads would interleave packets and evict each other's data from the
  // caches.
  if (a.threads > 0) j->plan.sub_solvers = std::min(j->plan.sub_solvers, a.threads);
  j->spec.train.finish = {};
  j->spec.eval.every = 0;
  j->last_step = 0;
  alternation t(j, dev, a.threads, a.steps);
  const auto r = t.run();
  if (!r.ok) return out.failed(r.where, r.error);
  tell(t, *j, *dev, out);
  return exit_done;
}

void add_options(CLI::App& c, time_arguments& a) {
  job_options(c, a);
  file_option(c, "--weights", a.weights, "Use these weights (a file or a run) instead of the initial ones");
  c.add_option("--steps", a.steps, "Steps to measure in each way (default: 50)")->option_text("N")->check(CLI::Range(2u, 1000000u));
  threads_option(c, a.threads, "1, like the plain loop");
}

}  // namespace

cli_command time_command() {
  return make_command<time_arguments>(
      "time", "Measure a job: time of each layer, and overhead of the actors over a plain loop",
      "  troupe time configs/jobs/lenet_fashion.toml --steps 200\n"
      "  troupe time job.toml --set pipeline.packets=2 --set pipeline.sub_solvers=2 --threads 2\n"
      "Actors and plain loop run in alternating blocks of steps within one process. Times are medians over steps.",
      add_options, run_time);
}

}  // namespace troupe
