// `troupe runs compare RUN RUN...` and `troupe runs diff RUN RUN`.
#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/commands/look/runs.hpp"
#include "runtime/base/text_table.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/flat_keys.hpp"
#include "runtime/node/runs/run_curve.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

// The final values of a run's curves; missing ones are NaN.
struct final_values {
  double smooth_loss = std::nan(""), test_loss = std::nan(""), least_test_loss = std::nan("");
};

final_values finals_of(const known_run& r) {
  final_values v;
  if (const auto c = read_run_curves(run_metrics_file(r.folder))) {
    const auto& loss = (*c)[metric::loss];
    v.smooth_loss = (loss.smooth.empty() ? loss.raw : loss.smooth).last();
    v.test_loss = (*c)[metric::test_loss].raw.last();
    v.least_test_loss = (*c)[metric::test_loss].raw.lowest();
  }
  return v;
}

// Whether all runs have final weights and these are equal.
bool weights_are_equal(const std::vector<known_run>& runs) {
  return std::all_of(runs.begin(), runs.end(), [&runs](const known_run& r) {
    return !r.info.weights_sha256.empty() && r.info.weights_sha256 == runs[0].info.weights_sha256;
  });
}

std::string weights_note(const std::vector<known_run>& runs) {
  for (const auto& r : runs)
    if (r.info.weights_sha256.empty()) return "run " + std::to_string(r.info.number) + " has no final weights";
  return weights_are_equal(runs) ? "the final weights are equal" : "the final weights differ";
}

void compare_as_json(const std::vector<known_run>& runs, const output& out) {
  const auto known = [](double v) { return std::isfinite(v) ? json(v) : json(nullptr); };
  for (const auto& r : runs) {
    auto o = run_object("run", r);
    const auto v = finals_of(r);
    const auto rate = mean_rate(r.info);
    o["examples_per_s"] = rate > 0 ? json(rate) : json(nullptr);
    o["smooth_loss"] = known(v.smooth_loss), o["test_loss"] = known(v.test_loss), o["least_test_loss"] = known(v.least_test_loss);
    out.object(o);
  }
  out.object({{"event", "comparison"}, {"runs", runs.size()}, {"weights_equal", weights_are_equal(runs)}});
}

}  // namespace

int compare_runs(const std::vector<known_run>& runs, const output& out) {
  if (out.json()) return compare_as_json(runs, out), exit_done;
  std::vector<std::string> head{""};
  std::vector<final_values> finals;
  for (const auto& r : runs)
    head.push_back(std::to_string(r.info.number) + " " + printable(r.info.name)), finals.push_back(finals_of(r));
  text_table table(head);
  for (std::size_t i = 1; i <= runs.size(); ++i) table.right(i);
  const auto add = [&](const char* name, const std::function<std::string(const run_info&, const final_values&)>& text) {
    std::vector<std::string> row{name};
    for (std::size_t i = 0; i < runs.size(); ++i) row.push_back(printable(text(runs[i].info, finals[i])));
    if (std::any_of(row.begin() + 1, row.end(), [](const std::string& s) { return s != "-" && !s.empty(); })) table.add(row);
  };
  add("state", [](const auto& r, const auto&) { return r.state; });
  add("steps", [](const auto& r, const auto&) { return steps_text(r); });
  add("time", [](const auto& r, const auto&) { return r.seconds > 0 ? clock_text(r.seconds) : "-"; });
  add("examples/s",
      [](const auto& r, const auto&) { return mean_rate(r) > 0 ? with_commas(static_cast<std::uint64_t>(mean_rate(r))) : "-"; });
  add("loss", [](const auto& r, const auto&) { return r.steps > 0 ? number_or_dash(r.loss, 4) : "-"; });
  add("loss, smoothed", [](const auto&, const auto& v) { return number_or_dash(v.smooth_loss, 4); });
  add("test loss", [](const auto&, const auto& v) { return number_or_dash(v.test_loss, 4); });
  add("least test loss", [](const auto&, const auto& v) { return number_or_dash(v.least_test_loss, 4); });
  add("accuracy", [](const auto& r, const auto&) { return accuracy_text(r.accuracy); });
  add("best accuracy", [](const auto& r, const auto&) { return accuracy_text(r.best_accuracy); });
  add("at step", [](const auto& r, const auto&) { return best_of(r) ? std::to_string(r.best_step) : "-"; });
  add("mode", [](const auto& r, const auto&) { return r.mode; });
  add("workers", [](const auto& r, const auto&) { return std::to_string(r.workers); });
  add("batch", [](const auto& r, const auto&) { return std::to_string(r.batch); });
  add("parameters", [](const auto& r, const auto&) { return with_commas(r.parameters); });
  add("seed", [](const auto& r, const auto&) { return std::to_string(r.seed); });
  add("host", [](const auto& r, const auto&) { return r.host; });
  add("weights", [](const auto& r, const auto&) { return r.weights_sha256.empty() ? "-" : r.weights_sha256.substr(0, 12); });
  out.text(table.text() + "\n" + weights_note(runs) + "\n");
  return exit_done;
}

int diff_runs(const known_run& a, const known_run& b, const output& out) {
  const auto of_a = read_flat_keys(run_job_file(a.folder).string()), of_b = read_flat_keys(run_job_file(b.folder).string());
  for (const auto* keys : {&of_a, &of_b})
    if (!*keys) return out.wrong(keys->error());
  const auto& x = *of_a;
  const auto& y = *of_b;
  std::set<std::string> names;
  for (const auto* keys : {&x, &y})
    for (const auto& [name, value] : *keys) names.insert(name);
  text_table table({"key", std::to_string(a.info.number) + " " + printable(a.info.name),
                    std::to_string(b.info.number) + " " + printable(b.info.name)});
  std::size_t differ = 0;
  const auto text_in = [](const flat_keys& keys, const std::string& name) {
    const auto at = keys.find(name);
    return at == keys.end() ? std::string() : at->second;
  };
  for (const auto& name : names) {
    const auto before = text_in(x, name), after = text_in(y, name);
    if (before == after) continue;
    ++differ;
    if (out.json())
      out.object({{"event", "difference"},
                  {"key", name},
                  {"a", before.empty() ? json(nullptr) : json(before)},
                  {"b", after.empty() ? json(nullptr) : json(after)}});
    else
      table.add({printable(name), before.empty() ? "-" : printable(before), after.empty() ? "-" : printable(after)});
  }
  if (out.json())
    out.object({{"event", "done"}, {"differences", differ}});
  else
    out.text(differ == 0 ? "the job files are equal\n" : table.text() + "\n");
  return exit_done;
}

}  // namespace troupe
