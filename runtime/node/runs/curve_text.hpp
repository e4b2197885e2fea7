// Plots of runs as text for terminals.
//
// Threads: functions without state.
#pragma once

#include <string>
#include <vector>

#include "runtime/node/runs/run_plot.hpp"

namespace troupe {

struct text_style {
  int width = 80;       // columns of the terminal
  int height = 14;      // rows of a panel, without its axis
  bool unicode = true;  // braille dots and line drawing; else ASCII
  bool colour = false;  // ANSI colours
};

// The panels, one below the other. A panel whose series cannot be told apart by colour is drawn
// with a letter for each series.
std::string curve_text(const run_plot& p, const text_style& style);

}  // namespace troupe
