#include "apps/commands/prepare/new.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "apps/commands/prepare/data_card.hpp"
#include "ops/tensor.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/source.hpp"
#include "runtime/node/config/toml_text.hpp"

namespace troupe {
namespace {

constexpr std::int64_t most_measured = 2000;  // examples
constexpr std::int64_t usual_steps = 1000;    // at least, for small data

struct spread {
  double mean = 0, deviation = 1;
};

// Means and deviations of `groups` equal parts of an example's values, over the training examples.
// `targets`: of the targets, as one group.
struct measured {
  std::vector<spread> values;
  spread targets;
};

spread spread_of(const running_channel& c) {
  const auto r = c.result();
  // A value that is the same everywhere, but for roundings, is only moved.
  return {r.mean, r.deviation > 1e-14 * std::abs(r.mean) ? r.deviation : 1};
}

measured measure(const source& s, std::size_t groups) {
  const auto values = static_cast<std::size_t>(s.example().count()), labels = static_cast<std::size_t>(s.label().count());
  std::vector<running_channel> of(groups);
  running_channel of_targets;
  std::vector<double> x(values), y(labels);
  std::vector<std::int32_t> classes(labels);
  shape one{1}, one_label{1};
  for (int i = 0; i < s.example().rank(); ++i) one.push_back(s.example()[i]);
  for (int i = 0; i < s.label().rank(); ++i) one_label.push_back(s.label()[i]);
  auto data = tensor::borrow(x.data(), one, dtype::f64);
  auto label =
      s.targets() ? tensor::borrow(y.data(), one_label, dtype::f64) : tensor::borrow(classes.data(), one_label, dtype::i32);
  const auto n = s.size(split::train), step = std::max<std::int64_t>(n / most_measured, 1);
  for (std::int64_t i = 0; i < n; i += step) {
    s.read(split::train, {i}, data, label);
    for (std::size_t k = 0; k < values; ++k)
      if (std::isfinite(x[k])) of[k * groups / values].add(x[k]);
    for (std::size_t k = 0; s.targets() && k < labels; ++k) of_targets.add(y[k]);
  }
  measured m;
  for (const auto& g : of) m.values.push_back(spread_of(g));
  m.targets = spread_of(of_targets);
  return m;
}

// value = number * scale - mean, so that the values have mean 0 and deviation 1.
void set_scaling(looked_at& d, const std::vector<spread>& of) {
  std::vector<double> scale, mean;
  for (const auto& g : of) {
    scale.push_back(rounded_to_unit(1 / g.deviation, 1 / g.deviation));
    mean.push_back(rounded_to_unit(g.mean * scale.back(), 1));
  }
  auto& v = d.values.values;
  if (d.source == "images") {
    v["channel_scale"] = scale, v["channel_mean"] = mean;
  } else if (d.source == "csv") {
    v["scale"] = scale, v["mean"] = mean;
  } else {
    v["scale"] = scale[0], v["mean"] = mean[0];
  }
}

// --- the net

class net_writer {
 public:
  // A layer that reads the last one, and becomes it.
  void add(const std::string& name, const std::string& type, const std::string& options = {}) {
    text_ += "\n[[layer]]\nname = \"" + name + "\"\ntype = \"" + type + "\"\ninputs = [\"" + last_ + "\"]\n" + options;
    last_ = name;
  }
  // A layer that reads the last one and the labels.
  void judge(const std::string& name, const std::string& type, const std::string& options = {}) {
    text_ += "\n[[layer]]\nname = \"" + name + "\"\ntype = \"" + type + "\"\ninputs = [\"" + last_ + "\", \"label\"]\n" + options;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_, last_ = "data";
};

std::string outputs(std::int64_t n) { return "outputs = " + std::to_string(n) + "\n"; }
const std::string msra = "weight_filler = { kind = \"msra\" }\n";

void add_convolutions(net_writer& net, const shape& image) {
  auto side = std::min(image[1], image[2]);
  for (std::int64_t k = 1, features = 16; k <= 5 && side >= 4;
       ++k, side = (side + 1) / 2, features = std::min<std::int64_t>(2 * features, 64)) {
    const auto n = std::to_string(k);
    net.add("conv" + n, "convolution", outputs(features) + "kernel = 3\npad = 1\n" + msra);
    net.add("relu" + n, "relu");
    net.add("pool" + n, "max_pool", "kernel = 2\nstride = 2\n");
    if (side <= 8) break;
  }
  net.add("hidden", "linear", outputs(128) + msra);
  net.add("relu_hidden", "relu");
}

void add_perceptron(net_writer& net, const shape& example) {
  const auto units = example.count() >= 256 ? 256 : 64;
  for (const char* n : {"1", "2"}) {
    net.add(std::string("hidden") + n, "linear", outputs(units) + msra);
    net.add(std::string("relu") + n, "relu");
  }
}

bool is_image(const shape& s) { return s.rank() == 3 && s[0] <= 16 && std::min(s[1], s[2]) >= 8; }

std::string net_of(const source& s, const spread& targets) {
  net_writer net;
  if (s.ids()) {
    net.add("embed", "embedding", "vocabulary = " + std::to_string(s.vocabulary()) + "\n" + outputs(64));
    net.add("gru1", "gru", "units = 128\n");
    net.add("scores", "linear", "axis = 2\n" + outputs(s.vocabulary()));
  } else if (is_image(s.example())) {
    add_convolutions(net, s.example());
  } else {
    add_perceptron(net, s.example());
  }
  if (s.targets()) {
    net.add("numbers", "linear", outputs(s.label().count()));
    // Fixed: from numbers of deviation 1 to the targets.
    net.add("targets", "scale",
            "bias = true\nlr_scale = [0, 0]\ndecay_scale = [0, 0]\nweight_filler = { kind = \"constant\", value = " +
                toml_text(rounded_to_unit(targets.deviation, targets.deviation)) +
                " }\nbias_filler = { kind = \"constant\", value = " + toml_text(rounded_to_unit(targets.mean, targets.deviation)) +
                " }\n");
    net.judge("loss", "euclidean");
    return net.text();
  }
  if (!s.ids()) net.add("scores", "linear", outputs(s.classes()));
  net.judge("loss", "softmax_loss");
  net.judge("accuracy", "accuracy", "phase = \"test\"\n");
  return net.text();
}

// --- the rest

struct job_length {
  std::int64_t batch = 0, epochs = 0, every = 0;
};

job_length length_of(const source& s) {
  const auto n = s.size(split::train);
  job_length l;
  l.batch = n < 500 ? 16 : n < 5000 ? 32 : 64;
  // Each position of the batch walks through a part of a text, in tests too.
  if (s.ids()) l.batch = std::clamp<std::int64_t>(std::min(n / 4, s.size(split::test)), 1, 32);
  l.batch = std::min(l.batch, n);
  const auto steps = n / l.batch;  // of an epoch
  l.epochs = std::clamp<std::int64_t>((usual_steps + steps - 1) / steps, 5, 200);
  l.every = std::max<std::int64_t>({steps, steps * l.epochs / 20, 1});
  return l;
}

std::string data_table(const looked_at& d, std::int64_t batch) {
  std::string text = "[data]\nsource = " + toml_text(d.source) + "\n";
  text += "path = " + toml_text(d.values.text("path")) + "\n";
  for (const auto& [key, value] : d.values.values)
    if (key != "path") text += key + " = " + toml_text(value) + "\n";
  return text + "batch = " + std::to_string(batch) + "\n";
}

std::string training_tables(const source& s, const job_length& l) {
  const auto more =
      std::string(s.ids() ? "algorithm = \"bptt\"\nsampler = { kind = \"lanes\" }\n" : "sampler = { kind = \"shuffle\" }\n");
  return "\n[train]\n" + more + "sync = { mode = \"bsp\" }\nfinish = { epochs = " + std::to_string(l.epochs) +
         " }\n\n[train.dynamics]\nrule = \"adam\"\nlr = " + (s.ids() ? "0.002\nclip = { value = 5 }" : "0.001") +
         "\n\n[eval]\nevery = " + std::to_string(l.every) + "\n" + (s.ids() ? "sampler = { kind = \"lanes\" }\n" : "");
}

std::size_t groups_of(const looked_at& d, const source& s) {
  if (d.source == "images") return static_cast<std::size_t>(s.example()[0]);
  return d.source == "csv" ? static_cast<std::size_t>(s.example().count()) : 1;
}

expected<data_job> made_of(looked_at d, const std::string& path, const std::string& name, const tables& all) {
  const auto& type = *all.sources.find(d.source);
  auto unscaled = d.values;
  if (d.source == "images" || d.source == "idx") unscaled.values["scale"] = 1.0;
  const auto s = type.open(check_options(unscaled, type.specs), 1);
  const auto n = s->size(split::train);
  if (n == 0) return unexpected(error(path + ": there are no training examples"));
  if (!has_labels(*s)) return unexpected(error(path + ": it has no labels"));
  if (!s->targets() && s->classes() < 2)
    return unexpected(error(path + ": all examples have the same class, so there is nothing to learn"));
  measured m;
  if (!s->ids()) {
    m = measure(*s, groups_of(d, *s));
    set_scaling(d, m.values);
  }
  const auto length = length_of(*s);
  data_job made;
  made.text = "[job]\nname = " + toml_text(name) + "\nseed = 1\n\n" + data_table(d, length.batch) + net_of(*s, m.targets) +
              training_tables(*s, length);
  made.seen = d.seen;
  made.seen.push_back(with_commas(static_cast<std::uint64_t>(n)) + " examples to train on, " +
                      with_commas(static_cast<std::uint64_t>(s->size(split::test))) + " to test on; " +
                      std::to_string(length.epochs) + " epochs in batches of " + std::to_string(length.batch));
  return made;
}

}  // namespace

expected<data_job> job_of_data(const std::string& path, const std::string& label, const std::string& name, const tables& all) {
  auto found = look_at_data(path, label);
  if (!found) return unexpected(found.error());
  try {
    return made_of(*std::move(found), path, name, all);
  } catch (const option_error& e) {
    return unexpected(error(e.what()));
  } catch (const std::runtime_error& e) {
    return unexpected(error(e.what()));
  }
}

}  // namespace troupe
