// Random jobs that Caffe can express, by seed. Layers are drawn one after the other; each takes
// tensors that are there, and stays if its layer type accepts their shapes. At the end all tensors
// that nothing reads are flattened and concatenated, and scored.
#pragma once

#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/job/tables.hpp"
#include "runtime/node/config/toml_text.hpp"

namespace troupe::caffe::nets {

class random_job {
 public:
  random_job(std::uint64_t seed, const tables& all) : rng_(seed), all_(all) {}

  std::string text() {
    batch_ = in(2, 4);  // batch norms of one value cannot be trained
    shape data{batch_, in(1, 4), in(3, 9), in(3, 9)};
    out_ = "[job]\nname = \"random-" + std::to_string(in(0, 999)) + "\"\n[data]\nsource = \"synthetic\"\nshape = [" +
           std::to_string(data[1]) + ", " + std::to_string(data[2]) + ", " + std::to_string(data[3]) +
           "]\nclasses = 4\nbatch = " + std::to_string(batch_) + "\n";
    tensors_ = {{"data", data}};
    for (auto n = in(1, 14); n > 0; --n) layer();
    finish();
    return out_ + "[train.dynamics]\nrule = \"sgd\"\n[train.finish]\nsteps = 1\n";
  }

 private:
  using i = std::int64_t;
  struct made_tensor {
    std::string name;
    shape dims;
    std::string type = {};  // of its layer
    bool used = false;
  };
  struct draft_layer {
    std::string type;
    std::map<std::string, option_value, std::less<>> values;  // options other than fillers
    std::string more;                                         // further keys as text
    std::size_t inputs = 1;
    bool image = false;  // takes images only
  };

  i in(i least, i most) { return std::uniform_int_distribution<i>(least, most)(rng_); }
  bool chance() { return in(0, 1) == 1; }
  double number(i most) { return static_cast<double>(in(1, most)) / 8; }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(in(0, static_cast<i>(list.size()) - 1))];
  }

  std::string filler(const char* key) {
    const std::vector<std::string> kinds{
        "{ kind = \"constant\", value = 0.125 }",        "{ kind = \"gaussian\", mean = 0.5, std = 0.01 }",
        "{ kind = \"uniform\", min = -0.1, max = 0.3 }", "{ kind = \"xavier\", norm = \"average\" }",
        "{ kind = \"msra\", norm = \"fan_out\" }",       "{ kind = \"xavier\" }"};
    return chance() ? "" : std::string(key) + " = " + one_of(kinds) + "\n";
  }
  std::string scales(int n) {
    std::string s;
    for (const auto* key : {"lr_scale", "decay_scale"}) {
      if (in(0, 2) != 0) continue;
      s += std::string(key) + " = [";
      for (int k = 0; k < n; ++k) s += (k > 0 ? ", " : "") + toml_text(k < 2 ? number(24) : 1.0);
      s += "]\n";
    }
    return s;
  }
  // A number, or a pair of different numbers: equal ones would be read as one.
  option_value by_axis(i least, i most) {
    const auto h = in(least, most), w = in(least, most);
    return h == w || chance() ? option_value(h) : option_value(std::vector<i>{h, w});
  }
  void fill_bias(draft_layer& d) {
    const bool bias = chance();
    d.values["bias"] = bias;
    d.more = filler("weight_filler") + (bias ? filler("bias_filler") : "") + scales(bias ? 2 : 1);
  }

  draft_layer convolution() {
    draft_layer d{chance() ? "convolution" : "deconvolution", {}, {}, 1, true};
    d.values["outputs"] = in(1, 3) * 2;
    d.values["groups"] = one_of<i>({1, 1, 1, 2});
    d.values["kernel"] = by_axis(1, 3), d.values["stride"] = by_axis(1, 2), d.values["pad"] = by_axis(0, 2);
    if (in(0, 2) == 0) d.values["dilation"] = by_axis(1, 2);
    fill_bias(d);
    return d;
  }
  draft_layer pooling() {
    draft_layer d{chance() ? "max_pool" : "avg_pool", {}, {}, 1, true};
    if (in(0, 4) == 0) return d;  // the whole image
    d.values["kernel"] = by_axis(2, 3), d.values["stride"] = by_axis(1, 2), d.values["pad"] = by_axis(0, 1);
    if (chance()) d.values["rounding"] = std::string("floor");
    return d;
  }
  draft_layer normalising() {
    if (chance()) {
      draft_layer d{"batch_norm", {}, {}, 1, false};
      const bool affine = chance();
      d.values["affine"] = affine;
      d.values["momentum"] = one_of<double>({0.1, 0.01, 0.25, 0.001, 0.0});
      d.values["epsilon"] = one_of<double>({1e-5, 1e-3});
      if (affine) d.more = scales(4);
      return d;
    }
    draft_layer d{"lrn", {}, {}, 1, true};
    d.values["size"] = one_of<i>({1, 3, 5});
    d.values["alpha"] = number(20), d.values["beta"] = 0.75;
    if (chance())
      d.values["region"] = std::string("within_channel");
    else
      d.values["k"] = number(20);
    return d;
  }
  draft_layer element() {
    draft_layer d;
    d.type = one_of<std::string>(
        {"relu", "elu", "sigmoid", "tanh", "dropout", "prelu", "softmax", "flatten", "reshape", "bias", "scale"});
    if (d.type == "softmax") d.values["axis"] = one_of<i>({1, 1, 2, 3});
    if (d.type == "reshape") d.values["shape"] = one_of<std::vector<i>>({{0, -1, 1}, {1, -1}, {-1, 2}, {1, 0, -1}, {1, 1, 1, -1}});
    if (d.type == "relu") d.values["slope"] = one_of<double>({0, 0.1});
    if (d.type == "elu") d.values["alpha"] = number(9);
    if (d.type == "dropout") d.values["ratio"] = one_of<double>({0.5, 0.3, 0});
    if (d.type == "prelu") d.values["shared"] = chance(), d.values["slope"] = number(3), d.more = scales(1);
    if (d.type == "bias") d.more = filler("bias_filler") + scales(1);
    if (d.type == "scale") fill_bias(d);
    return d;
  }
  draft_layer joining() {
    draft_layer d;
    d.type = one_of<std::string>({"eltwise", "concat", "crop"});
    d.inputs = d.type == "crop" ? 2 : static_cast<std::size_t>(in(2, 3));
    if (d.type == "concat") d.values["axis"] = one_of<i>({1, 1, 2, 3});
    if (d.type == "crop") d.values["axis"] = in(1, 3), d.values["offsets"] = std::vector<i>{0};
    if (d.type != "eltwise") return d;
    const auto operation = one_of<std::string>({"sum", "prod", "max"});
    d.values["operation"] = operation;
    if (operation == "sum" && chance()) d.values["coeffs"] = std::vector<double>(d.inputs, number(9));
    return d;
  }
  draft_layer parting() {
    draft_layer d;
    if (chance()) {
      d.type = "split";
      d.values["copies"] = in(1, 3);
    } else {
      d.type = "slice";
      d.values["axis"] = one_of<i>({1, 1, 2});
      if (chance())
        d.values["parts"] = in(1, 3);
      else
        d.values["points"] = std::vector<i>{1, in(2, 3)};
    }
    return d;
  }
  draft_layer draw() {
    switch (in(0, 6)) {
      case 0: return convolution();
      case 1: return pooling();
      case 2: return normalising();
      case 3: return joining();
      case 4: return parting();
      case 5: {
        draft_layer d{"linear", {{"outputs", in(1, 9)}, {"axis", one_of<i>({1, 1, 2})}}, {}, 1, false};
        fill_bias(d);
        return d;
      }
      default: return element();
    }
  }

  void layer() {
    const auto d = draw();
    std::vector<std::size_t> from;
    shapes dims;
    for (std::size_t k = 0; k < d.inputs; ++k) {
      // Often the newest tensor, so that nets are deep.
      from.push_back(
          static_cast<std::size_t>(in(chance() ? static_cast<i>(tensors_.size()) - 1 : 0, static_cast<i>(tensors_.size()) - 1)));
      dims.push_back(tensors_[from.back()].dims);
    }
    if (d.image && dims[0].rank() != 4) return;
    // The importer would read the pair as one batch_norm.
    if (d.type == "scale" && tensors_[from[0]].type == "batch_norm") return;
    try {
      const auto* type = all_.layers.find(d.type);
      const auto made = type->make(check_options({d.values}, type->specs))->infer(dims);
      for (const auto& s : made)
        if (s.count() < 1 || s.count() > 20000) return;
      add(d, from, made);
    } catch (const std::exception&) {
      return;  // not these inputs
    }
  }
  void add(const draft_layer& d, const std::vector<std::size_t>& from, const shapes& made) {
    const auto name = one_of<std::string>({"a", "conv-", "x_", "Layer"}) + std::to_string(number_++);
    out_ += "[[layer]]\nname = \"" + name + "\"\ntype = \"" + d.type + "\"\ninputs = [";
    for (std::size_t k = 0; k < from.size(); ++k) {
      out_ += (k > 0 ? ", \"" : "\"") + tensors_[from[k]].name + "\"";
      if (d.type != "crop" || k == 0) tensors_[from[k]].used = true;  // no gradient flows to the other input
    }
    out_ += "]\n";
    for (const auto& [key, value] : d.values) out_ += key + " = " + toml_text(value) + "\n";
    out_ += d.more;
    for (std::size_t o = 0; o < made.size(); ++o)
      tensors_.push_back({o == 0 ? name : name + "." + std::to_string(o), made[o], d.type});
  }

  void write(const std::string& name, const std::string& type, const std::string& inputs, const std::string& keys = {}) {
    out_ += "[[layer]]\nname = \"" + name + "\"\ntype = \"" + type + "\"\ninputs = [" + inputs + "]\n" + keys;
  }
  void finish() {
    std::vector<std::string> ends;
    for (std::size_t k = 0; k < tensors_.size(); ++k) {
      const auto t = tensors_[k];
      if (t.used) continue;
      if (t.dims.rank() == 2) {
        ends.push_back(t.name);
        continue;
      }
      ends.push_back("end" + std::to_string(k));
      write(ends.back(), "flatten", "\"" + t.name + "\"");
    }
    std::string last = "\"" + ends[0] + "\"";
    if (ends.size() > 1) {
      std::string all;
      for (const auto& e : ends) all += (all.empty() ? "\"" : ", \"") + e + "\"";
      write("all", "concat", all);
      last = "\"all\"";
    }
    write("scores", "linear", last, "outputs = 4\n" + filler("weight_filler") + scales(2));
    write("loss", chance() ? "softmax_loss" : "hinge", "\"scores\", \"label\"", chance() ? "loss_weight = 0.3\n" : "");
    if (chance()) write("accuracy", "accuracy", "\"scores\", \"label\"", "phase = \"test\"\ntop_k = 2\n");
    if (chance()) write("second", "linear", last, "outputs = 4\n"), write("apart", "euclidean", "\"second\", \"scores\"");
  }

  std::mt19937_64 rng_;
  const tables& all_;
  i batch_ = 1;
  int number_ = 0;
  std::string out_;
  std::vector<made_tensor> tensors_;
};

}  // namespace troupe::caffe::nets
