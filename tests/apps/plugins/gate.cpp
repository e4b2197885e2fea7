// Plugin with an identity layer that blocks while it is constructed: it reads the pipe that the job
// names to its end. For tests that need a job preparation of arbitrary length.
#include <fstream>
#include <iterator>

#include "ops/device.hpp"
#include "runtime/job/plugin_abi.hpp"

namespace {

using namespace troupe;

class gate final : public layer {
 public:
  shapes infer(const shapes& in) const override { return in; }
  signatures supported() const override { return {{{distribution::split_0}, {}, {distribution::split_0}}}; }
  void forward(context& c, plan&, const tensors& in, const tensors&, tensors& out, saved&) const override {
    out[0].back(c.dev);
    c.dev.copy(in[0], out[0]);
  }
  void backward(context& c, plan&, const saved&, const tensors&, const tensors& grad_out, tensors& grad_in, tensors&,
                bool) const override {
    if (!grad_in[0]) return;
    grad_in[0].back(c.dev);
    c.dev.copy(grad_out[0], grad_in[0]);
  }
};

}  // namespace

std::uint32_t troupe_abi_version() { return troupe::abi_version; }

void register_plugin(troupe::tables& t) {
  option_spec pipe;
  pipe.name = "pipe";
  pipe.kind = option_kind::text;
  pipe.doc = "read to its end before the layer is made";
  layer_type row;
  row.name = "gate";
  row.doc = "y = x. Shapes: any -> same.";
  row.specs = {pipe};
  row.make = [](const options& o) {
    std::ifstream in(o.text("pipe"));
    while (in && in.get() != std::ifstream::traits_type::eof()) {
    }
    return std::make_unique<gate>();
  };
  t.layers.add(std::move(row));
}
