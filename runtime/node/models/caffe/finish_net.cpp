#include "runtime/node/models/caffe/finish_net.hpp"

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

std::int64_t readers_of(const layer_list& layers, const std::string& name) {
  std::int64_t n = 0;
  for (const auto& l : layers) n += std::count(l.inputs.begin(), l.inputs.end(), name);
  return n;
}

void rename_input(layer_list& layers, const std::string& from, const std::string& to) {
  for (auto& l : layers) std::replace(l.inputs.begin(), l.inputs.end(), from, to);
}

// lr_scale = [a, b] becomes [a, b, 1, 1]: the running statistics are parameters, too.
std::string with_statistics(const std::string& list) { return list.substr(0, list.size() - 1) + ", 1.0, 1.0]"; }

void merge_scales(layer_list& layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    auto& scale = layers[i];
    if (!scale.mergeable || scale.inputs.size() != 1) continue;
    const auto norm = named(layers, scale.inputs[0]);
    if (norm == layers.end() || norm->type != "batch_norm" || norm->phase != scale.phase || readers_of(layers, norm->name) != 1)
      continue;
    std::erase_if(norm->keys, [](const auto& key) { return key.first == "affine"; });
    for (const auto& [key, value] : scale.keys)
      if (key == "lr_scale" || key == "decay_scale") norm->set(key, with_statistics(value));
    norm->weights.insert(norm->weights.begin(), scale.weights.begin(), scale.weights.end());
    norm->params = 4;
    const auto kept = norm->name, gone = scale.name;
    layers.erase(layers.begin() + static_cast<std::ptrdiff_t>(i));
    --i;
    rename_input(layers, gone, kept);
  }
}

std::set<std::string> used_layers(const layer_list& layers) {
  std::set<std::string> used;
  for (const auto& l : layers)
    for (const auto& i : l.inputs) used.insert(layer_of(i));
  return used;
}

bool has_loss(const layer_list& layers) {
  return std::any_of(layers.begin(), layers.end(),
                     [](const job_layer& l) { return l.part == job_layer::role::loss && l.phase != "test"; });
}

void leave_out_unused(layer_list& layers, findings& found) {
  while (true) {
    const auto used = used_layers(layers);
    const auto idle = std::find_if(layers.rbegin(), layers.rend(), [&](const job_layer& l) {
      return l.part == job_layer::role::plain && !used.contains(l.name);
    });
    if (idle == layers.rend()) return;
    found.note("layer " + in_quotes(idle->name) + " (" + idle->type + ") is left out: nothing in the job uses its output");
    layers.erase(std::next(idle).base());
  }
}

std::string unique_name(const layer_list& layers, std::string wanted) {
  while (std::any_of(layers.begin(), layers.end(), [&](const job_layer& l) { return l.name == wanted; })) wanted += "_";
  return wanted;
}

// A loss on the last output: that of its scores, if it ends in softmax or sigmoid.
void add_loss(layer_list& layers, findings& found) {
  const auto used = used_layers(layers);
  const auto last = std::find_if(layers.rbegin(), layers.rend(), [&](const job_layer& l) {
    return l.part == job_layer::role::plain && !used.contains(l.name);
  });
  if (last == layers.rend()) return;
  auto scores = last->name;
  std::string type = "softmax_loss";
  bool image = last->image;
  if ((last->type == "softmax" || last->type == "sigmoid") && last->inputs.size() == 1) {
    if (last->type == "sigmoid") type = "sigmoid_cross_entropy";
    found.note("layer " + in_quotes(last->name) + " (" + last->type + ") is part of the loss, and of what `troupe predict` prints");
    scores = last->inputs[0];
    const auto source = named(layers, layer_of(scores));
    image = source != layers.end() && source->image;
    layers.erase(std::next(last).base());
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
  if (type != "softmax_loss") return;
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
