#include "runtime/cost/packet_memory.hpp"

#include <algorithm>
#include <map>

#include "runtime/model/maths_steps.hpp"

namespace troupe {
namespace {

double bytes_of(const shape& s, dtype t) { return bytes_of(s.count(), t); }

class walk {
 public:
  walk(const std::vector<hosted_step>& steps, dtype t, bool training)
      : layers_(steps), type_(t), training_(training), again_(steps.size(), false) {
    for (std::size_t i = 0; i < layers_.size(); ++i) position_[layers_[i].last->index] = i;
    for (std::size_t i = 0; i < layers_.size(); ++i)
      for (std::size_t o = 0; o < out_of(i).size(); ++o) output(i, o);
    for (std::size_t i = 0; i < layers_.size(); ++i)
      for (std::size_t k = 0; runs(i) && k < at(i).inputs.size(); ++k) value_of(i, k).readers.push_back(i);
    for (auto& [key, v] : values_) place(v);
  }

  packet_bytes go() {
    out_.kept.assign(layers_.size(), 0);
    out_.working.assign(layers_.size(), 0);
    for (std::size_t i = 0; i < layers_.size(); ++i)
      if (runs(i)) forward(i);
    for (std::size_t i = layers_.size(); training_ && i-- > 0;)
      if (runs(i) && at(i).wants_backward) backward(i);
    return std::move(out_);
  }

 private:
  // One tensor of the stage: an output of a hosted layer, or an input that comes from another stage
  // or a loader.
  struct value {
    double bytes = 0;
    int maker = -1;
    bool loaded = false;               // from a loader, which counts it
    std::vector<std::size_t> readers;  // steps of this node
    bool kept = false;                 // for a backward
    std::size_t until = 0;             // the step whose backward releases it
    double gradients = 0;              // bytes of its gradients that are held
  };

  const graph_layer& at(std::size_t i) const { return *layers_[i].first; }
  const shapes& out_of(std::size_t i) const { return layers_[i].last->out; }
  struct backward_needs needs(std::size_t i) const {
    return layers_[i].maths->backward_needs(at(i).in);
  }
  bool runs(std::size_t i) const { return training_ ? at(i).in_train : at(i).in_test; }
  bool recomputes(std::size_t i) const { return training_ && at(i).recompute; }
  // Layers declare saved_bytes for f32. Of bf16 they save f32 too.
  double saved(std::size_t i) const {
    if (!training_ || !at(i).wants_backward) return 0;
    return static_cast<double>(needs(i).saved_bytes) * static_cast<double>(size_of(wide_of(type_))) / 4;
  }
  // Memory in which a convolution rearranges or transforms its weights and a block of images.
  double workspace(std::size_t i) const {
    constexpr double block = 32;
    const bool sequence = at(i).type == "sequence_convolution";  // also turns all examples of its input and output
    if (at(i).type != "convolution" && at(i).type != "deconvolution" && !sequence) return 0;
    const auto images = static_cast<double>(at(i).in[0][0]);
    const auto both = bytes_of(at(i).in[0], wide_of(type_)) + bytes_of(at(i).out[0], wide_of(type_));
    const auto laid_out = layers_[i].weights + both * (std::min(1.0, block / images) + (sequence ? 1.0 : 0.0));
    return std::max(laid_out, layers_[i].transforms);
  }

  value& output(std::size_t i, std::size_t o) {
    const auto [v, fresh] = values_.try_emplace({static_cast<std::int32_t>(layers_[i].last->index), static_cast<std::uint16_t>(o)});
    if (fresh) v->second.bytes = bytes_of(out_of(i)[o], type_), v->second.maker = static_cast<int>(i);
    return v->second;
  }
  value& value_of(std::size_t i, std::size_t k) {
    const auto t = at(i).inputs[k];
    if (t.layer >= 0)
      if (const auto maker = position_.find(static_cast<std::uint32_t>(t.layer)); maker != position_.end())
        return output(maker->second, t.output);
    const auto [v, fresh] = values_.try_emplace({t.layer, t.output});
    if (fresh) v->second.bytes = bytes_of(at(i).in[k], type_), v->second.loaded = t.layer < 0;
    return v->second;
  }
  bool colocated(const value& v, std::size_t reader) const {
    return v.maker >= 0 && layers_[static_cast<std::size_t>(v.maker)].stage == layers_[reader].stage;
  }

  // Decides whether a backward needs the tensor, and which step's backward is the last to need it.
  void place(value& v) const {
    if (!training_) return;
    const bool made_again = v.maker >= 0 && recomputes(static_cast<std::size_t>(v.maker));
    const auto keep = [&](std::size_t until) { v.until = v.kept ? std::min(v.until, until) : until, v.kept = true; };
    if (const auto m = static_cast<std::size_t>(v.maker); v.maker >= 0 && at(m).wants_backward && !made_again)
      if (needs(m).outputs) keep(m);
    for (auto r : v.readers) {
      if (made_again && colocated(v, r)) continue;
      if (recomputes(r))
        keep(colocated(v, r) ? static_cast<std::size_t>(v.maker) : r);
      else if (at(r).wants_backward && needs(r).inputs)
        keep(r);
    }
  }

  void note(std::size_t i, double beyond) {
    out_.working[i] = std::max(out_.working[i], beyond);
    if (live_ + beyond <= out_.peak) return;
    out_.peak = live_ + beyond;
    out_.workspace = beyond;
  }
  bool replaces_input(std::size_t i) {
    const auto& l = at(i);
    if (!layers_[i].maths->in_place() || (training_ && l.wants_backward && needs(i).inputs)) return false;
    const auto& v = value_of(i, 0);
    return !v.kept && !v.loaded && v.readers.back() == i;
  }

  void forward(std::size_t i) {
    for (std::size_t k = 0; k < at(i).inputs.size(); ++k) arrive(value_of(i, k), i);
    const bool in_place = replaces_input(i);
    for (std::size_t o = 0; o < out_of(i).size(); ++o) {
      auto& v = output(i, o);
      if (!in_place) live_ += v.bytes;
      if (v.kept) out_.kept[i] += v.bytes;
    }
    live_ += saved(i);
    note(i, workspace(i));
    if (recomputes(i))
      live_ -= saved(i);
    else
      out_.kept[i] += saved(i);
    for (std::size_t k = 0; k < at(i).inputs.size(); ++k)
      if (auto& v = value_of(i, k); !v.kept && v.readers.back() == i && !v.loaded && !(in_place && k == 0)) live_ -= v.bytes;
    for (std::size_t o = 0; o < out_of(i).size(); ++o)
      if (auto& v = output(i, o); v.readers.empty() && !v.kept) live_ -= v.bytes;
  }
  // An input from another node or worker takes memory when its first reader runs.
  void arrive(value& v, std::size_t reader) {
    if (v.maker >= 0 || v.loaded || v.readers.front() != reader) return;
    live_ += v.bytes;
    if (v.kept) out_.kept[reader] += v.bytes;
  }

  void make_again(std::size_t i) {
    if (again_[i]) return;
    again_[i] = true;
    for (std::size_t k = 0; k < at(i).inputs.size(); ++k) demand(i, k);
    for (std::size_t o = 0; o < out_of(i).size(); ++o)
      if (!output(i, o).kept) live_ += output(i, o).bytes;
    live_ += saved(i);
    note(i, workspace(i));
  }
  void demand(std::size_t i, std::size_t k) {
    const auto& v = value_of(i, k);
    if (v.maker >= 0 && colocated(v, i) && recomputes(static_cast<std::size_t>(v.maker)))
      make_again(static_cast<std::size_t>(v.maker));
  }

  void backward(std::size_t i) {
    const auto& l = at(i);
    double incoming = 0;
    for (std::size_t o = 0; o < out_of(i).size(); ++o) {  // also from consumers on other nodes; they are summed
      auto& v = output(i, o);
      live_ += std::max(0.0, v.bytes - v.gradients);
      note(i, 0);
      live_ -= std::max(0.0, v.gradients - v.bytes);
      incoming += v.bytes;
    }
    if (recomputes(i))
      make_again(i);
    else if (needs(i).inputs)
      for (std::size_t k = 0; k < l.inputs.size(); ++k) demand(i, k);
    bool in_place = layers_[i].maths->in_place();
    for (std::size_t k = 0; k < l.inputs.size(); ++k) {
      if (!l.grad_in_wanted[k]) continue;
      auto& v = value_of(i, k);
      if (std::exchange(in_place, false))
        incoming = 0;
      else
        live_ += v.bytes;
      v.gradients += v.bytes;
    }
    note(i, workspace(i));
    live_ -= incoming + saved(i);
    for (std::size_t k = 0; k < l.inputs.size(); ++k)
      if (auto& v = value_of(i, k); l.grad_in_wanted[k] && v.maker < 0) live_ -= v.bytes;  // it was sent away
    for (std::size_t o = 0; recomputes(i) && o < out_of(i).size(); ++o)
      if (!output(i, o).kept) live_ -= output(i, o).bytes;
    for (auto& [key, v] : values_)
      if (v.kept && v.until == i && !v.loaded) live_ -= v.bytes;
  }

  const std::vector<hosted_step>& layers_;
  const dtype type_;
  const bool training_;
  std::map<std::uint32_t, std::size_t> position_;  // by layer
  std::map<std::pair<std::int32_t, std::uint16_t>, value> values_;
  std::vector<bool> again_;
  double live_ = 0;
  packet_bytes out_;
};

// Memory for Winograd's algorithm, whose largest patches have 36 elements: the transformed kernels,
// and a block of tiles of both factors.
double transforms_of(const shape& kernels) {
  constexpr double elements = 36, tiles = 256;
  if (kernels.rank() != 4 || kernels[2] != kernels[3] || (kernels[2] != 3 && kernels[2] != 5)) return 0;
  const auto a = static_cast<double>(kernels[0]), b = static_cast<double>(kernels[1]);
  return elements * (a * b + (a + b) * tiles) * static_cast<double>(size_of(dtype::f32));
}

}  // namespace

std::vector<hosted_step> hosted_in(const job_plan& p, const model_graph& g, const role_plan& stage, dtype t) {
  const auto part = [&](std::size_t i) { return stage.parts.empty() ? nullptr : stage.parts[i].get(); };
  std::vector<const graph_layer*> here;
  for (std::size_t i = 0; i < stage.layers.size(); ++i) here.push_back(part(i) ? &part(i)->as : &g.layers[stage.layers[i]]);
  std::vector<hosted_step> list;
  for (const auto& step : maths_steps(g, here, p.fuse_layers)) {
    hosted_step h{here[step.first()], here[step.last()], step.maths, stage.id};
    for (auto i : step.at) {
      double bytes = 0;
      for (std::size_t q = 0; q < here[i]->params.size(); ++q) {
        const shape& dims = part(i) ? part(i)->params[q] : g.params[here[i]->params[q]].spec.dims;
        bytes += bytes_of(dims, t);
        h.transforms = std::max(h.transforms, transforms_of(dims));
      }
      h.weights += bytes;
      h.delayed += bytes * p.delay_of(here[i]->index);
    }
    list.push_back(std::move(h));
  }
  return list;
}

packet_bytes follow_packet(const std::vector<hosted_step>& steps, dtype t, bool training) { return walk(steps, t, training).go(); }

}  // namespace troupe
