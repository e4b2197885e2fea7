// Plugin with a layer, y = 2 x, and a sampler that takes the training set backwards and is served
// by the data server.
#include "ops/device.hpp"
#include "runtime/job/plugin_abi.hpp"

namespace {

struct twice final : troupe::layer {
  troupe::shapes infer(const troupe::shapes& in) const override { return in; }
  troupe::signatures supported() const override { return {}; }
  void forward(troupe::context& c, troupe::plan&, const troupe::tensors& in, const troupe::tensors&, troupe::tensors& out,
               troupe::saved&) const override {
    out[0].back(c.dev);
    c.dev.copy(in[0], out[0]);
    c.dev.scale(2.0, out[0]);
  }
  void backward(troupe::context& c, troupe::plan&, const troupe::saved&, const troupe::tensors&, const troupe::tensors& grad_out,
                troupe::tensors& grad_in, troupe::tensors&, bool) const override {
    if (!grad_in[0]) return;
    grad_in[0].back(c.dev);
    c.dev.copy(grad_out[0], grad_in[0]);
    c.dev.scale(2.0, grad_in[0]);
  }
};

class backwards final : public troupe::sampler {
 public:
  explicit backwards(const troupe::sampler_config& c) : examples_(c.examples), batch_(c.batch) {}
  std::int64_t steps_per_epoch() const override { return examples_ / batch_; }
  std::vector<std::int64_t> indices(std::uint64_t step, std::int64_t first, std::int64_t count) override {
    const auto at = static_cast<std::int64_t>(step % static_cast<std::uint64_t>(steps_per_epoch())) * batch_ + first;
    std::vector<std::int64_t> list;
    for (std::int64_t k = 0; k < count; ++k) list.push_back(examples_ - 1 - at - k);
    return list;
  }

 private:
  std::int64_t examples_, batch_;
};

}  // namespace

std::uint32_t troupe_abi_version() { return troupe::abi_version; }

void register_plugin(troupe::tables& t) {
  troupe::layer_type row;
  row.name = "twice";
  row.doc = "y = 2 x. Shapes: any -> same.";
  row.make = [](const troupe::options&) { return std::make_unique<twice>(); };
  t.layers.add(std::move(row));
  t.samplers.add({"backwards",
                  "The last example first.",
                  {},
                  [](const troupe::options&, const troupe::sampler_config& c) { return std::make_unique<backwards>(c); },
                  troupe::delivery::server});
}
