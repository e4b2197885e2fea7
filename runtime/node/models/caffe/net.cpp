#include "runtime/node/models/caffe/net.hpp"

#include <algorithm>
#include <map>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"

namespace troupe::caffe {
namespace {

constexpr std::size_t max_layers = 10000;

// Whether a state of this phase, level 0 and no stages meets the rule.
bool meets(const proto_field& rule, bool train, const std::string& subject, findings& found) {
  message_reader r(rule, "NetStateRule", subject, found);
  const auto phase = r.word("phase", "", {"TRAIN", "TEST"});
  const auto level = r.integer("min_level", 0, -1'000'000) <= 0 && r.integer("max_level", 0, -1'000'000) >= 0;
  const auto stages = r.texts("stage");
  r.ignore({"not_stage"});
  return level && stages.empty() && (phase.empty() || (phase == "TRAIN") == train);
}

void read_phases(net_layer& l, findings& found) {
  auto& r = l.fields();
  r.ignore({"phase"});
  const auto include = r.all("include"), exclude = r.all("exclude");
  if (!include.empty() && !exclude.empty()) r.error("exclude", "a layer has rules 'include' or 'exclude', not both");
  const auto in = [&](bool train) {
    const auto met = [&](const proto_field* rule) { return meets(*rule, train, l.title() + ": ", found); };
    // Every rule is read, so that mistakes in it are found once.
    if (!include.empty()) return std::count_if(include.begin(), include.end(), met) > 0;
    return std::count_if(exclude.begin(), exclude.end(), met) == 0;
  };
  l.train = in(true);
  const auto told = found.wrong.size();
  l.test = in(false);
  found.wrong.resize(told);
}

using named_params = std::map<std::string, shared_param>;  // parameter -> the first layer that has it

void read_params(net_layer& l, named_params& named, findings& found) {
  auto& r = l.fields();
  const auto share = [&](const std::string& name, std::size_t index) {
    if (name.empty()) return;
    const auto [first, fresh] = named.emplace(name, shared_param{l.name, index});
    if (!fresh) l.shares[index] = first->second;
  };
  const auto rates = r.reals("blobs_lr"), decays = r.reals("weight_decay");  // of V1
  for (std::size_t k = 0; k < std::max(rates.size(), decays.size()); ++k)
    l.params.push_back({k < rates.size() ? rates[k] : 1, k < decays.size() ? decays[k] : 1});
  std::size_t index = 0;
  for (const auto* p : r.all("param")) {
    if (p->what == proto_field::kind::text) {  // of V1
      share(p->text, index++);
      continue;
    }
    message_reader m(*p, "ParamSpec", l.title() + ": param: ", found);
    share(m.text("name"), index++);
    m.ignore({"share_mode"});
    l.params.push_back({m.real("lr_mult", 1), m.real("decay_mult", 1)});
  }
  for (const auto& p : l.params)
    if (p.lr < 0 || p.decay < 0) l.error("lr_mult and decay_mult must not be negative");
}

void read_common(net_layer& l, named_params& named, findings& found) {
  auto& r = l.fields();
  l.bottoms = r.texts("bottom"), l.tops = r.texts("top");
  l.loss_weights = r.reals("loss_weight");
  for (const auto* f : r.all("propagate_down")) l.propagate.push_back(f->text != "false" && f->text != "0");
  r.ignore({"blob_share_mode"});
  read_phases(l, found);
  read_params(l, named, found);
}

std::string name_of(const proto_field& layer) {
  for (const auto& f : layer.fields)
    if (f.name == "name" && f.what == proto_field::kind::text) return f.text;
  return {};
}

net_layer read_layer(const proto_field& from, bool v1, named_params& named, const std::vector<blob>* blobs, findings& found) {
  net_layer l;
  l.name = name_of(from);
  const auto* schema = v1 ? "V1LayerParameter" : "LayerParameter";
  {
    // The type, which the titles of all further mistakes name.
    findings unused;
    message_reader r(from, schema, "", unused);
    const auto* type = r.one("type");
    if (type && v1)
      l.type = type_of_v1(type->text);
    else if (type && type->what == proto_field::kind::text)
      l.type = type->text;
    if (type && l.type.empty())
      found.error(*type, "layer " + in_quotes(l.name) + ": " + in_quotes(type->text) + " is no layer type" +
                             (v1 ? " of `layers`" : "; a type of `layer` is in quotes"));
    else if (!type)
      found.error(from, "layer " + in_quotes(l.name) + " has no type" +
                            (r.has("layer") ? "; layers of Caffe before version 1 are not supported: upgrade the file with Caffe's "
                                              "upgrade_net_proto_text"
                                            : ""));
    for (const auto& f : from.fields) r.ignore({f.name.c_str()});
  }
  l.rest = std::make_unique<message_reader>(from, schema, l.title() + ": ", found);
  l.fields().ignore({"type", "layer"});
  l.fields().one("name");
  if (l.name.empty()) l.error("a layer needs a name");
  read_common(l, named, found);
  for (const auto* f : l.fields().all("blobs")) {
    std::size_t index = 0;
    if (blobs && f->what == proto_field::kind::blob && read_number(f->text, index) && index < blobs->size())
      l.blobs.push_back(&(*blobs)[index]);
    else
      l.error("weights in a text file are not read; name the .caffemodel");
  }
  return l;
}

// The layer Input for `input`, `input_dim` (four a blob) and `input_shape`.
void add_inputs(message_reader& r, const proto_field& tree, net& n, findings& found) {
  const auto names = r.texts("input");
  const auto dims = r.integers("input_dim", 1);
  const auto shapes = r.all("input_shape");
  if (names.empty()) return;
  net_layer l;
  l.name = "input", l.type = "Input", l.tops = names;
  for (const auto* s : shapes) {
    message_reader shape(*s, "BlobShape", "input_shape: ", found);
    l.inputs.push_back(read_shape(shape));
  }
  for (std::size_t i = 0; shapes.empty() && i + 4 <= dims.size(); i += 4)
    l.inputs.emplace_back(dims.begin() + static_cast<std::ptrdiff_t>(i), dims.begin() + static_cast<std::ptrdiff_t>(i) + 4);
  if (l.inputs.size() != names.size()) r.error("input", "each input needs four numbers input_dim, or an input_shape");
  static const proto_field nothing;
  const auto* first = r.all("input")[0];
  l.rest = std::make_unique<message_reader>(nothing, "LayerParameter", l.title() + ": ", found, first ? first : &tree);
  n.layers.push_back(std::move(l));
}

}  // namespace

std::string net_layer::title() const { return "layer " + in_quotes(name) + (type.empty() ? "" : " (" + type + ")"); }

void net_layer::error(const std::string& what) { rest->error("", what); }

std::string type_of_v1(const std::string& word) {
  static const std::map<std::string, std::string> types{{"ABSVAL", "AbsVal"},
                                                        {"ACCURACY", "Accuracy"},
                                                        {"ARGMAX", "ArgMax"},
                                                        {"BNLL", "BNLL"},
                                                        {"CONCAT", "Concat"},
                                                        {"CONTRASTIVE_LOSS", "ContrastiveLoss"},
                                                        {"CONVOLUTION", "Convolution"},
                                                        {"DATA", "Data"},
                                                        {"DECONVOLUTION", "Deconvolution"},
                                                        {"DROPOUT", "Dropout"},
                                                        {"DUMMY_DATA", "DummyData"},
                                                        {"EUCLIDEAN_LOSS", "EuclideanLoss"},
                                                        {"ELTWISE", "Eltwise"},
                                                        {"EXP", "Exp"},
                                                        {"FLATTEN", "Flatten"},
                                                        {"HDF5_DATA", "HDF5Data"},
                                                        {"HDF5_OUTPUT", "HDF5Output"},
                                                        {"HINGE_LOSS", "HingeLoss"},
                                                        {"IM2COL", "Im2col"},
                                                        {"IMAGE_DATA", "ImageData"},
                                                        {"INFOGAIN_LOSS", "InfogainLoss"},
                                                        {"INNER_PRODUCT", "InnerProduct"},
                                                        {"LRN", "LRN"},
                                                        {"MEMORY_DATA", "MemoryData"},
                                                        {"MULTINOMIAL_LOGISTIC_LOSS", "MultinomialLogisticLoss"},
                                                        {"MVN", "MVN"},
                                                        {"POOLING", "Pooling"},
                                                        {"POWER", "Power"},
                                                        {"RELU", "ReLU"},
                                                        {"SIGMOID", "Sigmoid"},
                                                        {"SIGMOID_CROSS_ENTROPY_LOSS", "SigmoidCrossEntropyLoss"},
                                                        {"SILENCE", "Silence"},
                                                        {"SOFTMAX", "Softmax"},
                                                        {"SOFTMAX_LOSS", "SoftmaxWithLoss"},
                                                        {"SPLIT", "Split"},
                                                        {"SLICE", "Slice"},
                                                        {"TANH", "TanH"},
                                                        {"WINDOW_DATA", "WindowData"},
                                                        {"THRESHOLD", "Threshold"}};
  const auto found = types.find(word);
  return found == types.end() ? std::string() : found->second;
}

std::vector<std::int64_t> read_shape(message_reader& shape) { return shape.integers("dim", 1); }

net read_net(const proto_field& tree, const std::vector<blob>* blobs, findings& found) {
  net n;
  message_reader r(tree, "NetParameter", "", found);
  n.name = r.text("name");
  r.ignore({"force_backward", "debug_info", "state"});
  add_inputs(r, tree, n, found);
  named_params named;
  const auto old = r.all("layers"), current = r.all("layer");
  if (!old.empty() && !current.empty()) r.error("layers", "a net has `layer` or the older `layers`, not both");
  if (old.size() + current.size() > max_layers) {
    found.error(tree, "the net has more than " + std::to_string(max_layers) + " layers");
    return n;
  }
  for (const auto& list : {old, current})
    for (const auto* f : list) {
      if (f->what != proto_field::kind::message)
        found.error(*f, in_quotes(f->name) + " is a message in braces");
      else
        n.layers.push_back(read_layer(*f, f->name == "layers", named, blobs, found));
    }
  if (n.layers.empty()) found.error(tree, "the net has no layers");
  return n;
}

}  // namespace troupe::caffe
