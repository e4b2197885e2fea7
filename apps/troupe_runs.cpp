#include "apps/troupe_runs.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/base/wording.hpp"

namespace troupe {

std::filesystem::path run_dir_argument::folder() const {
  if (!given.empty()) return given;
  const auto usual = default_runs_folder();
  return usual.empty() ? std::filesystem::path("runs") : usual;  // TROUPE_RUNS=off concerns only new runs
}

void run_dir_option(CLI::App& c, run_dir_argument& d) {
  c.add_option("--run-dir", d.given, "Folder of the runs (default: $TROUPE_RUNS, else runs)")->option_text("DIR");
}

std::optional<std::vector<known_run>> known_runs(const run_dir_argument& d, const std::vector<std::string>& words,
                                                 const output& out) {
  std::vector<known_run> all;
  for (const auto& word : words) {
    const auto found = find_run(d.folder(), word);
    if (!found) {
      out.wrong(found.error().file, found.error().message);
      return std::nullopt;
    }
    const auto& folder = *found;
    const auto read = read_run_info(folder);
    if (!read) {
      out.wrong(read.error().file, read.error().message);
      return std::nullopt;
    }
    all.push_back({folder, *read});
  }
  return all;
}

nlohmann::ordered_json run_object(const char* event, const known_run& r) {
  nlohmann::ordered_json o{{"event", event}, {"folder", r.folder.string()}};
  o.update(nlohmann::ordered_json::parse(run_info_text(r.info)));
  return o;
}

std::string started_text(const std::string& utc, std::time_t now) {
  std::tm parts{};
  if (::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr) return utc.empty() ? "-" : printable(utc);
  const auto seconds = std::max<std::time_t>(0, now - ::timegm(&parts));
  const auto ago = [](std::time_t n, const char* unit) {
    return std::to_string(n) + " " + unit + (n == 1 || unit[1] == '\0' ? "" : "s") + " ago";
  };
  if (seconds < 60) return ago(seconds, "s");
  if (seconds < 3600) return std::to_string(seconds / 60) + " min ago";
  if (seconds < 86400) return ago(seconds / 3600, "hour");
  if (seconds < 30 * 86400) return ago(seconds / 86400, "day");
  return utc.substr(0, 10);
}

std::string steps_text(const run_info& r) {
  const auto steps = std::to_string(r.steps);
  return r.last_step > 0 && r.steps != r.last_step ? steps + "/" + std::to_string(r.last_step) : steps;
}

std::string accuracy_text(double accuracy) { return accuracy >= 0 ? fixed(accuracy, 4) : "-"; }
std::string number_or_dash(double value, int digits) { return std::isfinite(value) ? fixed(value, digits) : "-"; }

double mean_rate(const run_info& r) {
  return r.seconds > 0 ? static_cast<double>(r.steps) * static_cast<double>(r.batch) / r.seconds : 0;
}

}  // namespace troupe
