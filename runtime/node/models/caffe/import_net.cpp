#include "runtime/node/models/caffe/import_net.hpp"

#include <algorithm>
#include <map>

#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/toml_text.hpp"
#include "runtime/node/models/caffe/finish_net.hpp"
#include "runtime/node/models/caffe/layer_rules.hpp"

namespace troupe::caffe {
namespace {

// The tensor that a blob of Caffe is at this place of the net, by phase; empty: none.
struct blob_value {
  std::string train, test;
};

class net_translator {
 public:
  net_translator(bool with_weights, const name_pairs& names, findings& found)
      : with_weights_(with_weights), found_(found), names_(names) {}

  job_model read(net& from) {
    share_data(from);
    for (auto& l : from.layers) layer(l);
    finish_layers(job_, found_);
    if (train_ || test_)
      write_data(train_, test_, classes_of(job_), job_, found_);
    else if (found_.wrong.empty())
      found_.error(from.layers.empty() ? proto_field() : from.layers[0].fields().at(), "the net has no data layer and no input");
    job_.name = from.name;
    names_.note_changes(found_);
    return std::move(job_);
  }

 private:
  // The data of a net for one phase serve both.
  void share_data(net& from) {
    bool train = false, test = false;
    for (const auto& l : from.layers)
      if (is_data_layer(l.type)) train = train || l.train, test = test || l.test;
    if (train == test) return;
    found_.note(std::string("the net has data for the phase ") + (train ? "TRAIN" : "TEST") + " only, which the job uses for both");
    for (auto& l : from.layers)
      if (is_data_layer(l.type) && (l.train || l.test)) l.train = l.test = true;
  }

  void layer(net_layer& l) {
    if (!l.train && !l.test) {  // of another stage or level
      for (const auto& f : l.fields().at().fields) l.fields().ignore({f.name.c_str()});
      return;
    }
    if (is_data_layer(l.type)) return data(l);
    if (l.type == "Silence") return;
    if (own_split(l)) return;
    if (second_batch_norm(l)) return;
    const auto rule = rule_of(l.type);
    if (!rule) {
      if (!l.type.empty()) l.error("Troupe has no layer like " + l.type);
      for (const auto& f : l.fields().at().fields) l.fields().ignore({f.name.c_str()});
      return;
    }
    translate(l, rule);
  }

  void data(net_layer& l) {
    const auto d = read_data_layer(l, found_);
    for (const bool train : {true, false}) {
      if (!(train ? l.train : l.test)) continue;
      auto& mine = train ? train_ : test_;
      if (!mine)
        mine = d;
      else if (d.labelled_by_name && mine->labelled_by_name && d.tops.size() == 1)
        merge_input(*mine, d);
      else if (train)
        l.error("the net has a second data layer in one phase; Troupe's jobs have one source");
      for (std::size_t k = 0; k < l.tops.size(); ++k) (train ? blobs_[l.tops[k]].train : blobs_[l.tops[k]].test) = d.tensor_of(k);
    }
  }
  // A second layer Input: the labels.
  static void merge_input(data_layer& into, const data_layer& d) {
    if (into.tensor_of(0) == "label") into.shape = d.shape, into.batch = d.batch;
  }

  // "conv1_relu_0_split" with the tops "conv1_relu_0_split_0", ...: Caffe's own, for a blob with
  // several readers.
  bool own_split(net_layer& l) {
    if (l.type != "Split" || !l.name.ends_with("_split") || l.bottoms.size() != 1) return false;
    for (std::size_t k = 0; k < l.tops.size(); ++k)
      if (l.tops[k] != l.name + "_" + std::to_string(k)) return false;
    const auto from = blobs_.find(l.bottoms[0]);
    if (from == blobs_.end()) return false;
    const auto value = from->second;
    for (const auto& t : l.tops) {
      if (l.train) blobs_[t].train = value.train;
      if (l.test) blobs_[t].test = value.test;
    }
    return true;
  }

  // A BatchNorm of the other phase, with the same name: the same layer.
  bool second_batch_norm(net_layer& l) {
    if (l.type != "BatchNorm" || (l.train && l.test)) return false;
    const auto first = std::find_if(job_.layers.begin(), job_.layers.end(), [&](const job_layer& j) { return j.theirs == l.name; });
    if (first == job_.layers.end() || first->type != "batch_norm" || first->phase != (l.train ? "test" : "train")) return false;
    first->phase.clear();
    for (const auto& t : l.tops) (l.train ? blobs_[t].train : blobs_[t].test) = first->name;
    for (const auto& f : l.fields().at().fields) l.fields().ignore({f.name.c_str()});
    return true;
  }

  std::string input_of(net_layer& l, const std::string& bottom) {
    const auto b = blobs_.find(bottom);
    const auto train = b == blobs_.end() ? std::string() : b->second.train, test = b == blobs_.end() ? "" : b->second.test;
    if ((l.train && train.empty()) || (l.test && test.empty())) {
      l.fields().error("bottom", "its bottom " + in_quotes(bottom) + " is made by no layer before it" +
                                     (train.empty() && test.empty() ? ""
                                      : train.empty()               ? " in the phase TRAIN"
                                                                    : " in the phase TEST"));
      return {};
    }
    if (l.train && l.test && train != test) {
      l.fields().error("bottom", "its bottom " + in_quotes(bottom) + " is " + in_quotes(train) + " in the phase TRAIN and " +
                                     in_quotes(test) + " in TEST; Troupe's layers have the same inputs in both");
      return {};
    }
    return l.train ? train : test;
  }

  bool is_image(const std::string& tensor) const {
    if (tensor == "data") {
      const auto& d = train_ ? train_ : test_;
      return d && (d->shape.empty() || d->shape.size() == 3);
    }
    const auto* l = find(layer_of(tensor));
    return l && l->image;
  }

  void translate(net_layer& l, layer_rule rule) {
    if (l.type == "Dropout") l.train = l.test = true;  // without effect in tests
    job_layer to;
    for (const auto& b : l.bottoms) to.inputs.push_back(input_of(l, b));
    if (l.bottoms.empty()) l.error("it has no bottom");
    to.name = names_.of(l.name);
    to.theirs = l.name;
    if (!(l.train && l.test)) to.phase = l.train ? "train" : "test";
    layer_mapping m{l, to, found_, with_weights_, !to.inputs.empty() && is_image(to.inputs[0])};
    rule(m);
    share(l, to);
    check_rest(l, to);
    if ((to.type == "softmax_loss" || to.type == "hinge" || to.type == "accuracy") && m.image) flatten_scores(l, to);
    const bool several = to.type == "slice" || to.type == "split";
    for (std::size_t k = 0; k < l.tops.size(); ++k) {
      const auto tensor = k == 0 ? to.name : several ? to.name + "." + std::to_string(k) : std::string();
      if (l.train) blobs_[l.tops[k]].train = tensor;
      if (l.test) blobs_[l.tops[k]].test = tensor;
    }
    add(std::move(to));
  }

  void share(net_layer& l, job_layer& to) {
    if (l.shares.empty()) return;
    const auto owner =
        std::find_if(job_.layers.begin(), job_.layers.end(), [&](const job_layer& j) { return j.theirs == to.owner; });
    if (to.owner.empty() || owner == job_.layers.end())
      return l.error("shares parameters with layer " + in_quotes(l.shares.begin()->second.layer) + ", which Troupe's " + to.type +
                     " layers cannot");
    to.set("share", toml_text(owner->name + (to.shared.empty() ? "" : "." + to.shared)));
  }

  // Loss weights and stopped gradients.
  void check_rest(net_layer& l, job_layer& to) {
    const auto& w = l.loss_weights;
    if (to.part == job_layer::role::loss) {
      if (!w.empty() && w[0] != 1) to.set("loss_weight", toml_text(w[0]));
      if (!w.empty() && w[0] < 0) l.fields().error("loss_weight", "Troupe's loss_weight is not negative");
    } else if (std::any_of(w.begin(), w.end(), [](double v) { return v != 0; })) {
      l.fields().error("loss_weight", "only losses have a loss_weight in Troupe");
    }
    for (std::size_t k = 0; k < l.propagate.size(); ++k) {
      const auto labels = k > 0 && to.part != job_layer::role::plain;
      if (!l.propagate[k] && !labels && to.inputs.size() > k && to.inputs[k] != "data" && to.inputs[k] != "label")
        l.fields().error("propagate_down", "gradients cannot be stopped at an input: propagate_down: false is not supported");
    }
  }

  // Scores of a global pooling are images of one pixel. Caffe's losses take them as they are.
  void flatten_scores(net_layer& l, job_layer& to) {
    const auto* source = find(layer_of(to.inputs[0]));
    if (!source) return;
    if (const auto known = flat_.find(to.inputs[0]); known != flat_.end()) {
      to.inputs[0] = known->second;
      return;
    }
    if (!ends_in_pooling(*source)) {
      l.error("scores of every pixel are not supported: its input " + in_quotes(source->name) + " is no pooling");
      return;
    }
    job_layer flat;
    flat.name = names_.fresh(source->name + "_flat");
    flat.type = "flatten", flat.inputs = {to.inputs[0]};
    flat_[to.inputs[0]] = flat.name;
    found_.note("a layer " + in_quotes(flat.name) + " is added: the loss takes scores without the axes of an image");
    to.inputs[0] = flat.name;
    add(std::move(flat));
  }
  bool ends_in_pooling(const job_layer& l) const {
    for (const auto* at = &l; at; at = at->inputs.empty() ? nullptr : find(layer_of(at->inputs[0]))) {
      if (at->type == "avg_pool" || at->type == "max_pool") return true;
      if (at->type != "dropout" && at->type != "relu" && at->type != "softmax") return false;
    }
    return false;
  }

  // Layers are only added, and each has its inputs before it.
  const job_layer* find(const std::string& name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : &job_.layers[at->second];
  }
  void add(job_layer l) {
    by_name_[l.name] = job_.layers.size();
    job_.layers.push_back(std::move(l));
  }

  bool with_weights_;
  findings& found_;
  name_maker names_;
  job_model job_;
  std::map<std::string, std::size_t> by_name_;  // index in job_.layers
  std::map<std::string, blob_value> blobs_;
  std::map<std::string, std::string> flat_;  // tensor -> the layer that flattens it
  std::optional<data_layer> train_, test_;
};

}  // namespace

std::string name_maker::fresh(std::string wanted) {
  for (auto& c : wanted)
    if (const auto byte = static_cast<unsigned char>(c); byte <= ' ' || byte >= 0x7f || c == '.' || c == '/') c = '_';
  constexpr std::size_t room_for_number = 20;
  if (wanted.size() > longest_name - room_for_number) wanted.resize(longest_name - room_for_number);
  if (wanted.empty()) wanted = "layer";
  auto name = wanted;
  for (auto& k = last_.emplace(wanted, 1).first->second; !taken_.insert(name).second;) name = wanted + "_" + std::to_string(++k);
  return name;
}

std::string name_maker::of(const std::string& theirs) {
  const auto given = std::find_if(given_.begin(), given_.end(), [&](const auto& pair) { return pair.first == theirs; });
  auto name = fresh(given == given_.end() ? theirs : given->second);
  if (given == given_.end() && name != theirs) changes_.push_back(in_quotes(theirs) + " is " + in_quotes(name));
  return name;
}

void name_maker::note_changes(findings& found) const {
  if (changes_.empty()) return;
  found.note(
      "layers have other names in the job: " + changes_[0] +
      (changes_.size() > 1 ? ", and " + std::to_string(changes_.size() - 1) + " more; --names sets them" : "; --names sets it"));
}

job_model translate_net(net& from, bool with_weights, const name_pairs& names, findings& found) {
  return net_translator(with_weights, names, found).read(from);
}

}  // namespace troupe::caffe
