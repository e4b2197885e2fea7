#include "runtime/node/models/caffe/export_net.hpp"

#include <algorithm>
#include <set>

#include "runtime/base/wording.hpp"
#include "runtime/model/share.hpp"
#include "runtime/node/models/caffe/export_rules.hpp"

namespace troupe::caffe {
namespace {

class net_exporter {
 public:
  net_exporter(const prepared_job& job, const named_tensors& weights, const name_pairs& names, findings& found)
      : job_(job), graph_(job.graph), found_(found) {
    for (const auto& [name, value] : weights) weights_[name] = &value;
    for (const auto& [theirs, ours] : names) given_[ours] = theirs;
    for (const auto& l : graph_.layers) theirs_.insert(name_of(l));
  }

  binary_net write() {
    check_names();
    out_.net.fields.push_back(text_field("name", job_.spec.name));
    write_input();
    for (const auto& l : graph_.layers) {
      if (l.type == "pad" && folded(l)) continue;
      write_layer(l);
    }
    return std::move(out_);
  }

 private:
  void check_names() {
    for (const auto& [ours, theirs] : given_)
      if (std::none_of(graph_.layers.begin(), graph_.layers.end(), [&o = ours](const graph_layer& l) { return l.name == o; }))
        found_.error(proto_field(),
                     "the job has no layer " + in_quotes(ours) + ", which the list of names calls " + in_quotes(theirs));
    if (theirs_.size() != graph_.layers.size()) found_.error(proto_field(), "the list of names gives one name to two layers");
  }

  std::string name_of(const graph_layer& l) const {
    const auto given = given_.find(l.name);
    return given == given_.end() ? l.name : given->second;
  }
  // The layer Scale of an affine batch_norm.
  std::string scale_of(const graph_layer& l) const {
    auto name = name_of(l) + "_scale";
    while (theirs_.contains(name)) name += "_";
    return name;
  }
  static bool affine(const graph_layer& l) { return l.type == "batch_norm" && l.spec->values.flag("affine"); }

  // The blob of a tensor: the layer's name, "slice1.1" for a further output.
  std::string blob_of(tensor_ref r) const {
    if (r.layer == from_data) return r.output == 0 ? "data" : "label";
    const auto& l = graph_.layers[static_cast<std::size_t>(r.layer)];
    if (l.type == "pad" && folded(l)) return blob_of(l.inputs[0]);
    const auto name = affine(l) ? scale_of(l) : name_of(l);
    return r.output == 0 ? name : name + "." + std::to_string(r.output);
  }
  bool folded(const graph_layer& pad) const {
    const auto readers = graph_.consumers({static_cast<std::int32_t>(pad.index), 0});
    return readers.size() == 1 && pad_of(graph_, graph_.layers[static_cast<std::size_t>(readers[0].layer)]) == &pad;
  }

  static proto_field shape_field(shape s, std::int64_t examples) {
    std::vector<proto_field> dims;
    s.set(0, examples);
    for (int i = 0; i < s.rank(); ++i) dims.push_back(integer_field("dim", s[i]));
    return message_field("shape", std::move(dims));
  }
  void write_input() {
    const auto batch = job_.spec.data.batch;
    std::vector<proto_field> f{text_field("name", "data"), text_field("type", "Input"), text_field("top", "data")},
        shapes{shape_field(graph_.data, batch)};
    const auto reads_labels = [](const graph_layer& l) {
      return std::find(l.inputs.begin(), l.inputs.end(), tensor_ref{from_data, 1}) != l.inputs.end();
    };
    if (std::any_of(graph_.layers.begin(), graph_.layers.end(), reads_labels)) {
      f.push_back(text_field("top", "label"));
      shapes.push_back(shape_field(graph_.label, batch));
    }
    f.push_back(message_field("input_param", std::move(shapes)));
    add_layer(std::move(f));
    const auto changed = [&](const options& o, const char* key) {
      const auto v = o.values.find(key);
      if (v == o.values.end()) return false;
      if (const auto* list = std::get_if<std::vector<double>>(&v->second)) return !list->empty();
      const auto* one = std::get_if<double>(&v->second);
      return one && *one != (std::string(key) == "scale" ? 1.0 : 0.0);
    };
    const auto& o = job_.spec.data.values;
    if (changed(o, "scale") || changed(o, "mean") || job_.spec.data.augment)
      found_.note(
          "the layer Input takes the numbers that the net sees: scale, mean and augment of [data] are not part of the files");
    const auto& d = *job_.data;
    if (d.example().rank() == 3 && d.example()[0] == 3 && d.bytes() && d.picture_order() == channel_order::rgb)
      found_.note("the net takes pictures as red, green, blue; programs for Caffe give it blue, green, red: swap the planes there");
  }
  void add_layer(std::vector<proto_field> fields) { out_.net.fields.push_back(message_field("layer", std::move(fields))); }

  static std::vector<proto_field> head(const std::string& name, const std::string& type, const std::string& phase) {
    std::vector<proto_field> f{text_field("name", name), text_field("type", type)};
    if (!phase.empty()) f.push_back(message_field("include", {word_field("phase", phase == "test" ? "TEST" : "TRAIN")}));
    return f;
  }

  void write_layer(const graph_layer& shared) {
    const auto l = as_if_alone(graph_, shared);
    layer_export e{l, l.spec->values, graph_, found_, {}, {}, 0, pad_of(graph_, l), ignored_label()};
    const auto rule = export_rule_of(l.type);
    if (!rule) return e.refuse("Caffe has no such layer");
    rule(e);
    auto f = head(name_of(l), e.type, l.in_train ? l.spec->phase : "test");
    for (const auto& r : l.inputs) f.push_back(text_field("bottom", blob_of(r)));
    if (affine(l))
      f.push_back(text_field("top", name_of(l)));
    else
      for (std::size_t o = 0; o < std::max<std::size_t>(l.out.size(), 1); ++o)
        f.push_back(text_field("top", blob_of({static_cast<std::int32_t>(l.index), static_cast<std::uint16_t>(o)})));
    if (l.maths->is_loss() && l.loss_weight != 1) f.push_back(real_field("loss_weight", l.loss_weight));
    if (l.type == "batch_norm") return write_batch_norm(e, std::move(f));
    add_params(e, e.params, f, shared.shared_in > 0 || shared.shared_out > 0);
    f.insert(f.end(), e.own.begin(), e.own.end());
    for (std::size_t k = 0; k < e.params; ++k) add_blob(f, blob_with(e.param(k), l));
    add_layer(std::move(f));
  }

  // `named`: the layer shares parameters, which Caffe knows by their names.
  static void add_params(const layer_export& e, std::size_t params, std::vector<proto_field>& f, bool named = false) {
    bool usual = !named;
    std::vector<proto_field> all;
    for (std::size_t k = 0; k < params; ++k) {
      const auto& p = e.param(k).spec;
      usual = usual && p.lr_multiplier == 1 && p.decay_multiplier == 1;
      std::vector<proto_field> fields{real_field("lr_mult", p.lr_multiplier), real_field("decay_mult", p.decay_multiplier)};
      if (named) fields.insert(fields.begin(), text_field("name", e.param(k).full_name));
      all.push_back(message_field("param", std::move(fields)));
    }
    if (!usual) f.insert(f.end(), all.begin(), all.end());
  }

  blob blob_with(const graph_param& p, const graph_layer& l) const {
    const auto& t = *weights_.at(p.full_name);
    blob b;
    for (int i = 0; i < t.dims().rank(); ++i) b.dims.push_back(t.dims()[i]);
    if (l.type == "prelu" && l.spec->values.flag("shared")) b.dims.clear();
    const auto* data = t.data<float>();
    b.values = std::make_shared<const std::vector<float>>(data, data + t.count());
    return b;
  }
  void add_blob(std::vector<proto_field>& f, blob b) {
    auto at = integer_field("blobs", static_cast<std::int64_t>(out_.blobs.size()));
    at.what = proto_field::kind::blob;
    f.push_back(std::move(at));
    out_.blobs.push_back(std::move(b));
  }

  // Mean, variance and the factor 1 of them. An affine one has a layer Scale after it.
  void write_batch_norm(const layer_export& e, std::vector<proto_field> f) {
    const auto& l = e.layer;
    const std::size_t first = affine(l) ? 2 : 0;
    for (int k = 0; k < 3; ++k) f.push_back(message_field("param", {real_field("lr_mult", 0), real_field("decay_mult", 0)}));
    f.insert(f.end(), e.own.begin(), e.own.end());
    for (std::size_t k = first; k < first + 2; ++k) add_blob(f, blob_with(e.param(k), l));
    blob one;
    one.dims = {1};
    one.values = std::make_shared<const std::vector<float>>(1, 1.0F);
    add_blob(f, std::move(one));
    add_layer(std::move(f));
    if (!affine(l)) return;
    auto s = head(scale_of(l), "Scale", l.spec->phase);
    s.push_back(text_field("bottom", name_of(l)));
    s.push_back(text_field("top", scale_of(l)));
    add_params(e, 2, s);
    s.push_back(message_field("scale_param", {word_field("bias_term", "true")}));
    for (std::size_t k = 0; k < 2; ++k) add_blob(s, blob_with(e.param(k), l));
    add_layer(std::move(s));
  }

  // Caffe's losses ignore one label: that of the data, or -1 as a sign of all negative ones.
  std::int64_t ignored_label() const {
    const auto& o = job_.spec.data.values;
    const auto named = o.has("ignore_label") ? o.integer("ignore_label") : -1;
    return named >= 0 ? named : -1;
  }

  const prepared_job& job_;
  const model_graph& graph_;
  findings& found_;
  std::map<std::string, const tensor*> weights_;
  std::map<std::string, std::string> given_;  // Troupe's name -> Caffe's
  std::set<std::string> theirs_;
  binary_net out_;
};

}  // namespace

expected<exported_model, diagnostics> export_net(const prepared_job& job, const named_tensors& weights, const name_pairs& names) {
  findings found;
  for (const auto& p : job.graph.params) {
    const auto given = std::find_if(weights.begin(), weights.end(), [&](const auto& w) { return w.first == p.full_name; });
    if (given == weights.end() || given->second.type() != dtype::f32)
      found.error(proto_field(), "the parameter " + in_quotes(p.full_name) +
                                     (given == weights.end() ? " has no weights" : " is not f32; a .caffemodel has f32"));
  }
  if (!found.wrong.empty()) return unexpected(std::move(found.wrong));
  const auto made = net_exporter(job, weights, names, found).write();
  if (!found.wrong.empty()) return unexpected(std::move(found.wrong));
  auto bytes = binary_of(made);
  if (!bytes) return unexpected(model_error({}, bytes.error().text));
  exported_model model;
  model.files.push_back({".prototxt", prototxt_of(made.net)});
  model.files.push_back({".caffemodel", *std::move(bytes)});
  model.notes = std::move(found.notes);
  return model;
}

}  // namespace troupe::caffe
