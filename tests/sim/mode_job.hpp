// Jobs for the invariants of synchronisation modes: tiny nets whose weights record every update,
// for any mode and topology.
//
//   tally    a layer with one weight per (packet, step). The gradient of packet p at step t is 1 at
//            (p, t) and 0 elsewhere, so the weights are a ledger: element (p, t) is how often that
//            gradient has been applied, times lr and the factor of the mean. Every forward passes
//            the weights that it reads to `reads()`.
//   squares  least squares: loss = mean over examples of (x w + b - y)^2 / 2, y an integer. Its
//            minimiser is known.
// Both are losses, so a net is several of them side by side: layers whose weights and gradients
// travel independently.
//
// Node 0 has the coordinator and the shards; with `apart` the shards have their own nodes after the
// workers' nodes. Every worker has its own node; with `together` all roles are on node 0.
#pragma once

#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ops/layer_support.hpp"
#include "ops/tensor_values.hpp"
#include "runtime/data/source.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {

// --- weights that a forward reads

struct weight_read {
  std::uint32_t layer = 0;
  std::uint64_t step = 0;
  std::uint32_t packet = 0;
  const double* weights = nullptr;
  std::int64_t count = 0;
};
using read_hook = std::function<void(const weight_read&)>;
inline read_hook& reads() {  // hook of the current run; tests run one at a time
  static read_hook hook;
  return hook;
}

// Sets `ledger` to 1 at the context's (packet, step) and to 0 elsewhere.
inline void enter(const context& c, std::int64_t steps, tensor& ledger) {
  c.dev.fill(0, ledger);
  if (static_cast<std::int64_t>(c.step) >= steps) return;
  auto one = ledger.slice(static_cast<std::int64_t>(c.packet) * steps + static_cast<std::int64_t>(c.step), {1});
  c.dev.fill(1, one);
}

struct tally_layer final : layer {
  std::int64_t steps = 1, packets = 1;
  shapes infer(const shapes&) const override { return {shape{}}; }
  signatures supported() const override { return alike({distribution::broadcast}, 2, 1); }
  param_specs params(const shapes&) const override {
    return {{.name = "weight", .dims = {steps * packets}, .filler = filler_from({}, "constant")}};
  }
  bool is_loss() const override { return true; }
  bool differentiable(std::size_t) const override { return false; }
  std::int64_t ids_below(std::size_t, const shapes&) const override { return 0; }  // labels are regression targets
  void forward(context& c, plan&, const tensors&, const tensors& params, tensors& out, saved&) const override {
    if (reads() && c.ph == phase::train) {
      const auto w = at_home(c.dev, params[0]);
      static std::mutex one_at_a_time;  // in tests/threaded every task has its own thread
      const std::lock_guard guard(one_at_a_time);
      reads()({c.layer, c.step, c.packet, w.data<double>(), w.count()});
    }
    c.dev.fill(0, backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors&, tensors&, tensors& grad_params,
                bool accumulate) const override {
    assign_or_add(c.dev, grad_params[0], accumulate, [&](tensor& g) { enter(c, steps, g); });
  }
};

struct squares_layer final : layer {
  shapes infer(const shapes&) const override { return {shape{}}; }
  signatures supported() const override { return alike({distribution::broadcast}, 2, 2); }
  param_specs params(const shapes& in) const override {
    return {{.name = "weight", .dims = {in[0].count_from(1)}, .filler = filler_from({}, "constant")},
            {.name = "bias", .dims = {1}, .filler = filler_from({}, "constant")}};
  }
  bool is_loss() const override { return true; }
  bool differentiable(std::size_t) const override { return false; }
  std::int64_t ids_below(std::size_t, const shapes&) const override { return 0; }  // labels are regression targets
  template <class T>
  static double residual(const tensors& in, const tensors& params, std::int64_t row, std::int64_t columns) {
    double r = static_cast<double>(params[1].data<T>()[0]) - in[1].data<std::int32_t>()[row];
    for (std::int64_t k = 0; k < columns; ++k)
      r += static_cast<double>(in[0].data<T>()[row * columns + k]) * static_cast<double>(params[0].data<T>()[k]);
    return r;
  }
  // Host loops: inputs are copied to the host, and outputs are copied back to the device.
  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved&) const override {
    const auto x = all_at_home(c, in), w = all_at_home(c, params);
    auto made = tensor::allocate(c.dev.host(), out[0].dims(), out[0].type());
    x[0].type() == dtype::f64 ? loss<double>(x, w, made) : loss<float>(x, w, made);
    c.dev.fetch(made, backed(c.dev, out[0]));
  }
  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors&, tensors&, tensors& grads,
                bool) const override {
    const auto x = all_at_home(c, s.inputs), w = all_at_home(c, params);
    tensors made;
    for (const auto& g : grads) made.push_back(tensor::allocate(c.dev.host(), g.dims(), g.type()));
    x[0].type() == dtype::f64 ? gradient<double>(c, x, w, made) : gradient<float>(c, x, w, made);
    for (std::size_t i = 0; i < grads.size(); ++i) c.dev.fetch(made[i], backed(c.dev, grads[i]));
  }

 private:
  static tensors all_at_home(const context& c, const tensors& list) {
    tensors all;
    for (const auto& t : list) all.push_back(at_home(c.dev, t));
    return all;
  }
  template <class T>
  static void loss(const tensors& in, const tensors& params, tensor& out) {
    const auto rows = in[0].dims()[0], columns = in[0].dims().count_from(1);
    double sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      const double r = residual<T>(in, params, i, columns);
      sum += r * r / 2;
    }
    out.template mutable_data<T>()[0] = static_cast<T>(sum / static_cast<double>(rows));
  }
  template <class T>
  static void gradient(context& c, const tensors& in, const tensors& params, tensors& grads) {
    const auto rows = in[0].dims()[0], columns = in[0].dims().count_from(1);
    for (auto& g : grads) c.dev.host().fill(0, g);
    for (std::int64_t i = 0; i < rows; ++i) {
      const double r = residual<T>(in, params, i, columns) / static_cast<double>(rows);
      for (std::int64_t k = 0; k < columns; ++k)
        grads[0].mutable_data<T>()[k] += static_cast<T>(r * static_cast<double>(in[0].data<T>()[i * columns + k]));
      grads[1].mutable_data<T>()[0] += static_cast<T>(r);
    }
  }
};

// --- data: x in {-1, -0.5, ..., 1}^columns, y = round(<w, x> + b + noise) for some w, b; y is not
// linear in x, so the minimiser is not w

inline double hashed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ull + b * 0xbf58476d1ce4e5b9ull + 1;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

class regression_source final : public source {
 public:
  regression_source(std::int64_t examples, std::int64_t columns, double noise, std::int64_t test = 0)
      : examples_(examples), columns_(columns), noise_(noise), test_(test) {}
  shape example() const override { return {columns_}; }
  std::int64_t classes() const override { return 1; }  // the source has labels
  std::int64_t size(split s) const override { return s == split::train ? examples_ : test_; }
  double x(std::int64_t i, std::int64_t k) const {
    return std::floor(5 * hashed(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(k) + 100)) / 2 - 1;
  }
  double weight(std::int64_t k) const { return 2 * std::floor(5 * hashed(7, static_cast<std::uint64_t>(k))) - 4; }
  double y(std::int64_t i) const {
    double v = 1;
    for (std::int64_t k = 0; k < columns_; ++k) v += weight(k) * x(i, k);
    return v + std::round(noise_ * (2 * hashed(static_cast<std::uint64_t>(i), 99) - 1));
  }
  void read(split, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    std::int64_t row = 0;
    for (auto i : indices) {
      for (std::int64_t k = 0; k < columns_; ++k) {
        if (data.type() == dtype::f64)
          data.mutable_data<double>()[row * columns_ + k] = x(i, k);
        else
          data.mutable_data<float>()[row * columns_ + k] = static_cast<float>(x(i, k));
      }
      label.mutable_data<std::int32_t>()[row++] = static_cast<std::int32_t>(std::lround(y(i)));
    }
  }

 private:
  std::int64_t examples_, columns_;
  double noise_;
  std::int64_t test_;
};

// Every packet has the same examples, the first of the data: gradients have no noise.
struct whole_sampler final : sampler {
  std::int64_t steps_per_epoch() const override { return 1; }
  std::vector<std::int64_t> indices(std::uint64_t, std::int64_t, std::int64_t count) override {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < count; ++i) all.push_back(i);
    return all;
  }
};

inline tables mode_tables() {
  auto t = stock_tables();
  const auto count = [](const char* name) { return integer_option(name, 1, name, 1); };
  t.layers.add({.name = "tally",
                .doc = "",
                .specs = {count("steps"), count("packets")},
                .make =
                    [](const options& o) {
                      auto l = std::make_unique<tally_layer>();
                      l->steps = o.integer("steps"), l->packets = o.integer("packets");
                      return l;
                    },
                .cases = {},
                .min_inputs = 2,
                .max_inputs = 2});
  t.layers.add({.name = "squares",
                .doc = "",
                .specs = {},
                .make = [](const options&) { return std::make_unique<squares_layer>(); },
                .cases = {},
                .min_inputs = 2,
                .max_inputs = 2});
  t.sources.add({"regression",
                 "",
                 {count("examples"), count("columns"), real_option("noise", 0.0, "of y"), integer_option("test", 0, "examples", 0)},
                 [](const options& o, std::uint64_t) {
                   return std::make_shared<regression_source>(o.integer("examples"), o.integer("columns"), o.real("noise"),
                                                              o.integer("test"));
                 }});
  t.samplers.add({"whole", "", {}, [](const options&, const sampler_config&) { return std::make_unique<whole_sampler>(); }});
  return t;
}
inline std::shared_ptr<const tables> shared_mode_tables() {
  static const auto all = std::make_shared<const tables>(mode_tables());
  return all;
}

// --- the job

using text_options = std::vector<std::pair<std::string, std::string>>;

// size: the options of one simulated job; a test names those that it needs
struct mode_shape {
  std::string mode = "bsp";
  text_options options = {};
  std::uint32_t workers = 2, shards = 1, packets = 0 /* 0: one per worker */, layers = 2, sub_solvers = 1;
  std::uint32_t groups = 1, server_groups = 1;  // workers / groups workers per group
  std::uint64_t steps = 20;
  std::string net = "squares", rule = "sgd", fuse = "none", reducer = "server", sampler = "shuffle";
  std::uint32_t arity = 2;
  std::string between = "sharded";  // option of reducer hierarchical
  std::uint32_t worker_nodes = 0;   // 0: one per worker
  std::string who = "all";          // finish.who
  double lr = 0.05, decay = 0, noise = 3;
  std::string schedule = "fixed";
  text_options schedule_options = {};
  std::int64_t columns = 20, examples = 256, batch_per_packet = 2;
  std::string precision = "f64";
  bool together = false;                  // all roles on node 0
  bool apart = false;                     // every shard on its own node
  std::int64_t max_block = 0;             // bytes; 0: the default
  std::int64_t test = 0, eval_every = 0;  // examples; steps
  std::int64_t max_skipped = 0;
  double clip_norm = 0;
  std::string compress = "none";
  double fraction = 0.01, threshold = 0.001;
  std::uint32_t all_packets() const { return packets > 0 ? packets : workers; }
  std::uint32_t all_worker_nodes() const { return worker_nodes > 0 ? worker_nodes : workers; }
  // True if shards are colocated with workers: killing a worker's node then loses parameters.
  bool shards_with_workers() const {
    return reducer == "sharded" || reducer == "ring" || (reducer == "hierarchical" && between == "sharded");
  }
};

inline job_spec mode_spec(const mode_shape& s, const tables& t) {
  const auto n = [](std::int64_t v) { return option_value(v); };
  job_spec j;
  j.file = "laws";
  j.name = "laws";
  j.seed = 3;
  j.precision = s.precision;
  j.data.source = "regression";
  j.data.values = check_options(
      with({{"examples", n(s.examples)}, {"columns", n(s.columns)}, {"noise", option_value(s.noise)}, {"test", n(s.test)}}),
      t.sources.find("regression")->specs);
  j.data.batch = s.batch_per_packet * s.all_packets();
  j.data.sampler = {s.sampler, check_options({}, t.samplers.find(s.sampler)->specs), {}};
  for (std::uint32_t l = 0; l < s.layers; ++l) {
    layer_spec one;
    one.name = "loss" + std::to_string(l);
    one.type = s.net;
    one.inputs = {"data", "label"};
    const auto sizes = with({{"steps", n(static_cast<std::int64_t>(s.steps))}, {"packets", n(s.all_packets())}});
    one.values = check_options(s.net == "tally" ? sizes : options{}, t.layers.find(s.net)->specs);
    j.layers.push_back(one);
  }
  j.train.rule = {s.rule, check_options({}, t.rules.find(s.rule)->specs), {}};
  j.train.lr = s.lr;
  j.train.decay = s.decay;
  j.train.schedule = {s.schedule, options_from_text(s.schedule_options, t.schedules.find(s.schedule)->specs), {}};
  j.train.sync = {s.mode, options_from_text(s.options, t.modes.find(s.mode)->specs), {}};
  j.train.reducer = s.reducer;
  j.train.compress = s.compress, j.train.fraction = s.fraction, j.train.threshold = s.threshold;
  if (s.reducer == "tree") j.train.reducer_values.values["arity"] = std::int64_t{s.arity};
  if (s.reducer == "hierarchical") j.train.reducer_values.values["between"] = s.between;
  j.train.finish.steps = static_cast<std::int64_t>(s.steps);
  j.train.finish.who = s.who;
  j.train.max_skipped = s.max_skipped;
  j.train.clip.norm = s.clip_norm;
  j.eval.every = s.eval_every;
  j.pipeline.packets = s.all_packets();
  j.pipeline.sub_solvers = s.sub_solvers;
  j.pipeline.fuse = s.fuse;
  j.pipeline.fuse_layers = false;
  j.topology.worker_groups = s.groups;
  j.topology.workers_per_group = s.workers / s.groups;
  j.topology.server_groups = s.server_groups;
  j.topology.servers_per_group = s.shards_with_workers() ? 1 : s.shards;
  j.topology.colocated = s.server_groups > 1;
  if (s.max_block > 0) j.topology.max_block = s.max_block;
  return j;
}

inline std::shared_ptr<prepared_job> prepare_mode(const mode_shape& s, std::shared_ptr<const tables> t = shared_mode_tables()) {
  const auto workers = s.all_worker_nodes();
  std::vector<node_spec> nodes(s.together ? 1 : 1 + workers + (s.apart ? s.shards : 0));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].name = "n" + std::to_string(i + 1);
    if (s.together) continue;
    if (i == 0)
      nodes[i].roles =
          s.apart ? std::vector<std::string>{"coordinator", "data"} : std::vector<std::string>{"coordinator", "server", "data"};
    else
      nodes[i].roles = {i <= workers ? "worker" : "server"};
    if (i > 0 && i <= workers && s.shards_with_workers()) nodes[i].roles.push_back("server");
  }
  auto made = prepare_job(mode_spec(s, *t), t, nodes);
  if (!made) {
    for (const auto& d : made.error()) ADD_FAILURE() << d.to_string();
    return nullptr;
  }
  return *made;
}

}  // namespace troupe::testing
