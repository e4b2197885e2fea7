// A plot of runs: panels with series, and the ticks of axes, for SVG (curve_svg.hpp) and terminals
// (curve_text.hpp).
//
// Errors: values.  Threads: values without shared state.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/runs/run_curve.hpp"

namespace troupe {

struct plot_series {
  std::string name;                 // in the legend
  std::vector<curve_point> points;  // drawn as a line; with `marked` also as dots
  std::vector<curve_point> raw;     // the values before smoothing, drawn faintly; empty: not smoothed
  std::size_t colour = 0;           // series of one run have one colour
  bool marked = false;              // evaluations
};

struct plot_panel {
  std::string title;  // of the y axis, e.g. "loss"
  bool logarithmic = false;
  std::vector<plot_series> series;  // not empty
  bool fraction = false;            // values from 0 to 1, beyond which the axis does not go
};

struct run_plot {
  std::string title;
  std::string x_title;  // "step", "epoch" or "time (s)"
  std::vector<plot_panel> panels;
};

struct plot_request {
  std::vector<std::filesystem::path> folders;
  std::vector<metric> what{metric::loss, metric::accuracy};  // a panel each; test_loss is drawn with loss
  metric x = metric::step;
  double smooth = -1;        // as curve_options
  bool logarithmic = false;  // the y axis of loss, lr and examples_per_s; values that are not positive are left out
};

struct plot_result {
  run_plot plot;                     // without panels for which no run has a value
  std::vector<std::string> remarks;  // e.g. damaged lines
};

// Reads the runs.
expected<plot_result, record_error> plot_of_runs(const plot_request& request);

// An axis from `low` to `high` with round numbers at its ticks.
struct plot_axis {
  double low = 0, high = 1;
  bool logarithmic = false;
  struct tick {
    double value = 0;
    std::string text;
  };
  std::vector<tick> ticks;
  double position(double value) const;  // 0 at low, 1 at high
};
// `whole`: only whole numbers have ticks.
plot_axis make_axis(double low, double high, bool logarithmic, int most_ticks, bool whole = false);
plot_axis x_axis_of(const run_plot& p, int most_ticks);
plot_axis y_axis_of(const plot_panel& p, int most_ticks);

}  // namespace troupe
