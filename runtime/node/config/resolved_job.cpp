#include "runtime/node/config/resolved_job.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "ops/filler.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/node/config/average_keys.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "runtime/node/config/plugin.hpp"
#include "runtime/node/config/source_paths.hpp"
#include "runtime/node/config/toml_text.hpp"

namespace troupe {
namespace {

constexpr const char* resolved_head =
    "# Every key of the job that has an effect, with its value. A comment names a key that is not set, and what applies then.\n";
constexpr std::string_view head_of_every_key = "# Every key of the job with its value.";

// The value of a key as TOML; nullopt: not set. For a table: an empty text if the table is written
// elsewhere.
using key_value = std::optional<std::string>;
const key_value as_table = std::string();

// Values of keys that are bound to no member, or whose members do not decide alone.
using key_values = std::map<std::string, key_value, std::less<>>;

// A value that the reader would refuse means that the key is not set.
key_value value_of(const key_descriptor& k, std::int64_t v) { return static_cast<double>(v) < k.min ? key_value() : toml_text(v); }
key_value value_of(const key_descriptor& k, std::uint64_t v) { return value_of(k, static_cast<std::int64_t>(v)); }
key_value value_of(const key_descriptor& k, double v) {
  return k.kind == key_kind::time ? toml_text(toml_text(v) + "s") : toml_text(v);
}
key_value value_of(const key_descriptor&, bool v) { return toml_text(v); }
key_value value_of(const key_descriptor&, const std::string& v) { return v.empty() ? key_value() : toml_text(v); }
key_value value_of(const key_descriptor& k, const std::vector<std::string>& v) {
  return v.empty() && !k.fallback.empty() ? key_value() : toml_text(v);
}
template <class T>
key_value value_of(const key_descriptor& k, const std::optional<T>& v) {
  return v ? value_of(k, *v) : key_value();
}

std::string one_line_of(std::string s) {
  std::replace(s.begin(), s.end(), '\n', ' ');
  return s;
}

bool acceptable(const option_spec& s, const option_value& v) {
  try {
    check_options(options{{{s.name, v}}}, {s});
    return true;
  } catch (const option_error&) {
    return false;
  }
}

// A filler with all options of its kind. A table without a kind, whose kind the layer knows, stays
// as it is.
option_value filled(const option_value& v) {
  const auto* table = std::get_if<std::shared_ptr<options>>(&v);
  if (!table || !*table || !(*table)->has("kind")) return v;
  auto whole = std::make_shared<options>(**table);
  for (const auto& [key, value] : filler_from(**table, "constant").values.values) whole->values[key] = value;
  return whole;
}

class job_writer {
 public:
  job_writer(const job_spec& s, const tables& all) : s_(s), all_(all) {}

  std::string text() {
    out_ = resolved_head;
    key_values top{{"plugins", absolute_plugins()}, {"include", {}}};
    for (const char* table : {"included", "block", "job", "data", "layer", "train", "eval", "checkpoint", "pipeline", "topology"})
      top[table] = as_table;
    rows(file_keys(), s_, top);
    write_job();
    write_data();
    write_layers();
    write_train();
    write_eval();
    write_checkpoint();
    head("[pipeline]");
    rows(pipeline_keys(), s_.pipeline, {});
    head("[topology]");
    rows(topology_keys(), s_.topology, {});
    return std::move(out_);
  }

 private:
  void head(const std::string& name) { out_ += "\n" + name + "\n"; }
  void line(const std::string& key, const std::string& value) { out_ += toml_key(key) + " = " + value + "\n"; }
  void absent(const std::string& key, const std::string& fallback) {
    out_ += "# " + key + ": " + (fallback.empty() ? "not set" : one_line_of(fallback)) + "\n";
  }

  // The keys of one table. `known` has those that the members alone do not give. With `brief`, keys
  // that are not set are omitted.
  template <class S>
  void rows(const keys<S>& k, const S& from, const key_values& known, bool brief = false) {
    k.each(from, [&](const key_descriptor& d, const auto& member) {
      constexpr bool bound = !std::is_same_v<std::decay_t<decltype(member)>, std::monostate>;
      key_value value;
      if (const auto given = known.find(d.name); given != known.end())
        value = given->second;
      else if constexpr (bound)
        value = value_of(d, member);
      else
        throw std::logic_error(k.name() + " " + d.name + " is missing in the writer of resolved job files");
      const bool table = d.kind == key_kind::table || d.kind == key_kind::tables;
      if (table && value == as_table) return;
      if (value)
        line(d.name, *value);
      else if (!brief)
        absent(d.name, d.fallback);
    });
  }

  // The options of an entry, in the order of their declaration. `taken`: names that are keys of the
  // table itself.
  void options_of(const option_specs& specs, const options& o, const std::vector<std::string>& taken = {}) {
    for (const auto& spec : specs) {
      if (std::find(taken.begin(), taken.end(), spec.name) != taken.end()) continue;
      const auto at = o.values.find(spec.name);
      if (at == o.values.end() && !spec.fallback) continue;
      const auto& value = at == o.values.end() ? *spec.fallback : at->second;
      const auto* table = std::get_if<std::shared_ptr<options>>(&value);
      if (table && (!*table || (*table)->values.empty()))
        absent(spec.name, spec.doc);
      else if (!acceptable(spec, value))
        absent(spec.name, spec.doc);
      else
        line(spec.name, toml_text(spec.name.ends_with("filler") ? filled(value) : value));
    }
  }
  template <class Registry>
  void options_of(const Registry& entries, const choice& c, const std::vector<std::string>& taken = {}) {
    if (const auto* entry = entries.find(c.kind)) options_of(entry->specs, c.values, taken);
  }

  key_value absolute_plugins() const {
    std::vector<std::string> all;
    for (const auto& name : s_.plugins) {
      const auto p = split_plugin(name);
      all.push_back(std::filesystem::absolute(p.path).lexically_normal().string() +
                    (p.sha256.empty() ? "" : "#sha256=" + p.sha256));
    }
    return all.empty() ? key_value() : toml_text(all);
  }

  void write_job() {
    head("[job]");
    constexpr std::int64_t mib = 1 << 20;
    const auto bytes = static_cast<std::int64_t>(s_.maths.conv_workspace);
    auto name = s_.name;  // a name that comes from a file's name may have characters that the key does not accept
    for (auto& c : name)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '/') c = '_';
    rows(job_keys(), s_,
         {{"name", toml_text(name)},
          {"tflops", s_.tflops.empty() ? key_value() : toml_text(s_.tflops)},
          {"tf32", toml_text(s_.maths.tf32)},
          {"conv_workspace", bytes % mib == 0 ? toml_text(toml_text(bytes / mib) + "MiB") : toml_text(bytes)},
          // A prepared job has its number of nodes here, which would be an upper limit in a file.
          {"max_nodes", toml_text(s_.nodes_fixed && !s_.elastic ? std::int64_t{0} : s_.max_nodes)}});
  }

  void write_data() {
    const auto& d = s_.data;
    head("[data]");
    rows(data_keys(), d, {{"source", toml_text(d.source)}, {"augment", d.augment ? as_table : key_value()}});
    if (const auto* entry = all_.sources.find(d.source)) options_of(entry->specs, with_absolute_paths(d.values, *entry));
    if (!d.augment) return;
    head("[data.augment]");
    options_of(augmentation::specs(), *d.augment);
  }

  void write_layers() {
    out_ += "\n# A layer has these keys only if they are set:\n";
    layer_keys().each(layer_spec{}, [&](const key_descriptor& d, const auto&) {
      if (d.name == "partition")
        absent(d.name, "\"batch\", or as the layer that it reads");
      else if (!d.required && !d.fallback.empty() && d.name != "algorithm" && d.name != "lr_scale")
        absent(d.name, d.fallback);
    });
    for (const auto& l : s_.layers) write_layer(l);
  }

  void write_layer(const layer_spec& l) {
    head("[[layer]]");
    const auto* entry = all_.layers.find(l.type);
    const bool own_algorithm =
        entry && std::any_of(entry->specs.begin(), entry->specs.end(), [](const option_spec& o) { return o.name == "algorithm"; });
    const bool partition = l.partition != "batch" || l.key_at.count("partition") > 0;  // its absence has a meaning
    rows(layer_keys(), l,
         {{"type", toml_text(l.type)},
          {"partition", partition ? toml_text(l.partition) : key_value()},
          {"lr_scale", l.lr_scales.empty() ? toml_text(l.lr_scale) : toml_text(l.lr_scales)},
          {"decay_scale", l.decay_scale            ? toml_text(*l.decay_scale)
                          : l.decay_scales.empty() ? key_value()
                                                   : toml_text(l.decay_scales)},
          {"fraction", l.auto_fraction      ? toml_text("auto")
                       : l.fraction.empty() ? key_value()
                                            : toml_text(l.fraction)},
          {"algorithm", own_algorithm ? key_value() : toml_text(l.algorithm.empty() ? "auto" : l.algorithm)}},
         true);
    if (entry) options_of(entry->specs, l.values, {"name", "type", "inputs"});
  }

  void write_train() {
    const auto& t = s_.train;
    head("[train]");
    rows(train_keys(), t,
         {{"sampler", as_table},
          {"dynamics", as_table},
          {"average", t.average.kind.empty() ? key_value() : as_table},
          {"sync", as_table},
          {"exchange", as_table},
          {"finish", as_table}});
    head("[train.sampler]");
    rows(sampler_keys(), t, {{"kind", toml_text(s_.data.sampler.kind)}});
    options_of(all_.samplers, s_.data.sampler);
    write_dynamics();
    write_average();
    write_sync();
    write_exchange();
    head("[train.finish]");
    const auto& f = t.finish;
    rows(finish_keys(), f,
         {{"measure", f.patience ? toml_text(f.measure) : key_value()}, {"custom", f.custom ? as_table : key_value()}});
    if (!f.custom) return;
    head("[train.finish.custom]");
    rows(custom_keys(), f, {{"kind", toml_text(f.custom->kind)}});
    options_of(all_.finishes, *f.custom);
  }

  void write_dynamics() {
    const auto& t = s_.train;
    const bool clips = t.clip.value > 0 || t.clip.norm > 0;
    head("[train.dynamics]");
    rows(dynamics_keys(), t, {{"rule", toml_text(t.rule.kind)}, {"schedule", as_table}, {"clip", clips ? as_table : key_value()}});
    options_of(all_.rules, t.rule);
    head("[train.dynamics.schedule]");
    rows(schedule_keys(), t, {{"kind", toml_text(t.schedule.kind)}, {"warmup", t.warmup.steps > 0 ? as_table : key_value()}});
    options_of(all_.schedules, t.schedule);
    if (t.warmup.steps > 0) {
      head("[train.dynamics.schedule.warmup]");
      rows(warmup_keys(), t.warmup, {});
    }
    if (!clips) return;
    head("[train.dynamics.clip]");
    const auto bound = [](double v) { return v > 0 ? toml_text(v) : key_value(); };
    rows(clip_keys(), t.clip, {{"value", bound(t.clip.value)}, {"norm", bound(t.clip.norm)}});
  }

  void write_average() {
    const auto& a = s_.train.average;
    if (a.kind.empty()) return;
    const bool ema = a.kind == "ema";
    head("[train.average]");
    rows(average_keys(), a,
         {{"decay", ema ? toml_text(a.decay) : key_value()},
          {"bias_correction", ema ? toml_text(a.bias_correction) : key_value()},
          {"start", a.start_fraction ? key_value() : toml_text(a.start)}});
  }

  void write_sync() {
    const auto& t = s_.train;
    head("[train.sync]");
    rows(sync_keys(), t, {{"mode", toml_text(t.sync.kind)}, {"when", t.when ? as_table : key_value()}});
    options_of(all_.modes, t.sync);
    if (!t.when) return;
    head("[train.sync.when]");
    rows(when_keys(), t, {{"kind", toml_text(t.when->kind)}});
    options_of(all_.conditions, *t.when);
  }

  // The reader refuses the number of a codec that is not used.
  void write_exchange() {
    const auto& t = s_.train;
    const auto number_of = [&](const char* codec, double v) {
      const bool used = t.compress == codec ||
                        std::any_of(s_.layers.begin(), s_.layers.end(), [&](const layer_spec& l) { return l.compress == codec; });
      return used ? toml_text(v) : key_value();
    };
    head("[train.exchange]");
    rows(exchange_keys(), t,
         {{"reducer", toml_text(t.reducer)},
          {"fraction", number_of("topk", t.fraction)},
          {"threshold", number_of("threshold", t.threshold)}});
    options_of(all_.reducers, {t.reducer, t.reducer_values, {}});
  }

  void write_eval() {
    const auto& e = s_.eval;
    head("[eval]");
    rows(eval_keys(), e, {{"split", toml_text(e.on_training ? "train" : "test")}, {"sampler", as_table}});
    head("[eval.sampler]");
    rows(eval_sampler_keys(), e, {{"kind", toml_text(e.sampler.kind)}});
    options_of(all_.eval_samplers, e.sampler);
  }

  void write_checkpoint() {
    const auto& c = s_.checkpoint;
    key_value every;
    if (c.never) every = toml_text("never");
    if (c.every_steps > 0) every = toml_text(c.every_steps);
    if (c.every_seconds > 0) every = toml_text(toml_text(c.every_seconds) + "s");
    head("[checkpoint]");
    rows(checkpoint_keys(), c, {{"every", every}});
  }

  const job_spec& s_;
  const tables& all_;
  std::string out_;
};

}  // namespace

bool written_with_every_key(const std::string& text) { return text.starts_with(head_of_every_key); }

std::string resolved_job_text(const job_spec& s, const tables& all) { return job_writer(s, all).text(); }

std::string resolved_job_text(const prepared_job& j) {
  auto s = j.spec;
  s.topology = j.asked;
  // The names that the source found in its file: their order is kept if the file changes.
  if (const auto names = j.data->class_names(); !names.empty() && s.data.values.has("class_names"))
    s.data.values.values["class_names"] = names;
  return resolved_job_text(s, *j.all);
}

}  // namespace troupe
