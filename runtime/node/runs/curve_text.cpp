#include "runtime/node/runs/curve_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

namespace troupe {
namespace {

constexpr int least_width = 40, most_width = 400;
constexpr std::array<const char*, 6> ansi_colours{"\x1b[34m", "\x1b[33m", "\x1b[32m", "\x1b[35m", "\x1b[36m", "\x1b[31m"};
constexpr const char* ansi_plain = "\x1b[0m";
constexpr const char* ascii_marks = "*o+x#@%&=~";

// A cell of the plot: braille dots, or one character.
struct text_cell {
  std::uint8_t dots = 0;
  char mark = 0;
  int colour = -1;
};

std::string braille(std::uint8_t dots) {  // U+2800 + dots
  return {'\xe2', static_cast<char>(0xa0 | (dots >> 6)), static_cast<char>(0x80 | (dots & 0x3f))};
}

// A grid of cells, in which lines are drawn from point to point. With dots a cell has 2 x 4 points.
class text_canvas {
 public:
  text_canvas(int columns, int rows, bool dots)
      : columns_(columns), rows_(rows), dots_(dots), cells_(static_cast<std::size_t>(columns * rows)) {}
  int wide() const { return columns_ * (dots_ ? 2 : 1); }
  int high() const { return rows_ * (dots_ ? 4 : 1); }

  void draw_line(int x0, int y0, int x1, int y1, char mark, int colour) {
    const int dx = std::abs(x1 - x0), dy = -std::abs(y1 - y0), sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1;
    for (int error = dx + dy;;) {
      set(x0, y0, mark, colour);
      if (x0 == x1 && y0 == y1) return;
      const int twice = 2 * error;
      if (twice >= dy) error += dy, x0 += sx;
      if (twice <= dx) error += dx, y0 += sy;
    }
  }

  std::string row(int r, bool colour) const {
    const auto* cells = &cells_[static_cast<std::size_t>(r * columns_)];
    int end = columns_;
    while (end > 0 && cells[end - 1].colour < 0) --end;
    std::string text;
    int now = -1;
    for (int c = 0; c < end; ++c) {
      const auto& cell = cells[c];
      const int want = cell.colour >= 0 ? cell.colour : now;
      if (colour && want != now) text += ansi_colours[static_cast<std::size_t>(want) % ansi_colours.size()], now = want;
      if (cell.dots != 0)
        text += braille(cell.dots);
      else
        text += cell.mark != 0 ? cell.mark : ' ';
    }
    return now >= 0 ? text + ansi_plain : text;
  }

 private:
  void set(int x, int y, char mark, int colour) {
    if (x < 0 || y < 0 || x >= wide() || y >= high()) return;
    auto& cell = cells_[static_cast<std::size_t>((dots_ ? y / 4 : y) * columns_ + (dots_ ? x / 2 : x))];
    constexpr std::uint8_t bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (dots_)
      cell.dots |= bits[y % 4][x % 2];
    else
      cell.mark = mark;
    cell.colour = colour;
  }

  int columns_, rows_;
  bool dots_;
  std::vector<text_cell> cells_;
};

std::string padded(const std::string& s, std::size_t width) {
  return s.size() < width ? std::string(width - s.size(), ' ') + s : s;
}

// Without colours, braille dots of several series look alike.
bool drawn_with_dots(const plot_panel& p, const text_style& style) {
  return style.unicode && (style.colour || p.series.size() == 1);
}

char mark_of(std::size_t series) { return ascii_marks[series % 10]; }

void draw_series(text_canvas& canvas, const plot_series& s, const plot_axis& x, const plot_axis& y, std::size_t index) {
  const auto place = [&](const curve_point& p) {
    return std::pair{static_cast<int>(std::lround(std::clamp(x.position(p.x), 0.0, 1.0) * (canvas.wide() - 1))),
                     static_cast<int>(std::lround((1 - std::clamp(y.position(p.y), 0.0, 1.0)) * (canvas.high() - 1)))};
  };
  for (std::size_t i = 0; i < s.points.size(); ++i) {
    const auto [x0, y0] = place(s.points[i == 0 ? 0 : i - 1]);
    const auto [x1, y1] = place(s.points[i]);
    canvas.draw_line(x0, y0, x1, y1, mark_of(index), static_cast<int>(index));
  }
}

std::string legend_line_of(const plot_panel& p, const text_style& style, std::size_t indent) {
  std::string text(indent, ' '), line = p.title + (p.logarithmic ? " (logarithmic)" : "");
  if (p.series.size() == 1 && p.series[0].name == p.title) return text + line + "\n";
  line += ":";
  std::size_t used = indent + line.size();
  for (std::size_t i = 0; i < p.series.size(); ++i) {
    const auto& name = p.series[i].name;
    if (used + name.size() + 5 > static_cast<std::size_t>(style.width) && used > indent)
      line += "\n" + std::string(indent, ' '), used = indent;
    const bool dots = drawn_with_dots(p, style);
    const auto sign = dots ? std::string("\xe2\x94\x81\xe2\x94\x81") : std::string(2, mark_of(i));
    line += "  " + (style.colour ? ansi_colours[i % ansi_colours.size()] + sign + ansi_plain : sign) + " " + name;
    used += name.size() + 5;
  }
  return text + line + "\n";
}

// The x axis and the numbers below it.
std::string x_axis_text(const plot_axis& x, int columns, std::size_t indent, const text_style& style, const std::string& title) {
  std::vector<bool> ticks(static_cast<std::size_t>(columns), false);
  std::string numbers(indent + 1 + static_cast<std::size_t>(columns), ' ');
  std::size_t free_from = 0;
  for (const auto& t : x.ticks) {
    const auto column = static_cast<std::size_t>(std::lround(std::clamp(x.position(t.value), 0.0, 1.0) * (columns - 1)));
    ticks[column] = true;
    const auto middle = indent + 1 + column;
    const auto start =
        std::min(middle - std::min(middle, t.text.size() / 2), numbers.size() - std::min(numbers.size(), t.text.size()));
    if (start < free_from || start + t.text.size() > numbers.size()) continue;
    numbers.replace(start, t.text.size(), t.text);
    free_from = start + t.text.size() + 2;
  }
  std::string line(indent, ' ');
  line += style.unicode ? "\xe2\x94\x94" : "+";
  for (const bool t : ticks) line += style.unicode ? (t ? "\xe2\x94\xac" : "\xe2\x94\x80") : t ? "+" : "-";
  numbers.erase(numbers.find_last_not_of(' ') + 1);
  const auto centre = indent + static_cast<std::size_t>(columns) / 2 -
                      std::min<std::size_t>(title.size() / 2, static_cast<std::size_t>(columns) / 2);
  return line + "\n" + numbers + "\n" + (title.empty() ? "" : std::string(centre, ' ') + title + "\n");
}

std::string panel_lines(const run_plot& plot, const plot_panel& p, const text_style& style, bool last) {
  const auto y = y_axis_of(p, std::max(2, style.height / 3));
  std::size_t indent = 0;
  for (const auto& t : y.ticks) indent = std::max(indent, t.text.size());
  ++indent;
  const int columns = std::max(10, std::clamp(style.width, least_width, most_width) - static_cast<int>(indent) - 2);
  const auto x = x_axis_of(plot, std::max(2, columns / 12));
  text_canvas canvas(columns, style.height, drawn_with_dots(p, style));
  for (std::size_t i = 0; i < p.series.size(); ++i) draw_series(canvas, p.series[i], x, y, i);
  std::vector<std::string> labels(static_cast<std::size_t>(style.height));
  for (const auto& t : y.ticks)
    labels[static_cast<std::size_t>(std::lround((1 - std::clamp(y.position(t.value), 0.0, 1.0)) * (style.height - 1)))] = t.text;
  auto text = legend_line_of(p, style, indent + 1);
  for (int r = 0; r < style.height; ++r) {
    const auto& label = labels[static_cast<std::size_t>(r)];
    const auto* border = style.unicode ? (label.empty() ? "\xe2\x94\x82" : "\xe2\x94\xa4") : label.empty() ? "|" : "+";
    text += padded(label.empty() ? "" : label + " ", indent) + border + canvas.row(r, style.colour) + "\n";
  }
  return text + x_axis_text(x, columns, indent, style, last ? plot.x_title : std::string());
}

}  // namespace

std::string curve_text(const run_plot& p, const text_style& style) {
  auto text = p.title + "\n";
  if (p.panels.empty()) return text + "no values yet\n";
  for (const auto& panel : p.panels) text += "\n" + panel_lines(p, panel, style, &panel == &p.panels.back());
  return text;
}

}  // namespace troupe
