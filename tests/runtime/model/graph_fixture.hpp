// Layers without maths and hand-made jobs, for tests of graph and plan that depend only on names,
// shapes and parameters.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/model/graph.hpp"
#include "runtime/plan/plan.hpp"

namespace troupe::graph_test {

// One class for all kinds; the registry entry sets its kind.
struct paper_layer : layer {
  enum kind { same, dense, halves, sum, loss, metric, normed } what = same;
  std::int64_t outputs = 0;

  shapes infer(const shapes& in) const override {
    if (what == dense) return {shape{in[0][0], outputs}};
    if (what == halves) return {shape{in[0][0], in[0][1] / 2}, shape{in[0][0], in[0][1] / 2}};
    if (what == loss || what == metric) return {shape{}};
    for (const auto& s : in)
      if (!(s == in[0])) throw shape_error("adds " + in[0].to_string() + " and " + s.to_string());
    return {in[0]};
  }
  signatures supported() const override { return {}; }
  param_specs params(const shapes& in) const override {
    if (what == dense) return {{"weight", shape{outputs, in[0].count_from(1)}, {}}, {"bias", shape{outputs}, {}, 2.0, 0.0}};
    if (what == normed)
      return {{"mean", shape{in[0][1]}, {}, 0, 0, false},
              {"scale", shape{in[0][1]}, {}},
              {"variance", shape{in[0][1]}, {}, 0, 0, false}};
    return {};
  }
  bool is_loss() const override { return what == loss; }
  bool is_metric() const override { return what == metric; }
  bool differentiable(std::size_t input) const override { return !((what == loss || what == metric) && input == 1); }
  bool test_phase_only() const override { return false; }
  double flops(const shapes& in) const override { return what == dense ? 2.0 * static_cast<double>(in[0].count() * outputs) : 0.0; }
  void forward(context&, plan&, const tensors&, const tensors&, tensors&, saved&) const override {}
  void backward(context&, plan&, const saved&, const tensors&, const tensors&, tensors&, tensors&, bool) const override {}
};

inline layer_registry paper_layers() {
  layer_registry r;
  const auto add = [&r](const std::string& name, paper_layer::kind k, int least, int most) {
    layer_type t;
    t.name = name;
    if (k == paper_layer::dense) t.specs = {{"outputs", option_kind::integer, std::nullopt, "width", 1, 1e6, {}}};
    t.make = [k](const options& o) {
      auto l = std::make_unique<paper_layer>();
      l->what = k;
      if (k == paper_layer::dense) l->outputs = o.integer("outputs");
      return l;
    };
    t.min_inputs = least;
    t.max_inputs = most;
    r.add(std::move(t));
  };
  add("same", paper_layer::same, 1, 1);
  add("dense", paper_layer::dense, 1, 1);
  add("halves", paper_layer::halves, 1, 1);
  add("sum", paper_layer::sum, 2, 8);
  add("loss", paper_layer::loss, 2, 2);
  add("metric", paper_layer::metric, 2, 2);
  add("normed", paper_layer::normed, 1, 1);
  return r;
}

// A layer. job_of places layer k of the job in line 10 (k + 1), its input i in column 20 + i.
inline layer_spec spec(std::string name, std::string type, std::vector<std::string> inputs, std::int64_t outputs = 0) {
  layer_spec s;
  s.name = std::move(name);
  s.type = std::move(type);
  s.inputs = std::move(inputs);
  if (outputs > 0) s.values.values["outputs"] = outputs;
  return s;
}

// A stock linear layer with checked options.
inline layer_spec linear(const std::string& name, const std::string& from, std::int64_t outputs) {
  layer_registry all;
  add_stock_layers(all);
  auto s = spec(name, "linear", {from});
  options given;
  given.values["outputs"] = outputs;
  s.values = check_options(given, all.find("linear")->specs);
  return s;
}

inline job_spec job_of(std::vector<layer_spec> layers, std::int64_t batch = 8, std::int64_t packets = 4) {
  job_spec j;
  j.file = "job.toml";
  j.name = "test";
  j.at = {"job.toml", 1, 1};
  j.data.source = "synthetic";
  j.data.batch = batch;
  j.pipeline.packets = packets;
  j.pipeline.fuse_layers = false;  // one stage per layer
  j.pipeline.key_at["packets"] = {"job.toml", 3, 11};
  int line = 10;
  for (auto& s : layers) {
    s.at = {"job.toml", line, 1};
    for (auto key : {"name", "type", "inputs"}) s.key_at[key] = {"job.toml", line + 1, 9};
    for (std::size_t i = 0; i < s.inputs.size(); ++i)
      s.key_at["inputs." + std::to_string(i)] = {"job.toml", line + 2, 20 + static_cast<int>(i)};
    line += 10;
  }
  j.layers = std::move(layers);
  return j;
}

// data -> a (dense) -> relu -> b (dense) -> loss; accuracy in tests.
inline job_spec small_net(std::int64_t batch = 8, std::int64_t packets = 4) {
  auto accuracy = spec("accuracy", "metric", {"b", "label"});
  accuracy.phase = "test";
  return job_of({spec("a", "dense", {"data"}, 30), spec("relu", "same", {"a"}), spec("b", "dense", {"relu"}, 10), accuracy,
                 spec("loss", "loss", {"b", "label"})},
                batch, packets);
}

inline expected<model_graph, diagnostics> try_graph(const job_spec& j, const shape& example = shape{4, 5},
                                                    std::int64_t classes = 10) {
  return build_graph(j, paper_layers(), {example, classes});
}

inline std::vector<std::string> texts(const diagnostics& list) {
  std::vector<std::string> out;
  for (const auto& d : list) out.push_back(d.to_string());
  return out;
}

inline std::vector<node_spec> nodes_named(const std::vector<std::string>& names) {
  std::vector<node_spec> out;
  for (const auto& n : names) {
    node_spec s;
    s.name = n;
    out.push_back(std::move(s));
  }
  return out;
}

}  // namespace troupe::graph_test
