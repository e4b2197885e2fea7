#include "runtime/node/models/caffe/import_net.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/base/wording.hpp"

namespace troupe::caffe {
namespace {

using layer_list = std::vector<job_layer>;

layer_list::iterator named(layer_list& layers, const std::string& name) {
  return std::find_if(layers.begin(), layers.end(), [&](const job_layer& l) { return l.name == name; });
}

// lr_scale = [a, b] becomes [a, b, 1, 1]: the running statistics are parameters, too.
std::string with_statistics(const std::string& list) { return list.substr(0, list.size() - 1) + ", 1.0, 1.0]"; }

// The batch_norm becomes affine, with the parameters of the scale.
void take_scale(job_layer& norm, const job_layer& scale) {
  std::erase_if(norm.keys, [](const auto& key) { return key.first == "affine"; });
  for (const auto& [key, value] : scale.keys)
    if (key == "lr_scale" || key == "decay_scale") norm.set(key, with_statistics(value));
  norm.weights.insert(norm.weights.begin(), scale.weights.begin(), scale.weights.end());
  norm.params = 4;
}

void merge_scales(layer_list& layers) {
  std::map<std::string, std::int64_t> readers;  // of a tensor
  for (const auto& l : layers)
    for (const auto& i : l.inputs) ++readers[i];
  std::map<std::string, std::size_t> norms;
  std::map<std::string, std::string> renamed;  // a scale that is merged -> its batch_norm
  std::set<std::string> gone;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    auto& l = layers[k];
    for (auto& i : l.inputs)
      if (const auto r = renamed.find(i); r != renamed.end()) i = r->second;
    if (l.type == "batch_norm") norms[l.name] = k;
    if (!l.mergeable || l.inputs.size() != 1) continue;
    const auto norm = norms.find(l.inputs[0]);
    if (norm == norms.end() || layers[norm->second].phase != l.phase || readers[l.inputs[0]] != 1) continue;
    take_scale(layers[norm->second], l);
    renamed[l.name] = norm->first;
    gone.insert(l.name);
    norms.erase(norm);  // it has its scale
  }
  std::erase_if(layers, [&](const job_layer& l) { return gone.contains(l.name); });
}

// Layers whose outputs others read; `plain`: others that are no loss and no metric.
std::set<std::string> used_layers(const layer_list& layers, bool plain) {
  std::set<std::string> used;
  for (const auto& l : layers)
    if (!plain || l.part == job_layer::role::plain)
      for (const auto& i : l.inputs) used.insert(layer_of(i));
  return used;
}

bool has_loss(const layer_list& layers) {
  return std::any_of(layers.begin(), layers.end(),
                     [](const job_layer& l) { return l.part == job_layer::role::loss && l.phase != "test"; });
}

// The inputs of a layer are before it, so one pass from the end finds all.
void leave_out_unused(layer_list& layers, findings& found) {
  std::set<std::string> used, idle;
  for (auto l = layers.rbegin(); l != layers.rend(); ++l) {
    if (l->part == job_layer::role::plain && !used.contains(l->name)) {
      found.note("layer " + in_quotes(l->name) + " (" + l->type + ") is left out: nothing in the job uses its output");
      idle.insert(l->name);
      continue;
    }
    for (const auto& i : l->inputs) used.insert(layer_of(i));
  }
  std::erase_if(layers, [&](const job_layer& l) { return idle.contains(l.name); });
}

std::string unique_name(const layer_list& layers, std::string wanted) {
  while (std::any_of(layers.begin(), layers.end(), [&](const job_layer& l) { return l.name == wanted; })) wanted += "_";
  return wanted;
}

// A loss on the last output, which metrics may read, too: that of its scores, if it ends in softmax
// or sigmoid.
void add_loss(layer_list& layers, findings& found) {
  const auto used = used_layers(layers, true), read = used_layers(layers, false);
  const auto last = std::find_if(layers.rbegin(), layers.rend(),
                                 [&](const job_layer& l) { return l.part == job_layer::role::plain && !used.contains(l.name); });
  if (last == layers.rend()) return;
  auto scores = last->name;
  std::string type = "softmax_loss";
  bool image = last->image;
  const bool over_classes = last->type == "softmax" && last->keys.empty();  // no other axis
  if ((over_classes || last->type == "sigmoid") && last->inputs.size() == 1) {
    if (last->type == "sigmoid") type = "sigmoid_cross_entropy";
    found.note("layer " + in_quotes(last->name) + " (" + last->type + ") is part of the loss, and of what `troupe predict` prints");
    scores = last->inputs[0];
    const auto source = named(layers, layer_of(scores));
    image = source != layers.end() && source->image;
    if (!read.contains(last->name)) layers.erase(std::next(last).base());
  }
  const auto label = std::string("label");
  if (image) {
    job_layer flat;
    flat.name = unique_name(layers, layer_of(scores) + "_flat"), flat.type = "flatten", flat.inputs = {scores};
    scores = flat.name;
    layers.push_back(std::move(flat));
  }
  job_layer loss, accuracy;
  loss.name = unique_name(layers, "loss"), loss.type = type, loss.inputs = {scores, label}, loss.part = job_layer::role::loss;
  found.note("the net has no loss: a layer " + in_quotes(loss.name) + " (" + type + ") on " + in_quotes(scores) + " is added");
  layers.push_back(std::move(loss));
  const auto is_accuracy = [](const job_layer& l) { return l.type == "accuracy"; };
  if (type != "softmax_loss" || std::any_of(layers.begin(), layers.end(), is_accuracy)) return;
  accuracy.name = unique_name(layers, "accuracy"), accuracy.type = "accuracy", accuracy.inputs = {scores, label};
  accuracy.phase = "test", accuracy.part = job_layer::role::metric;
  layers.push_back(std::move(accuracy));
}

}  // namespace

void finish_layers(job_model& job, findings& found) {
  merge_scales(job.layers);
  if (!found.wrong.empty()) return;
  if (!has_loss(job.layers)) add_loss(job.layers, found);
  leave_out_unused(job.layers, found);
}

std::int64_t classes_of(const job_model& job) {
  std::map<std::string, const job_layer*> by_name;
  for (const auto& l : job.layers) by_name[l.name] = &l;
  for (const auto& l : job.layers) {
    if (l.part != job_layer::role::loss || l.inputs.empty()) continue;
    auto at = by_name.find(layer_of(l.inputs[0]));
    for (std::size_t steps = 0; at != by_name.end() && steps < job.layers.size(); ++steps) {
      if (at->second->features > 0) return at->second->features;
      if (at->second->inputs.empty()) break;
      at = by_name.find(layer_of(at->second->inputs[0]));
    }
  }
  return 10;
}

}  // namespace troupe::caffe
