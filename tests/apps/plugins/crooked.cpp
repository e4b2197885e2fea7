// Plugin with wrong layers for tests of `troupe check-layer`: crooked, y = slope x, whose gradient
// assumes slope 2; and thrower, which throws.
#include <stdexcept>

#include "ops/device.hpp"
#include "runtime/job/plugin_abi.hpp"

namespace {

using namespace troupe;

class crooked final : public layer {
 public:
  explicit crooked(double slope) : slope_(slope) {}
  shapes infer(const shapes& in) const override { return in; }
  signatures supported() const override { return {{{distribution::split_0}, {}, {distribution::split_0}}}; }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    out[0].back(c.dev);
    c.dev.copy(in[0], out[0]);
    c.dev.scale(slope_, out[0]);
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!grad_in[0]) return;
    grad_in[0].back(c.dev);
    c.dev.copy(grad_out[0], grad_in[0]);
    c.dev.scale(2.0, grad_in[0]);
  }

 private:
  double slope_;
};

class thrower final : public layer {
 public:
  shapes infer(const shapes& in) const override { return in; }
  signatures supported() const override { return {{{distribution::split_0}, {}, {distribution::split_0}}}; }
  void forward(context&, plan&, const tensors&, const tensors&, tensors&, saved&) const override {
    throw std::runtime_error("not today");
  }
  void backward(context&, plan&, const saved&, const tensors&, const tensors&, tensors&, tensors&, bool) const override {}
};

}  // namespace

std::uint32_t troupe_abi_version() { return troupe::abi_version; }

void register_plugin(troupe::tables& t) {
  option_spec slope;
  slope.name = "slope";
  slope.kind = option_kind::real;
  slope.fallback = 2.0;
  slope.doc = "of the line";
  layer_type row;
  row.name = "crooked";
  row.doc = "y = slope x. Shapes: any -> same.";
  row.specs = {slope};
  row.make = [](const options& o) { return std::make_unique<crooked>(o.real("slope")); };
  row.cases = {{"one", {}, {{1, 1}}},
               {"row", {}, {{3, 5}}},
               {"image", {}, {{2, 3, 4, 5}}},
               {"long", {}, {{2, 37}}},
               {"steep", {{{"slope", 3.0}}}, {{4, 4}}},
               {"steep image", {{{"slope", 5.0}}}, {{2, 1, 3, 3}}}};
  t.layers.add(std::move(row));
  layer_type other;
  other.name = "thrower";
  other.doc = "Throws.";
  other.make = [](const options&) { return std::make_unique<thrower>(); };
  other.cases = {{"row", {}, {{3, 5}}}};
  t.layers.add(std::move(other));
}
