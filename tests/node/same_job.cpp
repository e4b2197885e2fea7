#include "tests/node/same_job.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "ops/filler.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/config/source_paths.hpp"
#include "runtime/node/config/toml_text.hpp"
#include "runtime/node/node_tables.hpp"
#include "tests/node/job_fixture.hpp"

namespace troupe::job_test {

const tables& every_table() {
  static const auto all = node_tables();
  return all;
}

namespace {

using names = std::vector<std::string>;

// Options as text, with the defaults of the declaration and of fillers filled in.
std::string text_of_options(options o, const option_specs& specs) {
  for (const auto& s : specs)
    if (s.fallback) o.values.try_emplace(s.name, *s.fallback);
  for (auto& [key, value] : o.values) {
    auto* t = std::get_if<std::shared_ptr<options>>(&value);
    if (!t || !key.ends_with("filler") || !(*t)->has("kind")) continue;
    const auto filler = filler_from(**t, "constant");
    auto whole = std::make_shared<options>(filler.values);
    whole->values["kind"] = filler.kind;
    value = whole;
  }
  return toml_text(o);
}

template <class Registry>
std::string text_of_choice(const choice& c, const Registry& entries) {
  const auto* entry = entries.find(c.kind);
  return c.kind + " " + text_of_options(c.values, entry ? entry->specs : option_specs{});
}
template <class Registry>
std::string text_of_choice(const std::optional<choice>& c, const Registry& entries) {
  return c ? text_of_choice(*c, entries) : "none";
}

// Collects the fields that differ.
struct comparison {
  names differ;
  template <class T>
  void same(const std::string& field, const T& a, const T& b) {
    if (!(a == b)) differ.push_back(field);
  }
};

void compare_layers(comparison& c, const layer_spec& a, const layer_spec& b) {
  const auto name = "layer " + a.name + " ";
  const auto& specs = every_table().layers.find(a.type)->specs;
  c.same(name + "name", a.name, b.name);
  c.same(name + "type", a.type, b.type);
  c.same(name + "inputs", a.inputs, b.inputs);
  c.same(name + "share", a.share, b.share);
  c.same(name + "options", text_of_options(a.values, specs), text_of_options(b.values, specs));
  c.same(name + "lr_scale", a.lr_scale, b.lr_scale);
  c.same(name + "lr_scales", a.lr_scales, b.lr_scales);
  c.same(name + "decay_scale", a.decay_scale, b.decay_scale);
  c.same(name + "decay_scales", a.decay_scales, b.decay_scales);
  c.same(name + "loss_weight", a.loss_weight, b.loss_weight);
  c.same(name + "partition", a.partition, b.partition);
  c.same(name + "presence of partition", a.key_at.count("partition"), b.key_at.count("partition"));
  c.same(name + "fraction", a.fraction, b.fraction);
  c.same(name + "auto_fraction", a.auto_fraction, b.auto_fraction);
  c.same(name + "place", a.place, b.place);
  c.same(name + "algorithm", a.algorithm, b.algorithm);
  c.same(name + "recompute", a.recompute, b.recompute);
  c.same(name + "gather", a.gather, b.gather);
  c.same(name + "wire", a.wire, b.wire);
  c.same(name + "compress", a.compress, b.compress);
  c.same(name + "phase", a.phase, b.phase);
}

void compare_average(comparison& c, const average_spec& a, const average_spec& b) {
  c.same("average.kind", a.kind, b.kind);
  c.same("average.decay", a.decay, b.decay);
  c.same("average.bias_correction", a.bias_correction, b.bias_correction);
  c.same("average.start", a.start, b.start);
  c.same("average.start_fraction", a.start_fraction, b.start_fraction);
  c.same("average.every", a.every, b.every);
  c.same("average.evaluate", a.evaluate, b.evaluate);
  c.same("average.write", a.write, b.write);
}

void compare_train(comparison& c, const train_spec& a, const train_spec& b) {
  compare_average(c, a.average, b.average);
  const auto& all = every_table();
  c.same("rule", text_of_choice(a.rule, all.rules), text_of_choice(b.rule, all.rules));
  c.same("lr", a.lr, b.lr);
  c.same("decay", a.decay, b.decay);
  c.same("decay_l1", a.decay_l1, b.decay_l1);
  c.same("schedule", text_of_choice(a.schedule, all.schedules), text_of_choice(b.schedule, all.schedules));
  c.same("warmup.steps", a.warmup.steps, b.warmup.steps);
  c.same("warmup.from", a.warmup.from, b.warmup.from);
  c.same("warmup.prefix", a.warmup.prefix, b.warmup.prefix);
  c.same("lr_scale", a.lr_scale, b.lr_scale);
  c.same("base_batch", a.base_batch, b.base_batch);
  c.same("clip.value", a.clip.value, b.clip.value);
  c.same("clip.norm", a.clip.norm, b.clip.norm);
  c.same("algorithm", a.algorithm, b.algorithm);
  c.same("freeze", a.freeze, b.freeze);
  c.same("sync", text_of_choice(a.sync, all.modes), text_of_choice(b.sync, all.modes));
  c.same("when", text_of_choice(a.when, all.conditions), text_of_choice(b.when, all.conditions));
  c.same("reducer", a.reducer, b.reducer);
  const auto* reducer = all.reducers.find(a.reducer);
  const auto specs = reducer ? reducer->specs : option_specs{};
  c.same("reducer_values", text_of_options(a.reducer_values, specs), text_of_options(b.reducer_values, specs));
  c.same("compress", a.compress, b.compress);
  c.same("fraction", a.fraction, b.fraction);
  c.same("threshold", a.threshold, b.threshold);
  c.same("epochs", a.finish.epochs, b.finish.epochs);
  c.same("steps", a.finish.steps, b.finish.steps);
  c.same("target_accuracy", a.finish.target_accuracy, b.finish.target_accuracy);
  c.same("patience", a.finish.patience, b.finish.patience);
  c.same("measure", a.finish.measure, b.finish.measure);
  c.same("seconds", a.finish.seconds, b.finish.seconds);
  c.same("custom", text_of_choice(a.finish.custom, all.finishes), text_of_choice(b.finish.custom, all.finishes));
  c.same("who", a.finish.who, b.finish.who);
  c.same("max_skipped", a.max_skipped, b.max_skipped);
  c.same("deterministic", a.deterministic, b.deterministic);
}

void compare_job_and_data(comparison& c, const job_spec& a, const job_spec& b) {
  const auto& all = every_table();
  c.same("name", a.name, b.name);
  c.same("seed", a.seed, b.seed);
  c.same("devices", a.devices, b.devices);
  c.same("tflops", a.tflops, b.tflops);
  c.same("tf32", a.maths.tf32, b.maths.tf32);
  c.same("conv_workspace", a.maths.conv_workspace, b.maths.conv_workspace);
  c.same("precision", a.precision, b.precision);
  c.same("record", a.record, b.record);
  c.same("max_failures", a.max_failures, b.max_failures);
  c.same("min_nodes", a.min_nodes, b.min_nodes);
  c.same("max_nodes", a.max_nodes, b.max_nodes);
  c.same("spares", a.spares, b.spares);
  c.same("source", a.data.source, b.data.source);
  const auto& source = *all.sources.find(a.data.source);
  c.same("data", text_of_options(with_absolute_paths(a.data.values, source), source.specs),
         text_of_options(b.data.values, source.specs));
  c.same("batch", a.data.batch, b.data.batch);
  c.same("validation", a.data.validation, b.data.validation);
  c.same("readers", a.data.readers, b.data.readers);
  c.same("presence of augment", a.data.augment.has_value(), b.data.augment.has_value());
  c.same("augment", toml_text(a.data.augment.value_or(options{})), toml_text(b.data.augment.value_or(options{})));
  c.same("sampler", text_of_choice(a.data.sampler, all.samplers), text_of_choice(b.data.sampler, all.samplers));
}

void compare_the_rest(comparison& c, const job_spec& a, const job_spec& b) {
  const auto& all = every_table();
  c.same("eval.every", a.eval.every, b.eval.every);
  c.same("eval.batch", a.eval.batch, b.eval.batch);
  c.same("eval.on_training", a.eval.on_training, b.eval.on_training);
  c.same("eval.sampler", text_of_choice(a.eval.sampler, all.eval_samplers), text_of_choice(b.eval.sampler, all.eval_samplers));
  c.same("every_steps", a.checkpoint.every_steps, b.checkpoint.every_steps);
  c.same("every_seconds", a.checkpoint.every_seconds, b.checkpoint.every_seconds);
  c.same("never", a.checkpoint.never, b.checkpoint.never);
  c.same("keep", a.checkpoint.keep, b.checkpoint.keep);
  c.same("dir", a.checkpoint.dir, b.checkpoint.dir);
  c.same("resume", a.checkpoint.resume, b.checkpoint.resume);
  c.same("match", a.checkpoint.match, b.checkpoint.match);
  c.same("packets", a.pipeline.packets, b.pipeline.packets);
  c.same("sub_solvers", a.pipeline.sub_solvers, b.pipeline.sub_solvers);
  c.same("fuse", a.pipeline.fuse, b.pipeline.fuse);
  c.same("fuse_layers", a.pipeline.fuse_layers, b.pipeline.fuse_layers);
  c.same("weights", a.pipeline.weights, b.pipeline.weights);
  c.same("worker_groups", a.topology.worker_groups, b.topology.worker_groups);
  c.same("workers_per_group", a.topology.workers_per_group, b.topology.workers_per_group);
  c.same("server_groups", a.topology.server_groups, b.topology.server_groups);
  c.same("servers_per_group", a.topology.servers_per_group, b.topology.servers_per_group);
  c.same("replicas", a.topology.replicas, b.topology.replicas);
  c.same("colocated", a.topology.colocated, b.topology.colocated);
  c.same("max_block", a.topology.max_block, b.topology.max_block);
}

}  // namespace

names differences(const job_spec& a, const job_spec& b) {
  comparison c;
  compare_job_and_data(c, a, b);
  c.same("number of layers", a.layers.size(), b.layers.size());
  for (std::size_t i = 0; i < std::min(a.layers.size(), b.layers.size()); ++i) compare_layers(c, a.layers[i], b.layers[i]);
  compare_train(c, a.train, b.train);
  compare_the_rest(c, a, b);
  return c.differ;
}

job_spec parsed(const std::string& text, const std::vector<std::string>& overrides, const std::string& file) {
  auto r = parse_job(text, file, every_table(), overrides);
  if (!r) throw std::runtime_error(shown(r.error()) + text);
  return *std::move(r);
}

std::string expect_round_trip(const job_spec& s) {
  auto text = resolved_job_text(s, every_table());
  const auto again = parsed(text, {}, "elsewhere.toml");
  EXPECT_EQ(differences(s, again), names{}) << text;
  EXPECT_EQ(resolved_job_text(again, every_table()), text);
  return text;
}

}  // namespace troupe::job_test
