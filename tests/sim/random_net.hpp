// Random nets and random partitions of them, for the test that no partition changes the computed
// values. Seeded; draws from every stock layer.
#pragma once

#include <algorithm>
#include <random>
#include <set>

#include "tests/sim/small_job.hpp"

namespace troupe::testing {

class random_net {
 public:
  explicit random_net(std::uint64_t seed) : rng_(seed) {}

  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(rng_);
  }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(rng_) < p; }

  // Draws a job on one node, without placement.
  job_spec job() {
    const auto& t = *shared_tables();
    shape_of_job s;
    s.packets = static_cast<std::uint32_t>(draw(2, 6));
    s.sub_solvers = static_cast<std::uint32_t>(draw(1, 2));
    s.fuse = chance(0.5) ? "auto" : "none";
    auto j = small_spec(s);
    j.pipeline.fuse_layers = true;
    j.seed = static_cast<std::uint64_t>(draw(1, 1000));
    j.precision = chance(0.5) ? "f64" : "fp32";
    j.train.finish.steps = j.precision == "f64" ? 3 : 1;
    j.eval.every = chance(0.3) ? 1 : 0;
    if (chance(0.2)) j.train.clip.norm = 0.05;
    j.train.lr = 0.001;  // squared losses of any drawn net must not diverge in a few steps
    j.data.values = checked(with({{"shape", std::vector<std::int64_t>{2, 8, 8}},
                                  {"classes", option_value(std::int64_t{4})},
                                  {"examples", option_value(std::int64_t{64})},
                                  {"test_examples", option_value(std::int64_t{13})}}),
                            t.sources.find("synthetic")->specs);
    j.layers.clear();
    at_ = "data";
    channels_ = 2, extent_ = 8, flat_ = false;
    for (auto n = draw(1, 4); n > 0; --n) image_layer(j);
    steps_ = chance(0.25);
    if (steps_) recurrent_layer(j);
    if (!steps_ && chance(0.3)) pooled_convolution(j);
    if (!steps_ && chance(0.5)) {
      add(j, "flatten", {at_});
      flat_ = true;
    }
    for (auto n = draw(0, 3); n > 0; --n) flat_layer(j);
    add(j, "linear", {at_}, with({{"outputs", std::int64_t{4}}}));
    const auto score = at_;
    losses(j, score);
    add(j, "accuracy", {score, "label"});
    j.layers.back().phase = "test";
    return j;
  }

  // Adds places, splits and fractions to a job. `feature` is set if a layer is split by feature:
  // sums then have another order.
  void place(job_spec& j, std::uint32_t nodes, bool& feature) {
    j.topology.workers_per_group = draw(1, std::min<std::int64_t>(3, j.pipeline.packets));
    j.topology.servers_per_group = draw(1, 3);
    if (chance(0.05)) return;  // all layers are colocated with the workers
    for (auto& l : j.layers) {
      if (chance(0.4)) continue;
      const auto kind = draw(0, 2);
      if (kind == 0) {
        l.partition = "none";
        l.key_at["partition"] = {};
        if (chance(0.8)) l.place = {"n" + std::to_string(draw(1, nodes))};
        continue;
      }
      const auto parts = draw(1, std::min<std::int64_t>(3, kind == 1 ? j.pipeline.packets : 3));
      for (std::int64_t k = 0; k < parts; ++k) l.place.push_back("n" + std::to_string(draw(1, nodes)));
      if (chance(0.6)) l.fraction = fractions(static_cast<std::size_t>(parts));
      l.key_at["partition"] = {};
      if (kind == 2 && splits(l) && !shares(j, l) && !(l.type == "linear" && l.values.integer("axis") > 1)) {
        l.partition = adds(l.type) && chance(0.4) ? "input" : "feature";
        feature = true;
      }
    }
  }

  // Sets recompute for random layers. Layers that compute together with other packets are never
  // drawn.
  void recompute(job_spec& j, double share) {
    for (auto& l : j.layers) l.recompute = chance(share);
  }

  // Sets gather for random linear layers. A plan may refuse it: all packets must be in flight, in a
  // block of the tree. Returns true if any layer gathers.
  bool gather(job_spec& j, double share) {
    bool some = false;
    for (auto& l : j.layers) {
      l.gather = l.type == "linear" && !l.recompute && chance(share);
      some = some || l.gather;
    }
    if (some && chance(0.8)) j.pipeline.sub_solvers = j.pipeline.packets;
    return some;
  }

  static bool shares(const job_spec& j, const layer_spec& l) {
    return !l.share.empty() || std::any_of(j.layers.begin(), j.layers.end(), [&](const layer_spec& other) {
      return other.share.substr(0, other.share.find('.')) == l.name;
    });
  }

  static bool splits(const layer_spec& l) {
    static const std::set<std::string> can{
        "convolution", "linear",        "relu", "dropout",      "max_pool",   "avg_pool", "flatten",      "eltwise", "sigmoid",
        "tanh",        "elu",           "gelu", "scale",        "bias",       "split",    "crop",         "pad",     "upsample",
        "unpool",      "instance_norm", "silu", "hard_sigmoid", "hard_swish", "relu6",    "channel_scale"};
    if (l.type == "permute") return l.values.get<std::vector<std::int64_t>>("order").front() == 1;
    if (l.type == "softmax") return l.values.integer("axis") > 2;
    return can.count(l.type) > 0 || (l.type == "prelu" && !l.values.flag("shared"));
  }

  // Returns true if the layer can be split along its input.
  static bool adds(const std::string& type) { return type == "convolution" || type == "linear"; }

 private:
  std::vector<double> fractions(std::size_t n) {
    std::vector<double> f(n);
    double sum = 0;
    for (auto& x : f) sum += x = static_cast<double>(draw(2, 6));
    for (auto& x : f) x /= sum;
    return f;
  }

  void add(job_spec& j, const std::string& type, std::vector<std::string> inputs, options o = {}) {
    at_ = "l" + std::to_string(j.layers.size());
    j.layers.push_back(layer_of(at_, type, std::move(inputs), std::move(o)));
  }

  void convolution(job_spec& j, const std::string& from, std::int64_t outputs) {
    const auto kernel = chance(0.5) ? std::int64_t{1} : std::int64_t{3};
    options o = with({{"outputs", outputs}, {"kernel", kernel}, {"pad", kernel / 2}});
    if (chance(0.25)) {
      const auto other = 4 - kernel;
      o.values["kernel"] = std::vector<std::int64_t>{kernel, other},
      o.values["pad"] = std::vector<std::int64_t>{kernel / 2, other / 2};
    }
    add(j, "convolution", {from}, o);
    channels_ = outputs;
  }

  // Layers that can be computed as one: a convolution and an activation, with pooling before or
  // after it, or without.
  void pooled_convolution(job_spec& j) {
    using i = std::int64_t;
    convolution(j, at_, draw(2, 6));
    const bool pools = extent_ >= 4, first = chance(0.5);
    const auto pool = [&] { add(j, "max_pool", {at_}, with({{"kernel", draw(2, 3)}, {"stride", i{2}}})); };
    if (pools && first) pool();
    add(j, chance(0.7) ? "relu" : "sigmoid", {at_});
    if (pools && !first) pool();
    if (pools) extent_ /= 2;
  }

  void image_layer(job_spec& j) {
    const auto from = at_;
    switch (draw(0, 15)) {
      case 13: return read_twice(j);
      case 14: return moved(j);
      case 15: return product(j);
      case 8: return normalisation(j);
      case 9: return activation(j);
      case 10: return resized(j);
      case 11:
        return add(j, "deconvolution", {from},
                   with({{"outputs", channels_ = draw(2, 5)}, {"kernel", std::int64_t{3}}, {"pad", std::int64_t{1}}}));
      case 12: {  // the same tensor twice, as separate outputs
        add(j, "split", {from});
        const auto both = at_;
        return add(j, "eltwise", {both, both + ".1"}, with({{"coeffs", std::vector<double>{1.5, -0.5}}}));
      }
      case 0: return convolution(j, from, draw(2, 6));
      case 1: return add(j, "relu", {from});
      case 2:
      case 3: {
        if (extent_ < 4) return add(j, "dropout", {from});
        extent_ /= 2;
        return add(j, chance(0.5) ? "max_pool" : "avg_pool", {from},
                   with({{"kernel", std::int64_t{2}}, {"stride", std::int64_t{2}}}));
      }
      case 4: return chance(0.5) ? add(j, "lrn", {from}) : excited(j, from);
      case 5: {  // two branches that join
        const auto c = draw(2, 4);
        convolution(j, from, c);
        const auto left = at_;
        convolution(j, from, c);
        if (chance(0.5)) {  // with one set of parameters
          j.layers.back().values = (j.layers.end() - 2)->values;
          j.layers.back().share = chance(0.7) ? left : left + ".weight";
        }
        return add(j, chance(0.5) ? "eltwise" : "concat", {left, at_}), void(channels_ *= j.layers.back().type == "concat" ? 2 : 1);
      }
      case 6: {  // slices, concatenated in reverse order
        if (channels_ % 2 != 0) convolution(j, from, 4);
        add(j, "slice", {at_}, with({{"parts", std::int64_t{2}}}));
        const auto cut = at_;
        add(j, "relu", {cut + ".1"});
        return add(j, "concat", {at_, cut});
      }
      default: return add(j, "dropout", {from}, with({{"ratio", 0.3}}));
    }
  }

  // Squeeze and excitation without its linear layers.
  void excited(job_spec& j, const std::string& from) {
    add(j, "avg_pool", {from}, with({{"kernel", extent_}}));
    if (chance(0.5)) add(j, "hard_sigmoid", {at_});
    add(j, "channel_scale", {from, at_});
  }

  // A layer reads one tensor through two inputs; other readers of that tensor may come before and
  // after it.
  void read_twice(job_spec& j) {
    const auto from = at_;
    std::vector<std::string> ways;
    const auto once = [&] {
      static const char* types[] = {"sigmoid", "tanh", "elu"};
      if (chance(0.3))
        convolution(j, from, channels_);
      else
        add(j, types[draw(0, 2)], {from});
      ways.push_back(at_);
    };
    for (auto n = draw(0, 2); n > 0; --n) once();
    static const char* operations[] = {"sum", "prod", "max"};
    const std::string operation = operations[draw(0, 2)];
    options o = with({{"operation", operation}});
    if (operation == "sum" && chance(0.7)) o.values["coeffs"] = std::vector<double>{1.3, -0.7};
    add(j, "eltwise", {from, from}, o);
    if (chance(0.3)) add(j, "relu", {at_});
    ways.push_back(at_);
    for (auto n = draw(0, 1); n > 0; --n) once();
    if (ways.size() > 1) add(j, "eltwise", ways);
  }

  // Any shape [N, C, ...] -> the same shape.
  void activation(job_spec& j) {
    static const char* types[] = {"sigmoid", "tanh", "elu",  "gelu",         "prelu",      "softmax",
                                  "scale",   "bias", "silu", "hard_sigmoid", "hard_swish", "relu6"};
    const std::string type = types[draw(0, 11)];
    options o;
    if (type == "prelu") o = with({{"shared", chance(0.5)}});
    if (type == "scale") o = with({{"bias", chance(0.5)}});
    add(j, type, {at_}, o);
  }
  // The epsilon keeps rounding errors small: packets have two examples.
  void normalisation(job_spec& j) {
    static const char* types[] = {"batch_norm", "batch_norm", "batch_norm", "layer_norm", "group_norm", "instance_norm"};
    const std::string type = types[draw(0, 5)];
    options o = with({{"epsilon", 0.1}, {"affine", chance(0.7)}});
    if (type == "batch_norm") o.values["momentum"] = 0.25;
    if (type == "group_norm") o.values["groups"] = channels_ % 2 == 0 ? draw(1, 2) : 1;
    add(j, type, {at_}, o);
  }
  // The axes in another order or with other extents, and back.
  void moved(job_spec& j) {
    using list = std::vector<std::int64_t>;
    const auto kind = draw(0, 2);
    if (kind == 0) return add(j, "permute", {at_}, with({{"order", list{1, 3, 2}}}));
    const list there = kind == 1 ? list{2, 3, 1} : list{-1, channels_},
               back = kind == 1 ? list{3, 1, 2} : list{channels_, extent_, -1};
    const std::string type = kind == 1 ? "permute" : "reshape", key = kind == 1 ? "order" : "shape";
    add(j, type, {at_}, with({{key, there}}));
    if (chance(0.5)) add(j, "sigmoid", {at_});
    add(j, type, {at_}, with({{key, back}}));
  }
  // Products of the rows of images with each other, and weights of them.
  void product(job_spec& j) {
    const auto from = at_;
    if (chance(0.5)) add(j, "tanh", {from});
    add(j, "matmul", {from, at_}, with({{"transpose_b", true}, {"scale", 1.0 / static_cast<double>(extent_)}}));
    if (chance(0.4)) return;
    add(j, "softmax", {at_}, with({{"axis", std::int64_t{3}}, {"causal", chance(0.7)}}));
    add(j, "matmul", {at_, from});
  }
  // Upsamples and pools, pools and unpools, or crops and pads: the shape stays.
  void resized(job_spec& j) {
    using i = std::int64_t;
    const auto from = at_;
    if (extent_ > 1 && chance(0.3)) {
      const auto windows = with({{"kernel", i{2}}, {"stride", i{2}}});
      add(j, "max_pool", {from}, windows);
      if (chance(0.5)) add(j, "tanh", {at_});
      return add(j, "unpool", {at_, from}, windows);
    }
    if (chance(0.5)) {
      add(j, "upsample", {at_}, with({{"mode", std::string(chance(0.5) ? "bilinear" : "nearest")}}));
      return add(j, "max_pool", {at_}, with({{"kernel", i{2}}, {"stride", i{2}}}));
    }
    static const char* modes[] = {"zero", "edge", "reflect"};
    const auto offset = draw(0, 1);
    add(j, "crop", {at_}, with({{"size", std::vector<i>{extent_ - 1, extent_ - 1}}, {"offsets", std::vector<i>{offset}}}));
    const auto mode = std::string(modes[draw(0, extent_ > 2 ? 2 : 1)]);
    add(j, "pad", {at_}, with({{"top", offset}, {"left", offset}, {"bottom", 1 - offset}, {"right", 1 - offset}, {"mode", mode}}));
  }
  void losses(job_spec& j, const std::string& score) {
    const auto which = draw(0, 6);
    if (which == 6) {  // an rbm that learns the scores and passes a gradient on (algorithm "bp")
      add(j, "rbm", {score}, with({{"units", draw(1, 6)}, {"steps", draw(1, 2)}}));
      const auto machine = at_;
      add(j, "linear", {machine + ".1"}, with({{"outputs", std::int64_t{4}}}));
      add(j, "softmax_loss", {at_, "label"});
      add(j, "squared_error", {machine + ".2", score});
      j.layers.back().phase = "test";
      return;
    }
    if (which == 3) return add(j, "hinge", {score, "label"}, with({{"norm", std::string(chance(0.5) ? "l1" : "l2")}}));
    if (which == 4) return add(j, "sigmoid_cross_entropy", {score, "label"});
    add(j, "softmax_loss", {score, "label"});
    if (which != 5) return;
    add(j, "linear", {j.layers[j.layers.size() - 2].inputs[0]}, with({{"outputs", std::int64_t{4}}}));  // from the input of `score`
    add(j, "euclidean", {score, at_});
  }

  // The channels become the time axis.
  void recurrent_layer(job_spec& j) {
    const char* types[] = {"rnn", "lstm", "gru"};
    for (auto n = draw(1, 2); n > 0; --n) add(j, types[draw(0, 2)], {at_}, with({{"units", draw(2, 6)}, {"bias", chance(0.7)}}));
  }

  void flat_layer(job_spec& j) {
    if (steps_ && chance(0.4)) return add(j, "linear", {at_}, with({{"outputs", draw(3, 8)}, {"axis", std::int64_t{2}}}));
    if (steps_ && chance(0.3)) return recurrent_layer(j);
    if (steps_ && chance(0.3))
      return add(j, "sequence_convolution", {at_},
                 with({{"outputs", draw(2, 6)},
                       {"kernel", draw(1, 3)},
                       {"dilation", draw(1, 2)},
                       {"pad", std::string(chance(0.5) ? "causal" : "same")}}));
    switch (draw(0, 4)) {
      case 3: return activation(j);
      case 4: {  // the label's embedding, concatenated with the features
        add(j, "linear", {at_}, with({{"outputs", draw(3, 8)}}));
        const auto made = at_;
        steps_ = false;
        add(j, "embedding", {"label"}, with({{"vocabulary", std::int64_t{4}}, {"outputs", draw(1, 5)}}));
        return add(j, "concat", {made, at_});
      }
      case 0: return add(j, "relu", {at_});
      case 1: return add(j, "dropout", {at_}, with({{"ratio", 0.25}}));
      default: steps_ = false; return add(j, "linear", {at_}, with({{"outputs", draw(3, 12)}}));
    }
  }

  std::mt19937_64 rng_;
  std::string at_;
  std::int64_t channels_ = 0, extent_ = 0;
  bool flat_ = false, steps_ = false;  // steps_: the shape is [N, T, features], as for recurrent layers
};

}  // namespace troupe::testing
