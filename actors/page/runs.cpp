#include "actors/page/runs.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "actors/page/state.hpp"
#include "runtime/node/config/flat_keys.hpp"
#include "runtime/node/runs/run_curve.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {
namespace {

using json = nlohmann::json;

std::string text_of(const json& o) { return o.dump(-1, ' ', false, json::error_handler_t::replace); }

// run.json with the folder's name; null if it cannot be read.
json info_of(const std::filesystem::path& folder) {
  const auto info = read_run_info(folder);
  if (!info) return {};
  auto o = json::parse(run_info_text(*info), nullptr, false);
  if (!o.is_object()) return {};
  o["folder"] = folder.filename().string();
  return o;
}

json curve_of(const metric_curve& c) {
  auto x = json::array(), y = json::array();
  for (const auto& p : c.raw.points()) {
    const auto value = shown_number(p.y);
    if (!value) continue;
    x.push_back(p.x);
    y.push_back(*value);
  }
  return json::array({std::move(x), std::move(y)});
}

json curves_of(const std::filesystem::path& folder) {
  auto all = json::object();
  const auto read = read_run_curves(run_metrics_file(folder), {metric::step, 0});
  if (!read) return all;
  for (const auto m : {metric::loss, metric::accuracy, metric::lr, metric::examples_per_s, metric::test_loss})
    if (const auto& c = (*read)[m]; !c.raw.empty()) all[metric_names[static_cast<std::size_t>(m)]] = curve_of(c);
  return all;
}

}  // namespace

std::string page_runs(const std::filesystem::path& runs) {
  auto folders = run_folders(runs);
  std::reverse(folders.begin(), folders.end());
  if (folders.size() > max_runs_listed) folders.resize(max_runs_listed);
  auto list = json::array();
  for (const auto& f : folders)
    if (auto o = info_of(f); !o.is_null()) list.push_back(std::move(o));
  return text_of({{"runs", std::move(list)}});
}

std::string page_run(const std::filesystem::path& runs, const std::string& name) {
  const auto folders = run_folders(runs);
  const auto at = std::find_if(folders.begin(), folders.end(), [&](const auto& f) { return f.filename() == name; });
  auto info = at == folders.end() ? json() : info_of(*at);
  if (info.is_null()) return "null";
  json o{{"run", std::move(info)}, {"curves", curves_of(*at)}, {"keys", json::object()}};
  if (const auto keys = read_flat_keys(run_job_file(*at).string()))
    for (const auto& [key, value] : *keys) o["keys"][key] = value;
  return text_of(o);
}

}  // namespace troupe
