#include "runtime/node/config/job_file.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "ops/filler.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/data/augment.hpp"
#include "runtime/node/config/average_keys.hpp"
#include "runtime/node/config/device_names.hpp"
#include "runtime/node/config/include.hpp"
#include "runtime/node/config/job_document.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "runtime/node/config/key_places.hpp"
#include "runtime/node/config/plugin_list.hpp"
#include "runtime/node/config/table_reader.hpp"
#include "runtime/spec/mistakes.hpp"

namespace troupe {
namespace {

class job_reader {
 public:
  job_reader(const job_document& d, const std::string& file, const tables& all, const std::vector<std::string>* only_plugins)
      : elsewhere_(finder_of_job_keys(d.root, all)),
        root_(d.root, "", {file, 1, 1}, errors_, nullptr, {}, &elsewhere_),
        origins_(d.origins),
        all_(all),
        only_plugins_(only_plugins),
        every_key_(d.every_key) {
    job_.file = file;
    if (const auto stem = std::filesystem::path(file).stem().string(); !stem.empty()) job_.name = as_name(stem);
    for (auto* at :
         {&job_.at, &job_.data.at, &job_.train.at, &job_.eval.at, &job_.checkpoint.at, &job_.pipeline.at, &job_.topology.at})
      *at = {file, 1, 1};
  }

  expected<job_spec, diagnostics> read() {
    for (const char* key : {"include", "included", "block"}) root_.take(key);  // read_job_document has read them
    job_.plugins = take_plugins(root_, job_.file, only_plugins_);
    read_job();
    read_data();
    read_layers();
    read_train();
    read_eval();
    read_checkpoint();
    read_pipeline();
    read_topology();
    root_.finish();
    if (errors_.empty()) check_together();
    std::stable_sort(errors_.begin(), errors_.end(), [](const diagnostic& a, const diagnostic& b) {
      return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
    });
    name_uses(errors_, origins_);
    if (!errors_.empty()) return unexpected(shown_mistakes(std::move(errors_)));
    return std::move(job_);
  }

 private:
  // A top-level table; positions of its keys go into `noted`.
  std::optional<table_reader> section(const char* key, source_position& at, key_positions* noted, bool required) {
    const auto* v = root_.take(key);
    if (!v) {
      if (required) root_.error(key, "there is no [" + std::string(key) + "] table");
      return std::nullopt;
    }
    at = root_.at(key);
    if (const auto* t = v->table()) return table_reader(*t, "[" + std::string(key) + "]", at, errors_, noted, {}, &elsewhere_);
    root_.error(key, in_quotes(key) + " must be a table, not " + kind_of(*v));
    return std::nullopt;
  }

  // `{ kind = "...", ... }`: the registry entry that `word_key` names, and its options: the keys
  // that the caller has not taken.
  template <class Registry>
  void choose(table_reader& r, const char* word_key, const char* what, const Registry& entries, choice& into) {
    into.at = r.at(word_key);
    std::string word;
    if (!r.take(word_key)) {
      r.error(word_key, std::string("it needs a ") + word_key + " (available: " + joined(entries.names()) + ")");
      return r.forgive();
    }
    if (!r.text(word_key, word)) return r.forgive();
    const auto* entry = entries.find(word);
    if (!entry) {
      r.error(word_key, std::string("unknown ") + what + " " + in_quotes(word) + did_you_mean(word, entries.names()) +
                            " (available: " + joined(entries.names()) + ")");
      return r.forgive();
    }
    into.kind = word;
    const auto before = errors_.size();
    into.values = r.rest(entry->specs);
    if constexpr (requires { entry->make(into.values); }) {
      if (errors_.size() > before || !entry->make) return;
      try {
        entry->make(into.values);  // options that contradict each other, which the declaration cannot express
      } catch (const option_error& e) {
        r.error(e.key, e.what());
      }
    }
  }

  void read_job() {
    auto r = section("job", job_.at, nullptr, false);
    if (!r) return;
    const auto& k = job_keys();
    if (k.read(*r, job_, "name") && job_.name.find('/') != std::string::npos)
      r->error("name", "bad name " + in_quotes(job_.name) + ": a name must not contain '/'");
    k.read_each(*r, job_, {"seed", "max_failures", "min_nodes", "max_nodes", "spares", "precision", "record"});
    if (k.read(*r, job_, "devices")) job_.devices_at = check_devices(*r, job_.devices);
    read_speeds(*r, k, job_);
    read_maths(*r, job_.maths);
    r->finish();
  }

  void read_data() {
    auto r = section("data", job_.data.at, &job_.data.key_at, true);
    if (!r) return;
    data_keys().read_all(*r, job_.data);
    if (auto a = r->table("augment", "[data.augment]")) job_.data.augment = a->rest(augmentation::specs());
    choice source;
    choose(*r, "source", "source", all_.sources, source);
    job_.data.source = source.kind;
    job_.data.values = std::move(source.values);
  }

  void read_layers() {
    const auto* v = root_.take("layer");
    if (!v) return root_.error("layer", "the job has no layers: add [[layer]] tables");
    const auto* list = v->array();
    const auto is_table = [](const document_value& e) { return e.table() != nullptr; };
    if (!list || !std::all_of(list->begin(), list->end(), is_table))
      return root_.error("layer", "layers are written as [[layer]] tables");
    for (const auto& e : *list) {
      layer_spec s;
      s.at = e.at;
      table_reader r(*e.table(), "a layer", s.at, errors_, &s.key_at);
      read_layer(r, s);
      if (const auto from = origins_.find(s.name); from != origins_.end()) s.origin = from->second;
      job_.layers.push_back(std::move(s));
    }
  }

  void read_layer(table_reader& r, layer_spec& s) {
    const auto& k = layer_keys();
    if (!r.take("name"))
      r.error("name", "it needs a name");
    else if (k.read(r, s, "name"))
      r.rename("layer " + in_quotes(s.name));
    k.read_each(r, s, {"inputs", "share", "partition", "phase", "wire", "compress"});
    k.read_into(r, "lr_scale", s.lr_scale, s.lr_scales);
    k.read(r, s, "loss_weight");
    if (double all = 1; k.read_into(r, "decay_scale", all, s.decay_scales) && s.decay_scales.empty()) s.decay_scale = all;
    k.read(r, s, "place");
    s.auto_fraction = r.is_word("fraction", "auto");
    if (double one = 0; !s.auto_fraction && k.read_into(r, "fraction", one, s.fraction) && s.fraction.empty()) s.fraction = {one};
    k.read_each(r, s, {"recompute", "gather"});
    choice type;
    if (!r.take("type")) {
      r.error("type", "it needs a type, as in type = \"convolution\"");
      return r.forgive();
    }
    if (!r.text("type", s.type)) return r.forgive();
    const auto* entry = all_.layers.find(s.type);
    if (!entry) {
      r.error("type", "unknown layer type " + in_quotes(s.type) + did_you_mean(s.type, all_.layers.names()));
      return r.forgive();
    }
    read_algorithm(r, *entry, s);
    const auto before = errors_.size();
    s.values = r.rest(entry->specs);
    if (errors_.size() == before) try_to_make(r, *entry, s);
  }

  // The key `algorithm` of a layer is an ordinary option if the type declares one of this name;
  // otherwise only "auto" is valid.
  void read_algorithm(table_reader& r, const layer_type& entry, layer_spec& s) {
    if (std::any_of(entry.specs.begin(), entry.specs.end(), [](const option_spec& o) { return o.name == "algorithm"; })) return;
    if (layer_keys().read_into(r, "algorithm", s.algorithm) && s.algorithm == "auto") s.algorithm.clear();
  }

  // Checks constraints that the declaration cannot express (a filler's own options, options that
  // exclude each other) with the code that will use them.
  void try_to_make(table_reader& r, const layer_type& entry, const layer_spec& s) {
    for (const auto& [key, value] : s.values.values) {
      const auto* table = std::get_if<std::shared_ptr<options>>(&value);
      if (!table || key.size() < 6 || key.compare(key.size() - 6, 6, "filler") != 0) continue;
      try {
        filler_from(**table, "constant");
      } catch (const option_error& e) {
        return r.error_at(position_of(s.key_at, key + "." + e.key, s.at), in_quotes(key) + ": " + e.what());
      }
    }
    if (!entry.make) return;
    try {
      entry.make(s.values);
    } catch (const option_error& e) {
      r.error_at(position_of(s.key_at, e.key, s.at), e.what());
    }
  }

  void read_train() {
    auto& t = job_.train;
    auto r = section("train", t.at, &t.key_at, true);
    if (!r) return;
    if (auto s = r->table("sampler", "[train.sampler]")) choose(*s, "kind", "sampler", all_.samplers, job_.data.sampler);
    check_default("sampler", job_.data.sampler, all_.samplers);
    if (auto d = r->table("dynamics", "[train.dynamics]")) read_dynamics(*d);
    check_default("rule", t.rule, all_.rules);
    check_default("schedule", t.schedule, all_.schedules);
    train_keys().read_each(*r, t, {"algorithm", "freeze", "max_skipped", "deterministic"});
    if (auto a = r->table("average", "[train.average]")) read_average(*a, t.average);
    if (auto s = r->table("sync", "[train.sync]")) {
      if (auto w = s->table("when", "[train.sync.when]")) choose(*w, "kind", "sync condition", all_.conditions, t.when.emplace());
      choose(*s, "mode", "mode", all_.modes, t.sync);
    }
    check_default("mode", t.sync, all_.modes);
    if (auto e = r->table("exchange", "[train.exchange]")) read_exchange(*e);
    if (auto f = r->table("finish", "[train.finish]"))
      read_finish(*f);
    else if (!r->take("finish"))
      r->error("finish", "it needs finish = { ... }: say when to stop (epochs, steps, target_accuracy, patience, time)");
    r->finish();
  }

  // If the file does not choose an entry, the default entry with its default options is used.
  template <class Registry>
  void check_default(const char* what, choice& c, const Registry& entries) {
    if (!c.values.values.empty() || !errors_.empty()) return;
    const auto* entry = entries.find(c.kind);
    if (!entry) return root_.error("train", std::string("the table of ") + what + "s has no " + in_quotes(c.kind));
    if (c.at.file.empty()) c.at = job_.train.at;
    try {
      c.values = check_options({}, entry->specs);
    } catch (const option_error& e) {
      errors_.push_back({c.at, std::string(what) + " " + in_quotes(c.kind) + ": " + e.what()});
    }
  }

  void read_dynamics(table_reader& r) {
    auto& t = job_.train;
    dynamics_keys().read_each(r, t, {"lr", "decay", "decay_l1"});
    if (auto s = r.table("schedule", "[train.dynamics.schedule]")) {
      if (auto w = s->table("warmup", "[train.dynamics.schedule.warmup]")) read_warmup(*w);
      choose(*s, "kind", "schedule", all_.schedules, t.schedule);
    }
    if (auto c = r.table("clip", "[train.dynamics.clip]")) read_clip(*c);
    dynamics_keys().read_each(r, t, {"lr_scale", "base_batch"});
    const bool base = r.take("base_batch"), scale = r.take("lr_scale");
    if (!base && t.lr_scale != "none") r.error("lr_scale", "it needs base_batch: the batch that lr was chosen for");
    if (base && !scale) r.error("base_batch", "'base_batch' has no effect without lr_scale (available: none, linear, sqrt)");
    choose(r, "rule", "update rule", all_.rules, t.rule);
  }

  void read_warmup(table_reader& r) {
    auto& w = job_.train.warmup;
    if (!r.take("steps")) r.error("", "it needs steps, the length of the warm-up");
    warmup_keys().read_all(r, w);
    r.finish();
  }

  void read_clip(table_reader& r) {
    auto& c = job_.train.clip;
    const auto limit = [&](const char* key, const double& read) {
      if (clip_keys().read(r, c, key) && read == 0) r.error(key, in_quotes(key) + " must be more than 0");
    };
    limit("value", c.value);
    limit("norm", c.norm);
    const bool value = r.take("value"), norm = r.take("norm");
    if (value && norm) r.error("norm", "clip by value or by norm, not by both");
    if (!value && !norm) r.error("", "set a bound: value = 5 (each element) or norm = 5 (the whole gradient)");
    r.finish();
  }

  void read_exchange(table_reader& r) {
    auto names = all_.reducers.names();
    names.emplace_back("auto");
    r.word("reducer", job_.train.reducer, names);
    exchange_keys().read(r, job_.train, "compress");
    read_codec(r, "fraction", "topk", job_.train.fraction);
    read_codec(r, "threshold", "threshold", job_.train.threshold);
    if (const auto* entry = all_.reducers.find(job_.train.reducer)) job_.train.reducer_values = r.rest(entry->specs);
    r.finish();
  }

  // Reads a number that only one codec uses.
  void read_codec(table_reader& r, const char* key, const char* codec, const double& read) {
    if (!r.take(key)) return;
    if (exchange_keys().read(r, job_.train, key) && read == 0) r.error(key, in_quotes(key) + " must be more than 0");
    const auto has = [codec](const layer_spec& l) { return l.compress == codec; };
    if (job_.train.compress != codec && std::none_of(job_.layers.begin(), job_.layers.end(), has))
      r.error(key, in_quotes(key) + " has no effect without compress = " + in_quotes(codec));
  }

  void read_finish(table_reader& r) {
    auto& f = job_.train.finish;
    finish_keys().read_all(r, f);
    if (auto c = r.table("custom", "[train.finish.custom]"))
      choose(*c, "kind", "finish condition", all_.finishes, f.custom.emplace());
    bool some = false;
    for (auto key : {"epochs", "steps", "patience", "target_accuracy", "time", "custom"}) some = some || r.take(key);
    if (!some) r.error("", "say when to stop: epochs, steps, target_accuracy, patience or time");
    r.finish();
  }

  void read_eval() {
    auto r = section("eval", job_.eval.at, &job_.eval.key_at, false);
    if (!r) return check_default("evaluation sampler", job_.eval.sampler, all_.eval_samplers);
    eval_keys().read_each(*r, job_.eval, {"every", "batch"});
    if (auto s = r->table("sampler", "[eval.sampler]"))
      choose(*s, "kind", "evaluation sampler", all_.eval_samplers, job_.eval.sampler);
    check_default("evaluation sampler", job_.eval.sampler, all_.eval_samplers);
    std::string split = "test";
    eval_keys().read_into(*r, "split", split);
    job_.eval.on_training = split == "train";
    r->finish();
  }

  void read_checkpoint() {
    auto& c = job_.checkpoint;
    auto r = section("checkpoint", c.at, &c.key_at, false);
    if (!r) return;
    const auto* every = r->take("every");
    c.never = r->is_word("every", "never");
    if (every && std::holds_alternative<std::int64_t>(every->value))
      r->integer("every", c.every_steps, 1, INT64_MAX);
    else if (every && !c.never && r->time("every", c.every_seconds) && c.every_seconds < 0.001)
      r->error("every", "'every' must be at least 1ms");
    for (const char* key : {"keep", "dir", "resume", "match"}) checkpoint_keys().read(*r, c, key);
    if (!c.dir.empty() && (c.dir.front() != '/' || c.dir.find('\0') != std::string::npos))
      r->error("dir", "'dir' must be an absolute path: it is used on the node of the job's coordinator");
    r->finish();
  }

  void read_pipeline() {
    auto& p = job_.pipeline;
    auto r = section("pipeline", p.at, &p.key_at, false);
    if (!r) return;
    pipeline_keys().read_all(*r, p);
    r->finish();
  }

  void read_topology() {
    auto& t = job_.topology;
    auto r = section("topology", t.at, &t.key_at, false);
    if (!r) return;
    topology_keys().read_all(*r, t);
    r->finish();
  }

  // Checks for keys of different tables that contradict each other.
  void check_together() {
    if (const auto& s = job_.train.schedule; s.kind == "plateau" && job_.eval.every == 0)
      errors_.push_back({s.at, "[train.dynamics.schedule]: 'plateau' needs evaluations: set [eval] every"});
    const auto& f = job_.train.finish;
    for (auto key : {"finish.target_accuracy", "finish.patience"}) {
      const auto i = job_.train.key_at.find(key);
      if (i == job_.train.key_at.end() || job_.eval.every > 0 || !(f.target_accuracy || f.patience)) continue;
      errors_.push_back(
          {i->second, "[train.finish]: " + in_quotes(std::string_view(key).substr(7)) + " needs evaluations: set [eval] every"});
    }
    if (const auto i = job_.train.key_at.find("finish.measure");
        i != job_.train.key_at.end() && !f.patience && !(every_key_ && f.measure == finish_spec{}.measure))
      errors_.push_back({i->second,
                         "[train.finish]: 'measure' says what 'patience' compares, and there is no patience: add it, or "
                         "remove 'measure'"});
    if (f.custom && job_.eval.every == 0 && all_.finishes.find(f.custom->kind)->needs_evaluations)
      errors_.push_back(
          {f.custom->at, "[train.finish.custom]: " + in_quotes(f.custom->kind) + " needs evaluations: set [eval] every"});
  }

  diagnostics errors_;
  key_finder elsewhere_;
  table_reader root_;
  const layer_origins& origins_;
  const tables& all_;
  const std::vector<std::string>* only_plugins_;
  const bool every_key_;
  job_spec job_;
};

}  // namespace

expected<job_spec, diagnostics> parse_job(const std::string& text, const std::string& file, const tables& all,
                                          const std::vector<std::string>& overrides, const std::vector<std::string>* only_plugins) {
  auto doc = read_job_document(text, file, overrides);
  if (!doc) return unexpected(std::move(doc).error());
  return parse_job(*doc, file, all, only_plugins);
}

expected<job_spec, diagnostics> parse_job(const job_document& d, const std::string& file, const tables& all,
                                          const std::vector<std::string>* only_plugins) {
  return job_reader(d, file, all, only_plugins).read();
}

expected<std::string, diagnostics> read_config_text(const std::string& path) {
  auto text = read_text(path);
  return text ? with_included_texts(*text, path) : text;
}

expected<job_spec, diagnostics> read_job_file(const std::string& path, const tables& all,
                                              const std::vector<std::string>& overrides) {
  auto text = read_config_text(path);
  if (!text) return unexpected(std::move(text).error());
  return parse_job(*text, path, all, overrides);
}

}  // namespace troupe
