// Plots of runs as SVG. The recorder of a run calls svg_of_run() for curve.svg; `troupe plot` draws
// panels (run_plot.hpp) with curve_svg().
//
// Errors: values.  Threads: functions without state.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/node/runs/run_plot.hpp"

namespace troupe {

// The panels of a plot, one below the other, as a complete SVG document. Colours follow the
// viewer's light or dark scheme. The size does not depend on the length of the runs.
std::string curve_svg(const run_plot& p);

// curve.svg of a run folder: its metrics.csv as loss (training and test) and accuracy over steps.
expected<std::string, record_error> svg_of_run(const std::filesystem::path& folder);

}  // namespace troupe
