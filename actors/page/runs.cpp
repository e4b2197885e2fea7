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
  json o{{"x", json::array()}, {"mean", json::array()}, {"low", json::array()}, {"high", json::array()}};
  for (const auto& b : c.raw.bands()) {
    const auto mean = shown_number(b.mean), low = shown_number(b.low), high = shown_number(b.high);
    if (!mean || !low || !high) continue;
    o["x"].push_back(b.x), o["mean"].push_back(*mean), o["low"].push_back(*low), o["high"].push_back(*high);
  }
  return o;
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

std::string page_runs(const std::filesystem::path& runs, std::size_t offset, std::size_t limit) {
  const auto folders = run_folders(runs);  // the oldest first
  const auto end = folders.size() - std::min(offset, folders.size());
  const auto begin = end - std::min({limit, max_runs_listed, end});
  auto list = json::array();
  for (auto i = end; i-- > begin;)
    if (auto o = info_of(folders[i]); !o.is_null()) list.push_back(std::move(o));
  return text_of({{"runs", std::move(list)}, {"total", folders.size()}});
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
