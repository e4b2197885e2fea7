#include "runtime/job/resume_keys.hpp"

#include <algorithm>
#include <type_traits>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/job/data_identity.hpp"
#include "runtime/job/job_rule.hpp"

namespace troupe {
namespace {

std::string kept_value_text(const option_value& v);

std::string kept_options_text(const options& o) {
  std::string s;
  for (const auto& [key, value] : o.values) s.append(s.empty() ? "" : " ").append(key).append("=").append(kept_value_text(value));
  return s;
}

std::string kept_value_text(const option_value& v) {
  const auto one = [](const auto& x) -> std::string {
    using type = std::decay_t<decltype(x)>;
    if constexpr (std::is_same_v<type, bool>)
      return x ? "true" : "false";
    else if constexpr (std::is_same_v<type, std::string>)
      return x;
    else
      return number_text(x);
  };
  return std::visit(
      [&](const auto& x) -> std::string {
        using type = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<type, std::shared_ptr<options>>) {
          return x ? "{" + kept_options_text(*x) + "}" : "{}";
        } else if constexpr (requires { typename type::value_type; } && !std::is_same_v<type, std::string>) {
          std::string s;
          for (const auto& e : x) s += (s.empty() ? "" : ",") + one(e);
          return "[" + s + "]";
        } else {
          return one(x);
        }
      },
      v);
}

void put_choice(const choice& c, const resume_values& v) {
  v.is(kept_options_text(c.values).empty() ? c.kind : c.kind + " " + kept_options_text(c.values));
}

template <class Text>
void of_each_layer(const prepared_job& j, const resume_values& v, const char* key, const Text& text) {
  for (const auto& l : j.spec.layers) v.also("layer." + l.name + "." + key, text(l));
}

void put_layer_names(const prepared_job& j, const resume_values& v) {
  std::string all;
  for (const auto& l : j.spec.layers) all += (all.empty() ? "" : ", ") + l.name;
  v.is(std::move(all));
}

void put_layer_inputs(const prepared_job& j, const resume_values& v) {
  of_each_layer(j, v, "inputs", [](const layer_spec& l) {
    std::string all;
    for (const auto& i : l.inputs) all += (all.empty() ? "" : ", ") + i;
    return all;
  });
}

// Without fillers, which only a new job uses.
void put_layer_options(const prepared_job& j, const resume_values& v) {
  for (const auto& l : j.spec.layers)
    for (const auto& [key, value] : l.values.values)
      if (!key.ends_with("filler")) v.also("layer." + l.name + "." + key, kept_value_text(value));
}

// The values that a checkpoint stores outside of made_with, where older versions stored them too.
metadata_map values_in_fields(const checkpoint& c) {
  return {{"job.seed", number_text(c.seed)}, {"pipeline.packets", number_text(c.packets)}};
}

metadata_map values_of_key(const resume_key& k, const prepared_job& j) {
  metadata_map m;
  if (k.values) k.values(j, {k.key, m});
  return m;
}

// Returns both texts, cut to a short part around their first difference.
std::pair<std::string, std::string> shown_where_they_differ(const std::string& a, const std::string& b) {
  constexpr std::size_t before = 20, most = 60;
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  const auto from = std::max(a.size(), b.size()) <= most ? 0 : std::max<std::ptrdiff_t>(0, differ - std::ptrdiff_t{before});
  const auto cut = [&](const std::string& s) {
    const auto part = s.substr(std::min(s.size(), static_cast<std::size_t>(from)));
    return (from > 0 ? "..." : "") + part.substr(0, most) + (part.size() > most ? "..." : "");
  };
  const auto quoted = [](const std::string& s) { return s.empty() ? "\"\"" : s; };
  return {quoted(cut(a)), quoted(cut(b))};
}

std::vector<resume_key> rows_of_the_data() {
  using enum on_resume;
  return {
      {"data.batch", refused, [](const prepared_job& j, const resume_values& v) { v.is(number_text(j.spec.data.batch)); }},
      {"data.validation", refused,
       [](const prepared_job& j, const resume_values& v) { v.is(number_text(j.spec.data.validation)); }},
      {"the number of training examples", refused,
       [](const prepared_job& j, const resume_values& v) { v.is(number_text(j.data->size(split::train))); }},
      {"the order of the classes", refused,
       [](const prepared_job& j, const resume_values& v) {
         const auto names = j.data->class_names();
         if (!names.empty() && !j.data->ids()) v.is(joined(names));
       }},
      {"data.readers", allowed},
      {"data.augment", same_bits,
       [](const prepared_job& j, const resume_values& v) {
         v.is(j.spec.data.augment ? kept_options_text(*j.spec.data.augment) : "none");
       }},
      {"data.source", allowed},
      {"data.*", same_bits},  // the training examples below
  };
}

std::vector<resume_key> rows_of_layers() {
  using enum on_resume;
  return {
      {"layer.name", refused, put_layer_names},
      {"layer.type", refused,
       [](const prepared_job& j, const resume_values& v) { of_each_layer(j, v, "type", [](const auto& l) { return l.type; }); }},
      {"layer.inputs", refused, put_layer_inputs},
      {"layer.share", refused,
       [](const prepared_job& j, const resume_values& v) {
         of_each_layer(j, v, "share", [](const auto& l) { return l.share.empty() ? "none" : l.share; });
       }},
      {"layer.phase", refused,
       [](const prepared_job& j, const resume_values& v) {
         of_each_layer(j, v, "phase", [](const auto& l) { return l.phase.empty() ? "both" : l.phase; });
       }},
      {"layer.*", same_bits, put_layer_options},
      {"layer.algorithm", same_bits},  // an option of the types that have several
      {"layer.wire", same_bits,
       [](const prepared_job& j, const resume_values& v) { of_each_layer(j, v, "wire", [](const auto& l) { return l.wire; }); }},
      {"layer.compress", same_bits,
       [](const prepared_job& j, const resume_values& v) {
         of_each_layer(j, v, "compress", [](const auto& l) { return l.compress; });
       }},
      {"layer.gather", same_bits,
       [](const prepared_job& j, const resume_values& v) {
         of_each_layer(j, v, "gather", [](const auto& l) { return std::string(l.gather ? "true" : "false"); });
       }},
      {"layer.lr_scale", allowed},
      {"layer.decay_scale", allowed},
      {"layer.loss_weight", allowed},
      {"layer.recompute", allowed},
      {"layer.partition", allowed},
      {"layer.place", allowed},
      {"layer.fraction", allowed},
  };
}

std::vector<resume_key> rows_of_averages() {
  using enum on_resume;
  return {
      {"train.average.kind", refused,
       [](const prepared_job& j, const resume_values& v) { v.is(keeps_average(j.spec) ? j.spec.train.average.kind : "none"); }},
      {"train.average.decay", same_bits,
       [](const prepared_job& j, const resume_values& v) { v.is(number_text(j.spec.train.average.decay)); }},
      {"train.average.bias_correction", same_bits,
       [](const prepared_job& j, const resume_values& v) {
         v.is(std::string(j.spec.train.average.bias_correction ? "true" : "false"));
       }},
      {"train.average.start", same_bits,
       [](const prepared_job& j, const resume_values& v) { v.is(number_text(j.spec.train.average.start)); }},
      // The number of updates that it makes of the job's steps.
      {"train.average.start_fraction", same_bits,
       [](const prepared_job& j, const resume_values& v) {
         v.is(j.spec.train.average.start_fraction ? number_text(average_start(j)) + " updates" : "none");
       }},
      {"train.average.every", same_bits,
       [](const prepared_job& j, const resume_values& v) { v.is(number_text(j.spec.train.average.every)); }},
      {"train.average.evaluate", allowed},
      {"train.average.write", allowed},
  };
}

std::vector<resume_key> rows_of_training() {
  using enum on_resume;
  return {
      {"train.algorithm", refused, [](const prepared_job& j, const resume_values& v) { v.is(j.spec.train.algorithm); }},
      {"train.sampler.kind", refused, [](const prepared_job& j, const resume_values& v) { put_choice(j.spec.data.sampler, v); }},
      {"train.sampler.*", refused},
      {"train.dynamics.rule", refused, [](const prepared_job& j, const resume_values& v) { v.is(j.spec.train.rule.kind); }},
      {"train.dynamics.*", allowed},
      {"train.dynamics.lr", allowed},
      {"train.dynamics.decay", allowed},
      {"train.dynamics.decay_l1", allowed},
      {"train.dynamics.lr_scale", allowed},
      {"train.dynamics.base_batch", allowed},
      {"train.dynamics.clip.value", allowed},
      {"train.dynamics.clip.norm", allowed},
      {"train.dynamics.schedule.kind", allowed},
      {"train.dynamics.schedule.*", allowed},
      {"train.dynamics.schedule.warmup.steps", allowed},
      {"train.dynamics.schedule.warmup.from", allowed},
      {"train.dynamics.schedule.warmup.prefix", allowed},
      {"train.sync.mode", same_bits, [](const prepared_job& j, const resume_values& v) { v.is(j.filed_mode); }},
      {"train.sync.*", same_bits},
      {"train.sync.when.kind", same_bits,
       [](const prepared_job& j, const resume_values& v) {
         j.spec.train.when ? put_choice(*j.spec.train.when, v) : v.is("the mode's habit");
       }},
      {"train.sync.when.*", same_bits},
      {"train.exchange.reducer", allowed},
      {"train.exchange.*", allowed},
      {"train.exchange.compress", same_bits, [](const prepared_job& j, const resume_values& v) { v.is(j.spec.train.compress); }},
      {"train.exchange.fraction", same_bits,
       [](const prepared_job& j, const resume_values& v) { v.is(number_text(j.spec.train.fraction)); }},
      {"train.exchange.threshold", same_bits,
       [](const prepared_job& j, const resume_values& v) { v.is(number_text(j.spec.train.threshold)); }},
      {"train.freeze", allowed},
      {"train.max_skipped", allowed},
      {"train.deterministic", allowed},
      {"train.finish.epochs", allowed},
      {"train.finish.steps", allowed},
      {"train.finish.patience", allowed},
      {"train.finish.measure", allowed},
      {"train.finish.target_accuracy", allowed},
      {"train.finish.time", allowed},
      {"train.finish.who", allowed},
      {"train.finish.custom.kind", allowed},
      {"train.finish.custom.*", allowed},
  };
}

std::vector<resume_key> rows_of_the_rest() {
  using enum on_resume;
  return {
      {"plugins", allowed},
      {"include", allowed},  // the job is compared with all its layers written out
      {"included", allowed},
      {"block", allowed},
      {"job.name", allowed},
      {"job.seed", same_bits, [](const prepared_job& j, const resume_values& v) { v.is(number_text(j.spec.seed)); }},
      {"job.devices", allowed},
      {"job.tflops", allowed},
      {"job.max_failures", allowed},
      {"job.min_nodes", allowed},
      {"job.max_nodes", allowed},
      {"job.spares", allowed},
      {"job.precision", refused, [](const prepared_job& j, const resume_values& v) { v.is(j.spec.precision); }},
      {"job.record", allowed},
      {"job.tf32", same_bits,
       [](const prepared_job& j, const resume_values& v) { v.is(std::string(j.spec.maths.tf32 ? "true" : "false")); }},
      {"job.conv_workspace", same_bits,
       [](const prepared_job& j, const resume_values& v) { v.is(number_text(j.spec.maths.conv_workspace)); }},
      {"pipeline.packets", same_bits, [](const prepared_job& j, const resume_values& v) { v.is(number_text(j.plan.packets)); }},
      {"pipeline.sub_solvers", allowed},
      {"pipeline.fuse", allowed},
      {"pipeline.fuse_layers", allowed},
      {"pipeline.weights", same_bits, [](const prepared_job& j, const resume_values& v) { v.is(j.spec.pipeline.weights); }},
      {"topology.worker_groups", allowed},
      {"topology.workers_per_group", allowed},
      {"topology.server_groups", allowed},
      {"topology.servers_per_group", allowed},
      {"topology.replicas", allowed},
      {"topology.colocated", allowed},
      {"topology.max_block", allowed},
      {"eval.every", allowed},
      {"eval.batch", allowed},
      {"eval.split", allowed},
      {"eval.sampler.kind", allowed},
      {"eval.sampler.*", allowed},
      {"checkpoint.every", allowed},
      {"checkpoint.keep", allowed},
      {"checkpoint.dir", allowed},
      {"checkpoint.resume", allowed},
      {"checkpoint.match", allowed},
      {"the training examples", same_bits,  // after job.seed, with which "synthetic" makes others
       [](const prepared_job& j, const resume_values& v) {
         if (auto identity = identity_of(j.data); !identity.empty()) v.is(std::move(identity));
       }},
  };
}

}  // namespace

const std::vector<resume_key>& resume_keys() {
  static const auto all = [] {
    std::vector<resume_key> entries;
    for (auto&& part : {rows_of_the_data(), rows_of_layers(), rows_of_averages(), rows_of_training(), rows_of_the_rest()})
      entries.insert(entries.end(), part.begin(), part.end());
    return entries;
  }();
  return all;
}

metadata_map made_with(const prepared_job& j) {
  metadata_map m;
  for (const auto& k : resume_keys()) m.merge(values_of_key(k, j));
  for (const auto& [key, text] : values_in_fields({})) m.erase(key);
  return m;
}

record_error other_value(const std::string& key, on_resume rule, const std::string& theirs, const std::string& ours) {
  const auto [there, here] = shown_where_they_differ(theirs, ours);
  const auto both = key + " is " + there + " in the checkpoint and " + here + " in the job";
  const std::string anew = " or start a new job with these weights (--weights FILE)";
  if (rule == on_resume::refused)
    return {{}, {}, both + ": a job cannot continue with another value. Set it as in the checkpoint," + anew};
  return {{},
          {},
          both +
              ": the weights would differ from those of an uninterrupted run. Set it as in the checkpoint, allow it with --set "
              "train.deterministic=false," +
              anew};
}

expected<void, record_error> check_made_with(const prepared_job& j, const checkpoint& c) {
  auto theirs = c.made_with;
  for (auto& [key, text] : values_in_fields(c)) theirs[key] = text;
  // The job may also name the mode that was switched to while the checkpoint's job ran.
  if (const auto in_use = c.progress.find("mode"); in_use != c.progress.end() && in_use->second == j.filed_mode)
    theirs.erase("train.sync.mode");
  for (const auto& k : resume_keys()) {
    if (k.rule == on_resume::same_bits && !j.spec.train.deterministic) continue;
    for (const auto& [name, ours] : values_of_key(k, j))
      if (const auto at = theirs.find(name); at != theirs.end() && at->second != ours)
        return unexpected(other_value(name, k.rule, at->second, ours));
  }
  return {};
}

}  // namespace troupe
