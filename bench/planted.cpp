// Plugin for bench/stragglers.py and bench/critical.py: a layer, a data source and an update rule
// that do their work and sleep, in processes that are told to. The environment variable
// TROUPE_PLANTED names a folder; while it has a file "layer", "source" or "rule", that one sleeps
// each time for the milliseconds that the file has.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "ops/device.hpp"
#include "runtime/job/plugin_abi.hpp"

namespace {

using namespace troupe;

void sleep_if_told(const char* what) {
  static const char* folder = std::getenv("TROUPE_PLANTED");
  if (!folder) return;
  std::ifstream file(std::string(folder) + '/' + what);
  if (int ms = 0; file >> ms) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

class planted_layer final : public layer {
 public:
  shapes infer(const shapes& in) const override { return in; }
  signatures supported() const override { return {{{distribution::split_0}, {}, {distribution::split_0}}}; }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    out[0].back(c.dev);
    c.dev.copy(in[0], out[0]);
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    sleep_if_told("layer");
    if (!grad_in[0]) return;
    grad_in[0].back(c.dev);
    c.dev.copy(grad_out[0], grad_in[0]);
  }
};

class planted_source final : public source {
 public:
  explicit planted_source(std::shared_ptr<const source> inner) : inner_(std::move(inner)) {}
  shape example() const override { return inner_->example(); }
  std::int64_t classes() const override { return inner_->classes(); }
  std::int64_t size(split s) const override { return inner_->size(s); }
  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    sleep_if_told("source");
    inner_->read(s, indices, data, label);
  }

 private:
  std::shared_ptr<const source> inner_;
};

class planted_rule final : public rule {
 public:
  explicit planted_rule(std::unique_ptr<rule> inner) : inner_(std::move(inner)) {}
  std::vector<std::string> states() const override { return inner_->states(); }
  void update(device& dev, const rule_step& now, const tensor& weight_in, const tensor& grad, tensor& weight_out,
              const tensors& states_in, tensors& states_out) const override {
    sleep_if_told("rule");
    inner_->update(dev, now, weight_in, grad, weight_out, states_in, states_out);
  }

 private:
  std::unique_ptr<rule> inner_;
};

}  // namespace

std::uint32_t troupe_abi_version() { return troupe::abi_version; }

void register_plugin(troupe::tables& t) {
  layer_type layer;
  layer.name = "planted";
  layer.doc = "y = x. Shapes: any -> same.";
  layer.make = [](const options&) { return std::make_unique<planted_layer>(); };
  t.layers.add(std::move(layer));

  auto source = *t.sources.find("synthetic");
  source.name = "planted";
  source.open = [open = source.open](const options& o, std::uint64_t seed) {
    return std::make_shared<planted_source>(open(o, seed));
  };
  t.sources.add(std::move(source));

  auto rule = *t.rules.find("sgd");
  rule.name = "planted";
  rule.make = [make = rule.make](const options& o) { return std::make_unique<planted_rule>(make(o)); };
  t.rules.add(std::move(rule));
}
