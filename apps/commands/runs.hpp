// Parts of `troupe runs`, a file each.
#pragma once

#include <string>
#include <vector>

#include "apps/troupe_runs.hpp"

namespace troupe {

int show_run(const known_run& r, const output& out);                      // runs_show.cpp
int compare_runs(const std::vector<known_run>& runs, const output& out);  // runs_compare.cpp
int diff_runs(const known_run& a, const known_run& b, const output& out);

}  // namespace troupe
