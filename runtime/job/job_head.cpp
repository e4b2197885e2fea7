#include "runtime/job/job_head.hpp"

#include <algorithm>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/job/memory_budget.hpp"

namespace troupe {
namespace {

std::string counted(std::uint64_t n, const char* noun) { return with_commas(n) + " " + noun + (n == 1 ? "" : "s"); }

std::string real_text(double x) { return general_text(x, 6); }

std::string parameters_in_layers(const prepared_job& j) {
  return counted(static_cast<std::uint64_t>(j.graph.parameter_count), "parameter") + " in " +
         counted(j.graph.layers.size(), "layer");
}

// Workers, shards, packets and sub-solvers of the plan.
std::string topology_of(const prepared_job& j) {
  const auto& p = j.plan;
  return counted(p.ranges.size(), "worker") + ", " +
         (p.placed ? counted(p.workers.size() - p.ranges.size(), "host") + " of placed layers, " : "") +
         counted(p.shards.size(), "shard") + ", " + counted(p.packets, "packet") + " a step, " +
         counted(p.sub_solvers, "sub-solver");
}

// A choice with its options, as they are typed: "ssp staleness=2".
std::string choice_text(const choice& c) {
  auto s = c.kind;
  for (const auto& [key, text] : options_to_text(c.values)) {
    const auto* real = std::get_if<double>(&c.values.values.find(key)->second);
    s += " " + key + "=" + (real ? real_text(*real) : text);
  }
  return s;
}

// The option `path` of the data, or the first file that its source reads; empty: it reads none.
std::string path_of(const prepared_job& j) {
  const auto& d = j.spec.data;
  if (const auto at = d.values.values.find("path"); at != d.values.values.end())
    if (const auto* text = std::get_if<std::string>(&at->second)) return *text;
  if (const auto* type = j.all->sources.find(d.source); type && type->files)
    for (const auto& f : type->files(d.values))
      if (!f.path.empty()) return f.path;
  return {};
}

std::string data_text(const prepared_job& j) {
  const auto& d = j.spec.data;
  std::string s = d.source;
  if (const auto path = path_of(j); !path.empty()) s += " " + path;
  if (j.data) {
    s += ": " + with_commas(static_cast<std::uint64_t>(j.data->size(split::train))) + " examples of " +
         j.data->example().to_string();
    if (j.data->classes() > 0) s += ", " + with_commas(static_cast<std::uint64_t>(j.data->classes())) + " classes";
    if (j.data->targets()) s += ", targets of " + j.data->label().to_string();
    if (d.validation > 0) s += ", " + with_commas(static_cast<std::uint64_t>(j.data->size(split::test))) + " to validate on";
  }
  s += "; batch " + with_commas(static_cast<std::uint64_t>(d.batch));
  if (j.steps_per_epoch > 0) s += ", " + counted(j.steps_per_epoch, "step") + " an epoch";
  return s;
}

std::string training_text(const prepared_job& j) {
  const auto& t = j.spec.train;
  auto s = choice_text(t.sync) + ": " + topology_of(j);
  if (t.reducer != "server") s += ", reducer " + t.reducer;
  if (t.compress != "none") s += ", gradients as " + t.compress;
  if (j.plan.nodes.size() > 1) s += "; " + counted(j.plan.nodes.size(), "node");
  return s;
}

std::string update_text(const prepared_job& j) {
  const auto& t = j.spec.train;
  auto s = choice_text(t.rule) + ", lr " + real_text(t.lr);
  if (t.schedule.kind != "fixed") s += ", schedule " + choice_text(t.schedule);
  if (t.warmup.steps > 0) s += ", warm-up of " + counted(static_cast<std::uint64_t>(t.warmup.steps), "step");
  if (t.decay != 0) s += ", decay " + real_text(t.decay);
  if (t.decay_l1 != 0) s += ", L1 decay " + real_text(t.decay_l1);
  s += "; seed " + std::to_string(j.spec.seed);
  if (j.spec.precision != "fp32") s += ", " + j.spec.precision;
  if (j.first_step > 0) s += "; from step " + with_commas(j.first_step);
  if (j.last_step > 0) s += (j.first_step > 0 ? " until step " : "; until step ") + with_commas(j.last_step);
  return s;
}

}  // namespace

std::string text_of(const head_line& l) { return l.label + "\t" + l.text; }

head_line head_line_of(const std::string& s) {
  const auto tab = s.find('\t');
  if (tab == std::string::npos) return {{}, s};
  return {s.substr(0, tab), s.substr(tab + 1)};
}

std::vector<head_line> job_head(const prepared_job& j) {
  double most = 0;
  for (const auto& n : memory_of(j).nodes) most = std::max(most, n.total());
  const bool several = j.plan.nodes.size() > 1;
  return {{"net", j.spec.name + ": " + parameters_in_layers(j) + ", about " + bytes_text(most) + " of memory" +
                      (several ? " on the fullest node" : "")},
          {"data", data_text(j)},
          {"training", training_text(j)},
          {"update", update_text(j)}};
}

std::string job_summary(const prepared_job& j) {
  auto s = j.spec.name + ": " + parameters_in_layers(j) + "; " + topology_of(j);
  if (j.last_step > 0) s += "; until step " + with_commas(j.last_step);
  if (j.first_step > 0) s += ", from step " + with_commas(j.first_step);
  return s + "\n";
}

}  // namespace troupe
