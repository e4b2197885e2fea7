// Shared by the commands about runs (`runs`, `plot`, `sql`): which runs a user names, tables, and
// the parts of `troupe runs`.
#pragma once

#include <ctime>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/command.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {

// --run-dir of a command.
struct run_dir_argument {
  std::string given;  // empty: $TROUPE_RUNS or runs
  std::filesystem::path folder() const;
};
void run_dir_option(CLI::App& c, run_dir_argument& d);

struct known_run {
  std::filesystem::path folder;
  run_info info;
};
// Finds and reads the runs that the user names. Nullopt after an error has been printed.
std::optional<std::vector<known_run>> known_runs(const run_dir_argument& d, const std::vector<std::string>& words,
                                                 const output& out);

// run.json with the event and the folder in front.
nlohmann::ordered_json run_object(const char* event, const known_run& r);

std::string started_text(const std::string& utc, std::time_t now);  // "5 min ago"; the text itself if it is no time
std::string steps_text(const run_info& r);                          // "120/2000" until all steps are done
std::string accuracy_text(double accuracy);                         // "0.8907", "-" if there is none
std::string number_or_dash(double value, int digits);
double mean_rate(const run_info& r);  // examples per second of training; 0: unknown

int show_run(const known_run& r, const output& out);                      // runs_show.cpp
int compare_runs(const std::vector<known_run>& runs, const output& out);  // runs_compare.cpp
int diff_runs(const known_run& a, const known_run& b, const output& out);

}  // namespace troupe
