// Fusion of a convolution with its successors, bit-identical to the separate layers: a max_pool and
// an activation, and a further convolution if the device can keep the tensor between them in its
// own layout (blocks_between), which avoids two reorderings.
#include "ops/layers/activation.hpp"
#include "ops/layers/convolution.hpp"

namespace troupe {

bool convolution_with_tail::take(const layer& next) {
  if (const auto* a = dynamic_cast<const activation*>(&next); a && !maps && !device::needs_input(a->function())) {
    maps = true, f = a->function(), parameter = a->parameter();
    return true;
  }
  // max_pool and relu commute: the maximum is the same, and a window whose elements are all
  // negative passes no gradient in either order.
  const bool commutes = !maps || (f == unary::relu && parameter == 0.0);
  if (auto p = as_max_pool(next); p && !pool && commutes) {
    pool = std::move(p);
    return true;
  }
  return false;
}

conv_tail convolution_with_tail::tail(const shape& x) const {
  return {.pools = pool != nullptr,
          .maps = maps,
          .window = pool ? pool->geometry(base.infer({x})[0]) : pool_geometry{},
          .f = f,
          .parameter = parameter};
}

conv_geometry convolution_with_tail::geometry(const pass& p) const {
  conv_geometry g = base.geometry(p.x.dims());
  g.own_x = p.own_x, g.own_y = p.own_y;
  return g;
}

void convolution_with_tail::forward(context& c, pass& p) const {
  if (pool) p.index = tensor::allocate(c.dev, p.y.dims(), dtype::i32);
  c.dev.conv_tail_forward(geometry(p), tail(p.x.dims()), p.x, p.params[0], base.bias ? p.params[1] : tensor(), backed(c.dev, p.y),
                          p.index);
}

void convolution_with_tail::backward(context& c, const pass& p, const tensor& dy, tensor& dx, std::span<tensor> grad_params,
                                     bool accumulate) const {
  base.backward(c, geometry(p), tail(p.x.dims()), p, dy, dx, grad_params, accumulate);
}

namespace {

// saved::extra holds the tensors between the links, then index if the last link pools.
struct chain final : layer {
  std::vector<convolution_with_tail> links;  // only the last may pool

  // Shapes of every link's x, and of the result.
  shapes between(const shape& x) const {
    shapes all{x};
    for (const auto& l : links) all.push_back(l.infer({all.back()})[0]);
    return all;
  }
  shapes infer(const shapes& in) const override {
    shapes at = in;
    for (const auto& l : links) at = l.infer(at);
    return at;
  }
  signatures supported() const override {
    if (links.size() == 1) return links[0].base.supported();
    std::size_t count = 0;
    for (const auto& l : links) count += l.param_count();
    return alike({distribution::split_0, distribution::broadcast}, 1, count);
  }
  param_specs params(const shapes& in) const override {
    const auto at = between(in[0]);
    param_specs all;
    for (std::size_t l = 0; l < links.size(); ++l)
      for (auto& p : links[l].base.params({at[l]})) all.push_back(std::move(p));
    return all;
  }
  double flops(const shapes& in) const override {
    const auto at = between(in[0]);
    double sum = 0.0;
    for (std::size_t l = 0; l < links.size(); ++l) sum += links[l].base.flops({at[l]});
    return sum;
  }
  struct backward_needs backward_needs(const shapes& in) const override {
    const auto at = between(in[0]);
    std::int64_t kept = links.back().pool ? at.back().count() : 0;
    for (std::size_t l = 1; l < links.size(); ++l) kept += at[l].count();
    return {.inputs = true, .outputs = links.back().maps, .saved_bytes = kept * 4};
  }
  std::shared_ptr<const layer> absorb(const layer& next, const shapes&) const override {
    auto longer = std::make_shared<chain>(*this);
    if (longer->links.back().take(next)) return longer;
    const auto* to = dynamic_cast<const convolution*>(&next);
    if (to == nullptr || links.back().pool || !blocks_between(links.back().base.base, to->base)) return nullptr;
    longer->links.emplace_back(*to);
    return longer;
  }

  using pass = convolution_with_tail::pass;
  pass pass_of(std::size_t l, const tensors& params) const {
    std::size_t first = 0;
    for (std::size_t before = 0; before < l; ++before) first += links[before].param_count();
    pass p;
    p.own_x = l > 0, p.own_y = l + 1 < links.size();
    p.params = std::span(params).subspan(first, links[l].param_count());
    return p;
  }
  void forward(context& c, plan&, const tensors& in, const tensors& params, tensors& out, saved& s) const override {
    s.extra.clear();
    for (std::size_t l = 0; l < links.size(); ++l) {
      pass p = pass_of(l, params);
      p.x = l == 0 ? in[0] : s.extra.back();
      p.y = p.own_y ? tensor::declare(links[l].infer({p.x.dims()})[0], p.x.type()) : out[0];
      links[l].forward(c, p);
      if (p.own_y)
        s.extra.push_back(p.y);
      else
        out[0] = p.y;
      if (p.index) s.extra.push_back(p.index);
    }
  }
  void backward(context& c, plan&, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    tensor dy = grad_out[0], none;
    std::span<tensor> gradients = grad_params;
    for (std::size_t l = links.size(); l-- > 0;) {
      pass p = pass_of(l, params);
      p.x = l == 0 ? s.inputs[0] : s.extra[l - 1];
      if (links[l].maps) p.y = p.own_y ? s.extra[l] : s.outputs[0];
      if (links[l].pool) p.index = s.extra.back();
      const auto own = gradients.last(links[l].param_count());
      gradients = gradients.first(gradients.size() - own.size());
      tensor made = tensor::declare(p.x.dims(), p.x.type());
      tensor& dx = l > 0 ? made : wanted(grad_in, 0) ? grad_in[0] : none;
      links[l].backward(c, p, dy, dx, own, accumulate);
      dy = dx;
    }
  }
};

}  // namespace

std::shared_ptr<const layer> convolution_chain(const convolution& first, const layer& next, const shapes& in) {
  chain one;
  one.links.emplace_back(first);
  return one.absorb(next, in);
}

}  // namespace troupe
