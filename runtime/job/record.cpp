#include "runtime/job/record.hpp"

#include <algorithm>
#include <set>

#include "ops/device.hpp"
#include "ops/filler.hpp"
#include "ops/rules/average.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/job/job_rule.hpp"
#include "runtime/job/resume_keys.hpp"
#include "runtime/plan/carried.hpp"
#include "runtime/record/handover_record.hpp"

namespace troupe {
namespace {

constexpr const char* step_key = "step";
constexpr const char* carried_end = "@carried";

using verdict = expected<void, record_error>;

const tensor* find(const named_tensors& named, const std::string& name) {
  const auto at = std::find_if(named.begin(), named.end(), [&](const auto& n) { return n.first == name; });
  return at == named.end() ? nullptr : &at->second;
}

record_error in_file(const std::string& file, record_error e) {
  e.file = file;
  return e;
}

verdict wrong_shape(const std::string& name, const tensor& t, const shape& want, const char* who) {
  return unexpected(
      record_error{{}, name, "it has shape " + t.dims().to_string() + ", but the " + who + " needs " + want.to_string()});
}

// Renames the statistics of batch_norm in files that were written before they had PyTorch's names,
// and the states of the update rule for them, whose names begin with the parameter's.
void take_earlier_names(const model_graph& g, named_tensors& named) {
  struct earlier {
    const char *now, *then;
  };
  for (const auto& p : g.params)
    for (const auto& e : {earlier{"running_mean", "mean"}, earlier{"running_var", "variance"}}) {
      const auto& l = g.layers[p.layer];
      if (l.spec->type != "batch_norm" || p.spec.name != e.now || find(named, p.full_name)) continue;
      const auto then = l.name + "." + e.then;
      for (auto& [name, value] : named)
        if (name == then || name.starts_with(then + "@")) name = p.full_name + name.substr(then.size());
    }
}

// Of a checkpoint of a job with [train.average]: takes the averages in place of the weights, if the
// job writes averages.
void take_averages(const prepared_job& j, safetensors_content& content) {
  if (!keeps_average(j.spec) || j.spec.train.average.write != "average") return;
  for (const auto& p : j.graph.params) {
    const auto* average = find(content.named, p.full_name + "@" + average_state);
    if (!average || !has_average(p)) continue;
    const auto value = *average;
    for (auto& [name, t] : content.named)
      if (name == p.full_name) t = value;
  }
}

verdict check_states(const prepared_job& j, const checkpoint& c) {
  const auto rule = make_rule(j);
  for (const auto& p : j.graph.params)
    for (const auto& s : rule->states()) {
      const auto name = p.full_name + "@" + s;
      const auto* t = find(c.named, name);
      if (!t)
        return unexpected(record_error{{},
                                       {},
                                       "it has no tensor '" + name + "', which the update rule '" + j.spec.train.rule.kind +
                                           "' needs to continue; to start a new job from its weights use --weights"});
      if (!(t->dims() == p.spec.dims)) return wrong_shape(name, *t, p.spec.dims, "model");
    }
  return {};
}

// Returns true if sequences carry state into step `step`. They do not into the first step of an
// epoch, where all sequences begin anew.
bool carries_on(const prepared_job& j, std::uint64_t step) { return step % j.steps_per_epoch != 0; }

verdict check_carried(const prepared_job& j, const checkpoint& c) {
  for (const auto& l : j.graph.layers)
    for (std::size_t k = 0; k < l.carries.size() && carries_on(j, c.step); ++k) {
      const auto name = carried_name(l, k);
      const auto want = carried_shape(l, k, j.plan.packets);
      const auto* t = find(c.named, name);
      if (!t) return unexpected(record_error{{}, {}, "it has no tensor '" + name + "', the state that its sequences carry"});
      if (!(t->dims() == want)) return wrong_shape(name, *t, want, "job");
    }
  return {};
}

verdict check_numerics(const prepared_job& j, const checkpoint& c, const std::string& numerics) {
  if (!j.spec.train.deterministic || c.numerics == numerics) return {};
  return unexpected(other_value("the numerics", on_resume::same_bits, c.numerics, numerics));
}

verdict check_position(const checkpoint& c) {
  if (c.sampler_position == c.step) return {};
  return unexpected(record_error{{},
                                 {},
                                 "metadata 'troupe.sampler_position' is " + std::to_string(c.sampler_position) +
                                     ", but the checkpoint is of step " + std::to_string(c.step)});
}

verdict check_end(const prepared_job& j, const checkpoint& c) {
  if (j.last_step == 0 || c.step <= j.last_step) return {};
  return unexpected(record_error{
      {}, {}, "it is of step " + std::to_string(c.step) + ", but the job ends at step " + std::to_string(j.last_step)});
}

verdict check(const prepared_job& j, const checkpoint& c, const std::string& numerics) {
  if (const auto fine = check_weights(j.graph, c.named); !fine) return unexpected(record_error{{}, {}, fine.error().text});
  if (auto e = check_made_with(j, c); !e) return e;
  if (auto e = check_states(j, c); !e) return e;
  if (auto e = check_carried(j, c); !e) return e;
  if (auto e = check_numerics(j, c, numerics); !e) return e;
  if (auto e = check_position(c); !e) return e;
  return check_end(j, c);
}

// Joins the first elements of a list, and adds how many more it has.
std::string some_of(const std::vector<std::string>& list) {
  constexpr std::size_t shown = 8;
  std::string text;
  for (std::size_t i = 0; i < list.size() && i < shown; ++i) text += (i == 0 ? "" : ", ") + list[i];
  return list.size() > shown ? text + " and " + std::to_string(list.size() - shown) + " more" : text;
}

// Takes the file's parameters with a matching name and shape, and fills the others. Adds a note
// about both. An error if no parameter matches, because the file is of another net.
expected<void> take_by_name(const prepared_job& j, const named_tensors& named, named_tensors& mine,
                            std::vector<std::string>& notes) {
  std::vector<std::string> filled, unused;
  std::set<std::string> known;
  std::shared_ptr<device> dev;
  for (const auto& p : j.graph.params) {
    known.insert(p.full_name);
    const auto* t = find(named, p.full_name);
    if (t && t->dims() == p.spec.dims) {
      mine.emplace_back(p.full_name, *t);
      continue;
    }
    filled.push_back(
        p.full_name +
        (t ? " (of shape " + t->dims().to_string() + " in the file, " + p.spec.dims.to_string() + " in the job)" : ""));
    if (!dev) dev = make_cpu_device();
    if (!dev) return unexpected(error("the kernels do not support this machine's CPU"));
    auto value = tensor::allocate(*dev, p.spec.dims, j.spec.parameter_type());
    fill_param(*dev, p.spec, j.spec.seed, p.layer, p.index_in_layer, value);
    mine.emplace_back(p.full_name, std::move(value));
  }
  for (const auto& [name, value] : named)
    if (!known.contains(name) && name.find('@') == std::string::npos) unused.push_back(name);
  const auto taken = mine.size() - filled.size();
  if (taken == 0) return unexpected(error("none of its tensors has the name and the shape of a parameter of this job"));
  notes.push_back(std::to_string(taken) + " of " + std::to_string(mine.size()) + " parameters are taken" +
                  (filled.empty() ? "" : "; filled: " + some_of(filled)) +
                  (unused.empty() ? "" : "; not in this job: " + some_of(unused)));
  return {};
}

// A parameter of the job must not be among the tensors that the file's reader has left out.
verdict check_left_out(const prepared_job& j, const safetensors_content& content) {
  for (const auto& [name, dtype] : content.left_out)
    for (const auto& p : j.graph.params)
      if (p.full_name == name)
        return unexpected(record_error{{}, name, "its dtype is " + dtype + ", but weights are floats: save it as float32"});
  return {};
}

bool given_anew(const std::vector<std::string>& overrides, const std::string& key) {
  return std::any_of(overrides.begin(), overrides.end(), [&](const auto& o) { return o.starts_with(key + "="); });
}

}  // namespace

checkpoint checkpoint_of(const prepared_job& j, const store_effect& s, const std::string& numerics) {
  checkpoint c;
  c.job = j.spec.name;
  c.seed = j.spec.seed;
  c.packets = j.plan.packets;
  c.numerics = numerics;
  c.made_with = made_with(j);
  handover bare;
  bare.step = bare.evaluated = s.step;
  put_handover(c, s.with ? *s.with : bare, s.named);
  return c;
}

metadata_map weights_metadata(const prepared_job& j, std::uint64_t step) {
  return {{"job", j.spec.name}, {step_key, std::to_string(step)}, {"format", "pt"}};
}

void begin_at(prepared_job& j, std::uint64_t step, named_tensors named) {
  const auto h = std::make_shared<handover>();
  h->step = h->evaluated = step;
  continue_at(j, step, h, std::move(named));
}

expected<std::uint64_t, record_error> begin_from_weights(prepared_job& j, safetensors_content content, const std::string& file) {
  take_earlier_names(j.graph, content.named);
  take_averages(j, content);
  if (auto fine = check_left_out(j, content); !fine) return unexpected(in_file(file, std::move(fine).error()));
  named_tensors mine;
  std::vector<std::string> notes;
  if (j.spec.checkpoint.match == "names") {
    if (const auto taken = take_by_name(j, content.named, mine, notes); !taken)
      return unexpected(record_error{file, {}, taken.error().text});
    for (auto& n : notes) n = file + ": " + n;
  } else {
    if (const auto fine = check_weights(j.graph, content.named); !fine)
      return unexpected(record_error{file, {}, fine.error().text});
    for (const auto& p : j.graph.params) mine.emplace_back(p.full_name, *find(content.named, p.full_name));
  }
  begin_at(j, 0, std::move(mine));
  j.before->notes = std::move(notes);
  std::uint64_t step = 0;
  for (const auto& key : {std::string(step_key), std::string("troupe.step")}) {
    const auto at = content.metadata.find(key);
    if (at != content.metadata.end() && at->second.size() <= 18 && read_number(at->second, step)) break;
  }
  return step;
}

expected<handover, record_error> handover_for(const prepared_job& j, checkpoint c, const std::string& file,
                                              const std::string& numerics) {
  take_earlier_names(j.graph, c.named);
  if (auto fine = check(j, c, numerics); !fine) return unexpected(in_file(file, std::move(fine).error()));
  const auto step = c.step;
  auto made = handover_of(std::move(c));
  if (!made) return unexpected(record_error{file, {}, "metadata '" + made.error().text + "' is malformed"});
  auto h = *std::move(made);
  if (auto fine = check_handover(h); !fine) return unexpected(record_error{file, {}, std::move(fine).error().text});
  if (!carries_on(j, step)) std::erase_if(h.named, [](const auto& n) { return n.first.ends_with(carried_end); });
  return h;
}

expected<void, record_error> resume_from(prepared_job& j, checkpoint c, const std::string& file, const std::string& numerics,
                                         const std::vector<std::string>& overrides) {
  const auto step = c.step;
  auto made = handover_for(j, std::move(c), file, numerics);
  if (!made) return unexpected(std::move(made).error());
  auto h = std::make_shared<handover>(*std::move(made));
  h->seconds = 0;
  h->paused = false;
  if (const auto mode = mode_text(j); !h->mode.empty() && h->mode != mode)
    h->notes.push_back("continues in mode " + mode + " of the job file; the checkpoint was made in mode " + h->mode);
  std::erase_if(h->settings, [&](const set_value& s) { return given_anew(overrides, s.key); });
  auto named = std::exchange(h->named, {});
  continue_at(j, step, h, std::move(named));
  return {};
}

}  // namespace troupe
