#include "runtime/node/models/caffe/import_net.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ops/registry.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/table_reader.hpp"
#include "runtime/node/config/toml_text.hpp"
#include "runtime/node/models/caffe/job_model.hpp"
#include "runtime/node/models/caffe/layer_rules.hpp"
#include "runtime/node/models/caffe/net.hpp"

namespace troupe::caffe {
namespace {

// Layer types of Caffe and its relatives without a counterpart in Troupe.
enum class instead : std::uint8_t { plugin, backbone, other_loss, softmax_loss, lstm, input };

instead advice_for(const std::string& type) {
  static const std::map<std::string, instead> advice{{"CPMData", instead::input},
                                                     {"CenterLoss", instead::other_loss},
                                                     {"ContrastiveLoss", instead::other_loss},
                                                     {"ImageLabelmapData", instead::input},
                                                     {"InfogainLoss", instead::other_loss},
                                                     {"LSTM", instead::lstm},
                                                     {"LaneData", instead::input},
                                                     {"MarginInnerProduct", instead::other_loss},
                                                     {"MultinomialLogisticLoss", instead::softmax_loss},
                                                     {"PSROIAlign", instead::backbone},
                                                     {"PSROIPooling", instead::backbone},
                                                     {"Proposal", instead::backbone},
                                                     {"RNN", instead::lstm},
                                                     {"ROIAlign", instead::backbone},
                                                     {"ROIPooling", instead::backbone},
                                                     {"TripletLoss", instead::other_loss}};
  const auto found = advice.find(type);
  return found == advice.end() ? instead::plugin : found->second;
}

std::string text_of(instead what) {
  switch (what) {
    case instead::backbone:
      return "it reads boxes of an image. Remove it and the layers that need its output; the layers before it can be imported";
    case instead::other_loss: return "put another loss in its place, such as SoftmaxWithLoss, or write it as a layer of a plugin";
    case instead::softmax_loss: return "replace it and the Softmax before it by SoftmaxWithLoss";
    case instead::lstm:
      return "its steps are on the first axis, and a second bottom says where sequences begin. Remove it, and add Troupe's lstm, "
             "which takes [N, T, D], to the job file";
    case instead::input: return "replace it by a layer Input with the tops data and label";
    case instead::plugin: break;
  }
  return "remove it and the layers that need its output, or write it as a layer of a plugin";
}

// "'ProposalLayer' of the module 'rpn.proposal_layer'"; empty: the layer does not say it.
std::string python_class(const net_layer& l) {
  std::string module, name;
  for (const auto& f : l.rest->at().fields) {
    if (f.name != "python_param") continue;
    for (const auto& p : f.fields) {
      if (p.name == "module") module = p.text;
      if (p.name == "layer") name = p.text;
    }
  }
  return name.empty() ? "" : in_quotes(name) + (module.empty() ? "" : " of the module " + in_quotes(module));
}

// Whether layers of this type work on a net's results (boxes, measures, files) and have no
// counterpart in Troupe: the net is of use without them.
bool is_of_results(const std::string& type) {
  static const std::set<std::string> types{// positions of boxes, their choice and their drawing
                                           "DetectionOutput", "PriorBox", "YoloDetectionOutput", "Yolov3DetectionOutput",
                                           // measures
                                           "ArgMax", "DetectionEvaluate", "EvalDetection", "SegAccuracy", "YoloEvalDetection",
                                           // files
                                           "HDF5Output", "ImageOutput",
                                           // losses of boxes
                                           "BoxAnnotatorOHEM", "MultiBoxLoss", "RegionLoss", "SmoothL1Loss", "SmoothL1LossOHEM",
                                           "SoftmaxWithLossOHEM", "Yolov3", "YoloSeg"};
  return types.contains(type);
}

// What Troupe lacks, and what a user can do.
std::string why_refused(const net_layer& l) {
  if (l.type != "Python") return "Troupe has no layer like " + l.type + ": " + text_of(advice_for(l.type));
  const auto named = python_class(l);
  return "Troupe does not run the Python code of a net" + (named.empty() ? "" : ", here " + named) +
         ": remove the layer and the layers that need its output, or write it as a layer of a plugin";
}

// Shapes of the tensors of a job under construction, as far as they are known. Layers of Caffe that
// move pixels by factors need the extents of their bottoms.
class job_shapes {
 public:
  // The list may grow, and what it holds stays as it is.
  explicit job_shapes(const std::vector<job_layer>& layers) : layers_(layers) { add_stock_layers(stock_); }
  // Of the tensor "data".
  void set_example(const std::vector<std::int64_t>& extents);
  // Extents of an example of the tensor, without the axis of examples; empty: not known.
  std::vector<std::int64_t> of(const std::string& tensor);

 private:
  void add(const job_layer& l);

  const std::vector<job_layer>& layers_;
  std::size_t next_ = 0;  // the first layer whose shapes are not computed yet
  layer_registry stock_;
  std::map<std::string, shape> known_;  // by tensor, for one example
};

// The options of the layer type among the keys, checked; none: they are wrong, which the job's
// check reports.
std::optional<options> options_of(const job_layer& l, const layer_type& type) {
  std::string text;
  for (const auto& [key, value] : l.keys) {
    const auto is_key = [&k = key](const option_spec& s) { return s.name == k; };
    if (std::any_of(type.specs.begin(), type.specs.end(), is_key)) text += key + " = " + value + "\n";
  }
  const auto table = parse_document(text, "");
  if (!table) return std::nullopt;
  diagnostics wrong;
  table_reader r(*table, "", {}, wrong);
  auto o = r.rest(type.specs);
  return wrong.empty() ? std::optional(std::move(o)) : std::nullopt;
}

void job_shapes::set_example(const std::vector<std::int64_t>& extents) {
  if (extents.empty() || std::ssize(extents) >= shape::max_rank) return;
  shape s{1};
  for (const auto e : extents) s.push_back(e);
  known_["data"] = s;
}

std::vector<std::int64_t> job_shapes::of(const std::string& tensor) {
  for (; next_ < layers_.size(); ++next_) add(layers_[next_]);
  const auto at = known_.find(tensor);
  std::vector<std::int64_t> extents;
  for (int k = 1; at != known_.end() && k < at->second.rank(); ++k) extents.push_back(at->second[k]);
  return extents;
}

void job_shapes::add(const job_layer& l) {
  const auto* type = stock_.find(l.type);
  shapes in;
  for (const auto& i : l.inputs) {
    const auto at = known_.find(i);
    if (at == known_.end()) return;
    in.push_back(at->second);
  }
  const auto given = type ? options_of(l, *type) : std::nullopt;
  if (!given) return;
  try {
    const auto out = type->make(*given)->infer(in);
    for (std::size_t k = 0; k < out.size(); ++k) known_[k == 0 ? l.name : l.name + "." + std::to_string(k)] = out[k];
  } catch (const shape_error&) {  // the job's check reports it
  } catch (const option_error&) {
  }
}

// The tensor that a blob of Caffe is at this place of the net, by phase; empty: none.
struct blob_value {
  std::string train, test;
};

// What a layer has from its inputs.
struct layer_facts {
  std::int64_t channels = 0;  // or features; 0: unknown
  bool pooled = false;        // it ends in a pooling
};

constexpr std::int64_t most_channels = 1'000'000'000;  // as of a field's number

// size: the state of the pass
class net_translator {
 public:
  net_translator(bool with_weights, const name_pairs& names, findings& found)
      : with_weights_(with_weights), found_(found), names_(names) {}

  job_model read(net& from) {
    share_data(from);
    find_readers(from);
    for (auto& l : from.layers) layer(l);
    note_left_out();
    note_ignored();
    finish_layers(job_, found_);
    if (job_.layers.empty() && found_.wrong.empty() && !from.layers.empty())
      found_.error(from.layers[0].fields().at(),
                   "the net has no layer that a job can train: " +
                       (left_out_.empty() ? std::string("it has data only")
                                          : "what is left out leaves nothing (" + joined(left_out_) + ")"));
    if (train_ || test_)
      write_data(train_, test_, {classes_of(job_), ignored_}, job_, found_);
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
      if (is_data_layer(l)) train = train || l.train, test = test || l.test;
    if (train == test) return;
    found_.note(std::string("the net has data for the phase ") + (train ? "TRAIN" : "TEST") + " only, which the job uses for both");
    for (auto& l : from.layers)
      if (is_data_layer(l) && (l.train || l.test)) l.train = l.test = true;
  }

  // How blobs are read, by name: those of a data layer with more than two tops decide what they
  // are.
  void find_readers(const net& from) {
    for (const auto& l : from.layers)
      for (std::size_t k = 0; k < l.bottoms.size(); ++k) {
        if (k == 1 && (l.type.ends_with("Loss") || l.type == "Accuracy"))
          labels_.insert(l.bottoms[k]);
        else if (l.type != "Silence")
          readers_.emplace(l.bottoms[k], l.title());
      }
  }
  // The labels are the first of the further tops that a loss or metric takes as labels, unless the
  // second top is called so. What nothing else reads can be left out.
  void choose_labels(net_layer& l, data_layer& d) {
    if (d.tops.size() <= 2 || l.type == "Input" || d.tops[1] == "label") return;
    const auto is_label = [&](const std::string& t) { return labels_.contains(t) && !readers_.contains(t); };
    const auto label = std::find_if(d.tops.begin() + 1, d.tops.end(), is_label);
    d.label_top = static_cast<std::size_t>(label - d.tops.begin());
    std::vector<std::string> others;
    for (std::size_t k = 1; k < d.tops.size(); ++k) {
      if (k == d.label_top) continue;
      others.push_back(in_quotes(d.tops[k]));
      if (const auto reader = readers_.find(d.tops[k]); reader != readers_.end())
        return l.error("Troupe's data has one tensor and its labels; " + reader->second + " reads a further top, " + others.back() +
                       ": remove that layer and the layers that need its output, or store the top as channels of the data");
    }
    found_.note(l.title() + ": Troupe's data has one tensor and its labels; " + joined(others) +
                (others.size() == 1 ? " is" : " are") + " left out with the losses that compare with " +
                (others.size() == 1 ? "it" : "them"));
  }

  void layer(net_layer& l) {
    if (!l.train && !l.test) {  // of another stage or level
      for (const auto& f : l.fields().at().fields) l.fields().ignore({f.name.c_str()});
      return;
    }
    if (is_data_layer(l)) return data(l);
    if (l.type == "Silence") return;
    if (is_of_results(l.type) || reads_absent(l)) return leave_out(l);
    if (own_split(l)) return;
    if (second_batch_norm(l)) return;
    const auto rule = rule_of(l.type);
    if (!rule) {
      if (!l.type.empty()) l.error(why_refused(l));
      for (const auto& f : l.fields().at().fields) l.fields().ignore({f.name.c_str()});
      for (const auto& t : l.tops) absent_.insert(t);
      return;
    }
    translate(l, rule);
  }

  // Layers that read what Troupe does not compute are left out with it.
  bool reads_absent(const net_layer& l) const {
    return std::any_of(l.bottoms.begin(), l.bottoms.end(), [&](const std::string& b) { return absent_.contains(b); });
  }
  void leave_out(net_layer& l) {
    const auto of_data = [&](const std::string& b) { return absent_data_.contains(b); };
    if (is_of_results(l.type))
      left_out_.push_back(l.title());
    else if (std::any_of(l.bottoms.begin(), l.bottoms.end(), of_data))
      without_data_.push_back(l.title());
    for (const auto& f : l.fields().at().fields) l.fields().ignore({f.name.c_str()});
    for (const auto& t : l.tops) absent_.insert(t);
  }
  void note_left_out() {
    note_layers(left_out_, "Troupe has no such layers");
    note_layers(without_data_, "a job has one tensor of data and its labels, and they read another one");
    left_out_.insert(left_out_.end(), without_data_.begin(), without_data_.end());
  }
  void note_layers(std::vector<std::string>& titles, const std::string& why) {
    if (titles.empty()) return;
    constexpr std::size_t shown = 3;
    const auto more = titles.size() - std::min(titles.size(), shown);
    titles.resize(std::min(titles.size(), shown));
    found_.note(joined(titles) + (more == 0 ? "" : " and " + std::to_string(more) + " more") + ": " + why +
                ". They are left out with the layers that read their outputs; the net ends before them");
  }

  void data(net_layer& l) {
    auto d = read_data_layer(l, found_);
    choose_labels(l, d);
    for (const bool train : {true, false}) {
      if (!(train ? l.train : l.test)) continue;
      auto& mine = train ? train_ : test_;
      if (!mine)
        mine = d;
      else if (d.labelled_by_name && mine->labelled_by_name && d.tops.size() == 1 && one_is_labels(*mine, d))
        merge_input(*mine, d);
      else if (d.tops.size() == 1 && mine->tops.size() == 1 && d.labelled_by_name)
        continue_with_label(l, train);
      else if (train)
        l.error("the net has a second data layer in one phase; Troupe's jobs have one source");
      for (std::size_t k = 0; k < l.tops.size(); ++k) {
        auto& place = train ? blobs_[l.tops[k]].train : blobs_[l.tops[k]].test;
        const auto tensor = d.tensor_of(k);
        if (!tensor.empty() && place.empty()) place = tensor;
        if (tensor.empty()) absent_.insert(l.tops[k]), absent_data_.insert(l.tops[k]);
      }
    }
    shapes_.set_example((train_ ? *train_ : *test_).extents());
  }
  static bool one_is_labels(const data_layer& a, const data_layer& b) {
    return a.tensor_of(0) == "label" || b.tensor_of(0) == "label";
  }
  // A second layer of made-up data with one top, whatever its name: the labels.
  void continue_with_label(const net_layer& l, bool train) { (train ? blobs_[l.tops[0]].train : blobs_[l.tops[0]].test) = "label"; }
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
    auto* first = first_of_theirs(l.name);
    if (!first || first->type != "batch_norm" || first->phase != (l.train ? "test" : "train")) return false;
    first->phase.clear();
    for (const auto& t : l.tops) (l.train ? blobs_[t].train : blobs_[t].test) = first->name;
    for (const auto& f : l.fields().at().fields) l.fields().ignore({f.name.c_str()});
    return true;
  }

  std::string input_of(net_layer& l, const std::string& bottom) {
    if (const auto mask = masks_.find(bottom); mask != masks_.end()) {
      if (l.type == "Upsample" && l.bottoms.size() == 2 && bottom == l.bottoms[1]) return mask->second.input;
      l.fields().error("bottom", "its bottom " + in_quotes(bottom) +
                                     " holds the positions of maxima: in Troupe it can only be the second bottom of an Upsample");
      return {};
    }
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

  // Channels or features of a tensor, by the last layer that sets them; 0: unknown.
  std::int64_t channels_of(const std::string& tensor) const {
    if (tensor == "data") {
      const auto& d = train_ ? train_ : test_;
      return d && !d->shape.empty() ? d->shape[0] : 0;
    }
    const auto known = facts_.find(layer_of(tensor));
    return known == facts_.end() ? 0 : known->second.channels;
  }
  std::int64_t channels_made_by(const job_layer& l) const {
    if (l.features > 0) return l.features;
    if (l.inputs.empty() || changes_channels(l)) return 0;
    if (l.type != "concat") return channels_of(l.inputs[0]);
    std::int64_t all = 0;
    for (const auto& i : l.inputs) {
      const auto some = channels_of(i);
      if (some < 1 || some > most_channels - all) return 0;
      all += some;
    }
    return all;
  }
  static bool changes_channels(const job_layer& l) {
    static const std::set<std::string> types{"slice", "flatten", "reshape", "permute"};
    const bool other_axis = std::any_of(l.keys.begin(), l.keys.end(), [](const auto& key) { return key.first == "axis"; });
    return types.contains(l.type) || ((l.type == "concat" || l.type == "crop") && other_axis);
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
    m.channels = to.inputs.empty() ? 0 : channels_of(to.inputs[0]);
    m.extents_of = [this](const std::string& tensor) { return shapes_.of(tensor); };
    m.fresh_name = [this](const std::string& wanted) { return names_.fresh(wanted); };
    if (l.bottoms.size() > 1)
      if (const auto mask = masks_.find(l.bottoms[1]); mask != masks_.end()) m.mask = &mask->second;
    rule(m);
    for (auto& b : m.before) add(std::move(b));
    share(l, to);
    check_rest(l, to);
    take_ignored(l, to);
    if ((to.type == "softmax_loss" || to.type == "hinge" || to.type == "accuracy") && m.image) flatten_scores(l, to);
    const bool several = to.type == "slice" || to.type == "split";
    if (m.made) masks_[l.tops[1]] = *m.made;
    for (std::size_t k = 0; k < l.tops.size(); ++k) {
      if (masks_.contains(l.tops[k])) continue;
      const auto tensor = k == 0 ? to.name : several ? to.name + "." + std::to_string(k) : std::string();
      if (l.train) blobs_[l.tops[k]].train = tensor;
      if (l.test) blobs_[l.tops[k]].test = tensor;
      if (tensor.empty()) absent_.insert(l.tops[k]);
    }
    add(std::move(to));
  }

  void share(net_layer& l, job_layer& to) {
    if (l.shares.empty()) return;
    const auto* owner = first_of_theirs(to.owner);
    if (to.owner.empty() || !owner)
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
        found_.note(l.title() +
                    ": 'propagate_down: false' is left out: Troupe stops no gradients at an input, so the layers before "
                    "it learn from this one, too");
    }
  }

  // Caffe's losses and metrics have their own label that does not count; Troupe's data has one for
  // all of them.
  void take_ignored(net_layer& l, const job_layer& to) {
    if (to.part == job_layer::role::plain || to.type == "euclidean" || to.type == "sigmoid_cross_entropy") return;
    if (!to.ignored) {
      all_count_in_.push_back(l.title());
      return;
    }
    if (ignored_ && *ignored_ != *to.ignored)
      return l.error("the label " + std::to_string(*to.ignored) + " does not count here, and " + std::to_string(*ignored_) +
                     " in " + ignored_in_ + "; in Troupe one label (`ignore_label` of [data]) counts in no loss and no metric");
    ignored_ = to.ignored, ignored_in_ = l.title();
  }
  void note_ignored() {
    if (ignored_ && !all_count_in_.empty())
      found_.note("the label " + std::to_string(*ignored_) +
                  " (`ignore_label` of [data]) counts in no loss and no metric, so not in " + joined(all_count_in_) +
                  ", either, where Caffe counts it");
  }

  // Scores of a global pooling are images of one pixel. Caffe's losses take them as they are.
  void flatten_scores(net_layer& l, job_layer& to) {
    const auto* source = find(layer_of(to.inputs[0]));
    if (!source) return;
    if (const auto known = flat_.find(to.inputs[0]); known != flat_.end()) {
      to.inputs[0] = known->second;
      return;
    }
    if (!facts_.at(source->name).pooled) return scores_of_pixels(l, to);
    job_layer flat;
    flat.name = names_.fresh(source->name + "_flat");
    flat.type = "flatten", flat.inputs = {to.inputs[0]};
    flat_[to.inputs[0]] = flat.name;
    found_.note("a layer " + in_quotes(flat.name) + " is added: the loss takes scores without the axes of an image");
    to.inputs[0] = flat.name;
    add(std::move(flat));
  }
  // [N, C, H, W] becomes [N, H W, C], which losses take with a label for each pixel.
  void scores_of_pixels(net_layer& l, job_layer& to) {
    const auto classes = channels_of(to.inputs[0]);
    if (classes < 1) return l.error("scores of every pixel need a number of channels that is known");
    job_layer moved, rows;
    moved.name = names_.fresh(layer_of(to.inputs[0]) + "_last"), moved.type = "permute", moved.inputs = {to.inputs[0]};
    moved.set("order", "[2, 3, 1]");
    rows.name = names_.fresh(layer_of(to.inputs[0]) + "_pixels"), rows.type = "reshape", rows.inputs = {moved.name};
    rows.set("shape", toml_text(std::vector<std::int64_t>{-1, classes}));
    rows.features = classes;
    found_.note(l.title() + " compares the scores of every pixel: layers " + in_quotes(moved.name) + " and " +
                in_quotes(rows.name) + " are added, and the data need a label for each pixel ([N, height x width])");
    flat_[to.inputs[0]] = rows.name;
    to.inputs[0] = rows.name;
    add(std::move(moved));
    add(std::move(rows));
  }
  bool ends_in_pooling(const job_layer& l) const {
    if (l.type == "avg_pool" || l.type == "max_pool") return true;
    if ((l.type != "dropout" && l.type != "relu" && l.type != "softmax") || l.inputs.empty()) return false;
    const auto before = facts_.find(layer_of(l.inputs[0]));
    return before != facts_.end() && before->second.pooled;
  }

  // Layers are only added, and each has its inputs before it: what a layer inherits from them is
  // computed once.
  const job_layer* find(const std::string& name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : &job_.layers[at->second];
  }
  // By Caffe's name.
  job_layer* first_of_theirs(const std::string& name) {
    const auto at = by_theirs_.find(name);
    return at == by_theirs_.end() ? nullptr : &job_.layers[at->second];
  }
  void add(job_layer l) {
    facts_[l.name] = {channels_made_by(l), ends_in_pooling(l)};
    by_name_[l.name] = job_.layers.size();
    by_theirs_.emplace(l.theirs, job_.layers.size());
    job_.layers.push_back(std::move(l));
  }

  bool with_weights_;
  findings& found_;
  name_maker names_;
  job_model job_;
  job_shapes shapes_{job_.layers};
  std::map<std::string, std::size_t> by_name_, by_theirs_;  // index in job_.layers; of the first
  std::map<std::string, layer_facts> facts_;                // by name of a layer
  std::map<std::string, blob_value> blobs_;
  std::set<std::string> absent_;                      // blobs that Troupe does not compute
  std::map<std::string, pool_mask> masks_;            // blobs that hold positions of maxima
  std::set<std::string> absent_data_;                 // those of them that data layers of Caffe make
  std::set<std::string> labels_;                      // blobs that a loss or metric takes as labels
  std::map<std::string, std::string> readers_;        // blob -> title of a layer that reads it otherwise
  std::vector<std::string> left_out_, without_data_;  // titles of layers
  std::map<std::string, std::string> flat_;           // tensor -> the layer that flattens it
  std::optional<std::int64_t> ignored_;               // the label that does not count
  std::string ignored_in_;                            // title of the last layer that says so
  std::vector<std::string> all_count_in_;             // titles of losses and metrics without such a label
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
