#include "apps/troupe_job.hpp"
#include "runtime/graph/wording.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "runtime/job/convolutions.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/pipeline/carried.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {
namespace {

constexpr const char* step_key = "step";

}  // namespace

std::variant<std::shared_ptr<prepared_job>, diagnostics> load_job(const job_arguments& a, const std::vector<node_spec>& nodes) {
  auto text = read_config_text(a.file);
  if (auto* bad = std::get_if<diagnostics>(&text)) return std::move(*bad);
  return prepare_text({std::move(std::get<std::string>(text)), a.file, a.overrides}, std::make_shared<const tables>(node_tables()),
                      nodes);
}

std::variant<std::uint64_t, record_error> begin_from_weights(prepared_job& j, const std::string& file) {
  auto read = read_safetensors(file);
  if (auto* bad = std::get_if<record_error>(&read)) return std::move(*bad);
  auto& content = std::get<safetensors_content>(read);
  if (auto why = check_weights(j.graph, content.named); !why.empty()) return record_error{file, {}, why};
  // A checkpoint's momentum is not taken over: what begins at step 0 begins at rest.
  for (const auto& p : j.graph.params)
    for (auto& [name, value] : content.named)
      if (name == p.full_name) j.initial.emplace_back(name, std::move(value));
  for (const auto& key : {std::string(step_key), std::string("troupe.step")}) {
    const auto at = content.metadata.find(key);
    if (at == content.metadata.end() || at->second.empty() || at->second.size() > 18) continue;
    if (std::all_of(at->second.begin(), at->second.end(), [](char c) { return c >= '0' && c <= '9'; }))
      return static_cast<std::uint64_t>(std::stoull(at->second));
  }
  return std::uint64_t{0};
}

std::optional<record_error> resume_from(prepared_job& j, const std::string& file, const std::string& numerics) {
  auto read = load_checkpoint(file);
  if (auto* bad = std::get_if<record_error>(&read)) return std::move(*bad);
  auto& c = std::get<checkpoint>(read);
  if (auto why = check_weights(j.graph, c.named); !why.empty()) return record_error{file, {}, why};
  const auto rule = j.all->rules.find(j.spec.train.rule.kind)->make(j.spec.train.rule.values);
  for (const auto& p : j.graph.params)
    for (const auto& s : rule->states()) {
      const auto name = p.full_name + "@" + s;
      const auto at = std::find_if(c.named.begin(), c.named.end(), [&](const auto& n) { return n.first == name; });
      if (at == c.named.end())
        return record_error{file,
                            {},
                            "it has no tensor '" + name + "', which the update rule '" + j.spec.train.rule.kind +
                                "' needs to continue; to begin anew from its weights use --weights"};
      if (!(at->second.dims() == p.spec.dims))
        return record_error{file, name,
                            "it has shape " + at->second.dims().to_string() + ", the model wants " + p.spec.dims.to_string()};
    }
  for (const auto& l : j.graph.layers)
    for (std::size_t k = 0; k < l.carries.size() && c.step % j.steps_per_epoch != 0; ++k) {
      const auto name = carried_name(l, k);
      const auto want = carried_shape(l, k, j.plan.packets);
      const auto at = std::find_if(c.named.begin(), c.named.end(), [&](const auto& n) { return n.first == name; });
      if (at == c.named.end())
        return record_error{file, {}, "it has no tensor '" + name + "', the state that its lanes had come to"};
      if (!(at->second.dims() == want))
        return record_error{file, name, "it has shape " + at->second.dims().to_string() + ", the job wants " + want.to_string()};
    }
  const auto differs = [&](const char* what, const std::string& theirs, const std::string& ours) {
    return record_error{file,
                        {},
                        std::string("it was made with ") + what + " " + theirs + ", the job has " + ours +
                            ": continuing would not give the weights of an unbroken run. "
                            "Allow it with --set train.deterministic=false"};
  };
  if (j.spec.train.deterministic) {
    if (c.seed != j.spec.seed) return differs("seed", std::to_string(c.seed), std::to_string(j.spec.seed));
    if (c.packets != j.plan.packets) return differs("packets =", std::to_string(c.packets), std::to_string(j.plan.packets));
    if (c.numerics != numerics) return differs("the numerics", c.numerics, numerics);
    const auto theirs = kept_convolutions(c.extra), ours = kept_convolutions(convolutions_to_keep(j));
    const auto shown = [](const std::string& t) { return t.empty() ? std::string("those of the rule") : t; };
    if (theirs != ours) return differs("the convolutions", shown(theirs), shown(ours));
  }
  j.first_step = c.step;
  j.initial = std::move(c.named);
  return std::nullopt;
}

std::optional<record_error> save_weights(const prepared_job& j, const named_tensors& named, std::uint64_t step,
                                         const std::string& file) {
  return write_safetensors(file, named, {{"job", j.spec.name}, {step_key, std::to_string(step)}, {"format", "pt"}});
}

std::optional<record_error> save_checkpoint_file(const prepared_job& j, const store_effect& s, const std::string& numerics,
                                                 const std::string& file) {
  checkpoint c;
  c.job = j.spec.name;
  c.step = c.sampler_position = s.step;
  c.seed = j.spec.seed;
  c.packets = j.plan.packets;
  c.numerics = numerics;
  c.named = s.named;
  c.extra = convolutions_to_keep(j);
  return write_checkpoint(file, c);
}

std::string why_unwritable(const std::string& file) {
  const auto folder = std::filesystem::absolute(file).parent_path();
  std::error_code ec;
  if (!std::filesystem::is_directory(folder, ec)) return "there is no folder " + folder.string();
  if (std::filesystem::is_directory(file, ec)) return "it is a folder";
  if (access(folder.c_str(), W_OK) != 0) return "cannot write into " + folder.string();
  return {};
}

int wrong_file(const output& out, const record_error& e) {
  return out.wrong(e.file, e.tensor.empty() ? e.message : "tensor '" + e.tensor + "': " + e.message);
}

std::string job_summary(const prepared_job& j) {
  const auto count = [](std::uint64_t n, const char* what) { return with_commas(n) + " " + what + (n == 1 ? "" : "s"); };
  std::string s = j.spec.name + ": " + count(static_cast<std::uint64_t>(j.graph.parameter_count), "parameter") + " in " +
                  count(j.graph.layers.size(), "layer") + "; " + count(j.plan.ranges.size(), "worker") + ", " +
                  (j.plan.placed ? count(j.plan.workers.size() - j.plan.ranges.size(), "host") + " of placed layers, " : "") +
                  count(j.plan.shards.size(), "shard") + ", " + count(j.plan.packets, "packet") + " a step, " +
                  count(j.plan.sub_solvers, "sub-solver");
  if (j.last_step > 0) s += "; until step " + with_commas(j.last_step);
  if (j.first_step > 0) s += ", from step " + with_commas(j.first_step);
  return s + "\n";
}

}  // namespace troupe
