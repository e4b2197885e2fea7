#include "runtime/model/share.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "ops/device.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

// The part of the interface that both wrappers pass on. `shapes` of the interface have further
// inputs at their end.
struct wrapping : layer {
  std::shared_ptr<const layer> inner;
  std::size_t own_inputs;  // of the inner layer
  wrapping(std::shared_ptr<const layer> l, std::size_t inputs) : inner(std::move(l)), own_inputs(inputs) {}

  shapes own(const shapes& in) const {
    return {in.begin(), in.begin() + static_cast<std::ptrdiff_t>(std::min(own_inputs, in.size()))};
  }
  // Only whole examples: parameters have no part of a layer.
  signatures whole_examples() const {
    signatures list;
    for (auto& s : inner->supported())
      if (std::all_of(s.outputs.begin(), s.outputs.end(), [](distribution d) { return d == distribution::split_0; }))
        list.push_back(std::move(s));
    return list;
  }
  carry_specs carries(const shapes& in) const override { return inner->carries(own(in)); }
  struct backward_needs backward_needs(const shapes& in) const override {
    return inner->backward_needs(own(in));
  }
  bool differentiable(std::size_t input) const override { return input >= own_inputs || inner->differentiable(input); }
  bool test_phase_only() const override { return inner->test_phase_only(); }
  holding holds(std::size_t input, const shapes& in) const override {
    return input >= own_inputs ? holding::values : inner->holds(input, own(in));
  }
  std::int64_t ids_below(std::size_t input, const shapes& in) const override {
    return input >= own_inputs ? 0 : inner->ids_below(input, own(in));
  }
  bool takes_absent_gradients() const override { return inner->takes_absent_gradients(); }
  double flops(const shapes& in) const override { return inner->flops(own(in)); }
  std::unique_ptr<plan> prepare(device& d, const shapes& in, phase ph, dtype t) const override {
    return inner->prepare(d, own(in), ph, t);
  }
};

// A layer whose parameters `given` (their positions, ascending) are its last inputs.
struct sharing_layer final : wrapping {
  std::vector<std::size_t> given;
  shapes dims;  // of these parameters
  sharing_layer(std::shared_ptr<const layer> l, std::size_t inputs, std::vector<std::size_t> g, shapes d)
      : wrapping(std::move(l), inputs), given(std::move(g)), dims(std::move(d)) {}

  bool is_given(std::size_t param) const { return std::find(given.begin(), given.end(), param) != given.end(); }
  shapes infer(const shapes& in) const override { return inner->infer(own(in)); }
  signatures supported() const override {
    auto list = whole_examples();
    for (auto& s : list) {
      s.inputs.insert(s.inputs.end(), given.size(), distribution::broadcast);
      for (std::size_t k = given.size(); k-- > 0;)
        if (given[k] < s.params.size()) s.params.erase(s.params.begin() + static_cast<std::ptrdiff_t>(given[k]));
    }
    return list;
  }
  param_specs params(const shapes& in) const override {
    param_specs mine;
    auto all = inner->params(own(in));
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!is_given(i)) mine.push_back(std::move(all[i]));
    return mine;
  }
  // The parameters of the inner layer, of its own and of the last inputs.
  tensors joined(const tensors& params, const tensors& last) const {
    tensors all;
    std::size_t next = 0, shared = 0;
    while (all.size() < params.size() + given.size()) {
      if (shared < given.size() && given[shared] == all.size()) {
        all.push_back(last[shared].reshaped(dims[shared]));
        ++shared;
      } else {
        all.push_back(params[next++]);
      }
    }
    return all;
  }
  void forward(context& c, plan& p, const tensors& in, const tensors& params, tensors& out, saved& s) const override {
    const auto begin = in.begin() + static_cast<std::ptrdiff_t>(own_inputs);
    const tensors last(begin, in.end());
    inner->forward(c, p, {in.begin(), begin}, joined(params, last), out, s);
    if (c.ph == phase::train) s.extra.insert(s.extra.end(), last.begin(), last.end());
  }
  void backward(context& c, plan& p, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    assert(!accumulate);  // gradients of inputs are assigned
    auto mine = s;
    if (mine.inputs.size() > own_inputs) mine.inputs.resize(own_inputs);
    const auto begin = s.extra.end() - static_cast<std::ptrdiff_t>(given.size());
    const tensors last(begin, s.extra.end());
    mine.extra.resize(s.extra.size() - given.size());
    tensors grads;  // of all parameters of the inner layer
    std::size_t next = 0;
    for (std::size_t i = 0, shared = 0; i < grad_params.size() + given.size(); ++i) {
      if (shared == given.size() || given[shared] != i) {
        grads.push_back(std::move(grad_params[next++]));
        continue;
      }
      const auto& wanted = grad_in[own_inputs + shared];
      grads.push_back(wanted ? tensor::declare(dims[shared], wanted.type()) : tensor{});
      ++shared;
    }
    tensors before(grad_in.begin(), grad_in.begin() + static_cast<std::ptrdiff_t>(own_inputs));
    inner->backward(c, p, mine, joined(params, last), grad_out, before, grads, accumulate);
    std::move(before.begin(), before.end(), grad_in.begin());
    next = 0;
    for (std::size_t i = 0, shared = 0; i < grads.size(); ++i) {
      if (shared == given.size() || given[shared] != i) {
        grad_params[next++] = std::move(grads[i]);
        continue;
      }
      auto& to = grad_in[own_inputs + shared++];
      if (to) to = grads[i].reshaped(to.dims());
    }
  }
};

// A layer whose parameters `lent` (their positions, in any order) are also its last outputs.
struct lending_layer final : wrapping {
  std::size_t own_outputs;
  std::vector<std::size_t> lent;
  shapes dims;  // of these outputs
  lending_layer(std::shared_ptr<const layer> l, std::size_t inputs, std::size_t outputs)
      : wrapping(std::move(l), inputs), own_outputs(outputs) {}

  shapes infer(const shapes& in) const override {
    auto out = inner->infer(in);
    out.insert(out.end(), dims.begin(), dims.end());
    return out;
  }
  signatures supported() const override {
    auto list = whole_examples();
    for (auto& s : list) s.outputs.insert(s.outputs.end(), lent.size(), distribution::broadcast);
    return list;
  }
  param_specs params(const shapes& in) const override { return inner->params(in); }
  void forward(context& c, plan& p, const tensors& in, const tensors& params, tensors& out, saved& s) const override {
    const auto end = out.begin() + static_cast<std::ptrdiff_t>(own_outputs);
    tensors mine(end - static_cast<std::ptrdiff_t>(own_outputs), end);
    inner->forward(c, p, in, params, mine, s);
    std::move(mine.begin(), mine.end(), out.begin());
    for (std::size_t k = 0; k < lent.size(); ++k) out[own_outputs + k] = params[lent[k]].reshaped(dims[k]);
  }
  void backward(context& c, plan& p, const saved& s, const tensors& params, const tensors& grad_out, tensors& grad_in,
                tensors& grad_params, bool accumulate) const override {
    auto mine = s;
    if (mine.outputs.size() > own_outputs) mine.outputs.resize(own_outputs);
    const auto end = grad_out.begin() + static_cast<std::ptrdiff_t>(own_outputs);
    inner->backward(c, p, mine, params, {grad_out.begin(), end}, grad_in, grad_params, accumulate);
    for (std::size_t k = 0; k < lent.size(); ++k) {
      auto& to = grad_params[lent[k]];
      const auto& more = grad_out[own_outputs + k];
      if (to && more) c.dev.apply(binary::add, to, more.reshaped(to.dims()), to);
    }
  }
};

// The shape of a parameter as an output. Axis 0 of an activation that has as many elements as a
// packet has examples is the axis of examples; that of a parameter must not look so.
std::optional<shape> as_output(const shape& param, std::int64_t examples) {
  const auto count = param.count();
  if (examples != 1) return shape{1, count};
  return count == 1 ? std::nullopt : std::optional(shape{count, 1});
}

std::optional<std::string> check_layer_kind(const graph_layer& l, const graph_layer& owner) {
  for (const auto* one : {&l, &owner}) {
    const auto who = one == &l ? std::string("it") : "layer " + in_quotes(one->name);
    if (!one->maths) return std::string(who + " has mistakes of its own");
    if (one->maths->is_loss()) return std::string(who + " is a loss, which cannot share parameters");
    if (one->maths->joint()) return std::string(who + " computes the packets of a step together and cannot share parameters");
    if (one->gather) return std::string(who + " has gather = true and cannot share parameters");
    if (one->spec->partition == "feature" || one->spec->partition == "input")
      return std::string(who + " is split by " + one->spec->partition +
                         ": parameters can be shared only by layers with partition = \"batch\"");
  }
  return std::nullopt;
}

// The output of `owner` that is its parameter `param`; adds it if there is none yet.
std::optional<std::uint16_t> output_of(graph_layer& owner, std::size_t param, const shape& dims) {
  std::shared_ptr<lending_layer> lender;
  if (const auto* now = dynamic_cast<const lending_layer*>(owner.maths.get())) {
    const auto at = std::find(now->lent.begin(), now->lent.end(), param);
    if (at != now->lent.end())
      return static_cast<std::uint16_t>(now->own_outputs + static_cast<std::size_t>(at - now->lent.begin()));
    lender = std::make_shared<lending_layer>(*now);
  } else {
    lender = std::make_shared<lending_layer>(owner.maths, owner.in.size(), owner.out.size());
  }
  if (owner.out.size() >= static_cast<std::size_t>(max_outputs)) return std::nullopt;
  lender->lent.push_back(param);
  lender->dims.push_back(dims);
  owner.maths = std::move(lender);
  owner.out.push_back(dims);
  ++owner.shared_out;
  return static_cast<std::uint16_t>(owner.out.size() - 1);
}

}  // namespace

std::pair<std::string, std::string> shared_name(const std::string& share) {
  const auto dot = share.find('.');
  return dot == std::string::npos ? std::pair(share, std::string()) : std::pair(share.substr(0, dot), share.substr(dot + 1));
}

graph_layer as_if_alone(const model_graph& g, const graph_layer& l) {
  auto alone = l;
  if (const auto* lends = dynamic_cast<const lending_layer*>(alone.maths.get())) {
    alone.out.resize(lends->own_outputs);
    alone.maths = std::shared_ptr<const layer>(lends->inner);
  }
  if (const auto* shares = dynamic_cast<const sharing_layer*>(alone.maths.get())) {
    for (std::size_t k = 0; k < shares->given.size(); ++k) {
      const auto from = l.inputs[shares->own_inputs + k];
      const auto& owner = g.layers[static_cast<std::size_t>(from.layer)];
      const auto* lends = dynamic_cast<const lending_layer*>(owner.maths.get());
      assert(lends);
      alone.params.insert(alone.params.begin() + static_cast<std::ptrdiff_t>(shares->given[k]),
                          owner.params[lends->lent[from.output - lends->own_outputs]]);
    }
    alone.inputs.resize(shares->own_inputs);
    alone.in.resize(shares->own_inputs);
    alone.grad_in_wanted.resize(std::min(alone.grad_in_wanted.size(), shares->own_inputs));
    alone.maths = std::shared_ptr<const layer>(shares->inner);
  }
  alone.shared_in = alone.shared_out = 0;
  return alone;
}

std::string did_you_mean_layer(const job_spec& job, const std::string& name) {
  std::vector<std::string> known;
  for (const auto& s : job.layers) known.push_back(s.name);
  return did_you_mean(name, known);
}

std::optional<std::string> share_parameters(model_graph& g, graph_layer& l, graph_layer& owner, dtype activations) {
  const auto name = shared_name(l.spec->share).second;
  if (activations == dtype::bf16) return std::string("layers of a bf16 job cannot share parameters: use precision = \"fp32\"");
  if (auto wrong = check_layer_kind(l, owner)) return wrong;
  const auto specs = l.maths->params(l.in);
  std::vector<std::size_t> given;
  shapes dims;
  std::vector<tensor_ref> from;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!name.empty() && specs[i].name != name) continue;
    const auto same =
        std::find_if(owner.params.begin(), owner.params.end(), [&](auto p) { return g.params[p].spec.name == specs[i].name; });
    if (same == owner.params.end()) continue;
    const auto& theirs = g.params[*same];
    if (!(theirs.spec.dims == specs[i].dims))
      return std::string("its parameter " + in_quotes(specs[i].name) + " has shape " + specs[i].dims.to_string() + ", but " +
                         in_quotes(theirs.full_name) + " has shape " + theirs.spec.dims.to_string());
    if (!theirs.spec.trainable)
      return std::string(in_quotes(theirs.full_name) + " is a running statistic, which layers cannot share");
    const auto out = as_output(theirs.spec.dims, g.packet_examples);
    if (!out) return std::string("a parameter with one element cannot be shared in packets of one example");
    const auto port = output_of(owner, theirs.index_in_layer, *out);
    if (!port) return std::string("layer " + in_quotes(owner.name) + " has too many outputs");
    given.push_back(i);
    dims.push_back(specs[i].dims);
    from.push_back({static_cast<std::int32_t>(owner.index), *port});
  }
  if (given.empty()) {
    std::vector<std::string> theirs, mine;
    for (auto p : owner.params) theirs.push_back(g.params[p].spec.name);
    for (const auto& s : specs) mine.push_back(s.name);
    const auto has = [](const std::vector<std::string>& list) {
      return list.empty() ? std::string("no parameters") : joined(list);
    };
    const auto own = owner.shared_in > 0 ? " of its own; share those of the layer that has them" : "";
    return std::string("it shares no parameter with " + in_quotes(owner.name) + ": it has " + has(mine) + ", and " +
                       in_quotes(owner.name) + " has " + has(theirs) + own);
  }
  const auto inputs = l.inputs.size();
  l.shared_in = static_cast<std::uint16_t>(given.size());
  for (const auto& f : from) {
    l.inputs.push_back(f);
    l.in.push_back(owner.out[f.output]);
  }
  l.maths = std::make_shared<sharing_layer>(std::move(l.maths), inputs, std::move(given), std::move(dims));
  return std::nullopt;
}

}  // namespace troupe
