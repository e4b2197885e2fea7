#include "runtime/node/runs/curve_svg.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/number_text.hpp"

namespace troupe {
namespace {

constexpr double page_width = 860, left_margin = 64, right_margin = 24;
constexpr double plot_width = page_width - left_margin - right_margin;
constexpr double title_height = 44, panel_height = 240, legend_line = 20, axis_height = 30;
constexpr std::size_t svg_colours = 8;
constexpr std::size_t most_legend_letters = 40;

// Colours that colour-blind readers can tell apart (Okabe and Ito), lighter in the dark scheme.
constexpr const char* svg_style = R"(<style>
  .page { fill: #ffffff } text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #444c56 }
  .title { font-size: 15px; font-weight: 600; fill: #1f2328 } .grid { stroke: #d8dee4; stroke-width: 1 } .frame { stroke: #8c959f; fill: none }
  .line { fill: none; stroke-width: 1.8; stroke-linejoin: round } .raw { fill: none; stroke-width: 1; opacity: .28 }
  .c0 { stroke: #0072b2 } .c1 { stroke: #d55e00 } .c2 { stroke: #009e73 } .c3 { stroke: #cc79a7 }
  .c4 { stroke: #b8860b } .c5 { stroke: #56b4e9 } .c6 { stroke: #6f42c1 } .c7 { stroke: #57606a }
  .dot { fill: #ffffff; stroke-width: 1.6 }
  @media (prefers-color-scheme: dark) {
    .page, .dot { fill: #0d1117 } text { fill: #adbac7 } .title { fill: #e6edf3 } .grid { stroke: #2b323b } .frame { stroke: #6e7681 }
    .c0 { stroke: #4ea8de } .c1 { stroke: #ff9248 } .c2 { stroke: #3ddc97 } .c3 { stroke: #f0a6ca }
    .c4 { stroke: #e3b341 } .c5 { stroke: #8fd3ff } .c6 { stroke: #b392f0 } .c7 { stroke: #adbac7 }
  }
</style>
)";

std::string svg_number(double v) { return fixed_text(v, 1); }

// Text of an element, as valid UTF-8 without control characters.
std::string xml_text(const std::string& raw) {
  using json = nlohmann::json;
  const auto valid = json::parse(json(raw).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
  std::string text;
  for (const char c : valid) {
    if (c == '&')
      text += "&amp;";
    else if (c == '<')
      text += "&lt;";
    else if (c == '>')
      text += "&gt;";
    else if (c == '"')
      text += "&quot;";
    else
      text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return text;
}

std::string text_at(double x, double y, const std::string& text, const std::string& attributes = {}) {
  return "<text x=\"" + svg_number(x) + "\" y=\"" + svg_number(y) + "\"" + (attributes.empty() ? "" : " " + attributes) + ">" +
         xml_text(text) + "</text>\n";
}

std::string line_at(double x1, double y1, double x2, double y2, const std::string& style) {
  return "<line x1=\"" + svg_number(x1) + "\" y1=\"" + svg_number(y1) + "\" x2=\"" + svg_number(x2) + "\" y2=\"" + svg_number(y2) +
         "\" class=\"" + style + "\"/>\n";
}

std::string colour_class(const plot_series& s) { return "c" + std::to_string(s.colour % svg_colours); }
// Beyond the colours, and for evaluations next to training, lines are dashed.
std::string dashes(const plot_series& s, bool among_unmarked) {
  if (s.colour >= svg_colours) return " stroke-dasharray=\"2 3\"";
  return s.marked && among_unmarked ? " stroke-dasharray=\"6 3\"" : "";
}

// The area of a panel on the page, and its axes.
struct svg_area {
  plot_axis x, y;
  double top = 0;
  double page_x(double v) const { return left_margin + std::clamp(x.position(v), -0.01, 1.01) * plot_width; }
  double page_y(double v) const { return top + (1 - std::clamp(y.position(v), -0.01, 1.01)) * panel_height; }
};

std::string path_of(const svg_area& a, const std::vector<curve_point>& points, const std::string& style, const std::string& more) {
  std::string d;
  for (const auto& p : points) d += (d.empty() ? "M" : "L") + svg_number(a.page_x(p.x)) + " " + svg_number(a.page_y(p.y));
  return "<path class=\"" + style + "\"" + more + " d=\"" + d + "\"/>\n";
}

// Many dots would hide their line.
std::string dots_of(const svg_area& a, const plot_series& s) {
  const bool few = s.marked && s.points.size() <= 60;
  if (!few && s.points.size() != 1) return {};
  std::string text;
  for (const auto& p : s.points)
    text += "<circle class=\"dot " + colour_class(s) + "\" cx=\"" + svg_number(a.page_x(p.x)) + "\" cy=\"" +
            svg_number(a.page_y(p.y)) + "\" r=\"3\"/>\n";
  return text;
}

// Returns the rows of the legend, of which each has indices of series.
struct legend_entry {
  std::size_t series = 0;
  double x = 0;
  int row = 0;
};

std::string legend_name(const plot_series& s) {
  return s.name.size() <= most_legend_letters ? s.name : s.name.substr(0, most_legend_letters - 3) + "...";
}

std::vector<legend_entry> lay_out_legend(const plot_panel& p) {
  std::vector<legend_entry> entries;
  double x = left_margin;
  int row = 0;
  for (std::size_t i = 0; i < p.series.size(); ++i) {
    const double wide = 40 + 7 * static_cast<double>(legend_name(p.series[i]).size());
    if (x + wide > page_width - right_margin && x > left_margin) x = left_margin, ++row;
    entries.push_back({i, x, row});
    x += wide;
  }
  return entries;
}

bool has_unmarked(const plot_panel& p) {
  return std::any_of(p.series.begin(), p.series.end(), [](const plot_series& s) { return !s.marked; });
}

std::string legend_of(const plot_panel& p, const std::vector<legend_entry>& entries, double top) {
  std::string text;
  for (const auto& e : entries) {
    const auto& s = p.series[e.series];
    const double y = top + e.row * legend_line + 10;
    text += "<path class=\"line " + colour_class(s) + "\"" + dashes(s, has_unmarked(p)) + " d=\"M" + svg_number(e.x) + " " +
            svg_number(y) + "h22\"/>\n";
    text += text_at(e.x + 28, y + 4, legend_name(s));
  }
  return text;
}

std::string grid_of(const svg_area& a) {
  std::string text;
  const double bottom = a.top + panel_height, right = left_margin + plot_width;
  for (const auto& t : a.y.ticks) {
    text += line_at(left_margin, a.page_y(t.value), right, a.page_y(t.value), "grid");
    text += text_at(left_margin - 8, a.page_y(t.value) + 4, t.text, "text-anchor=\"end\"");
  }
  for (const auto& t : a.x.ticks) {
    text += line_at(a.page_x(t.value), a.top, a.page_x(t.value), bottom, "grid");
    text += text_at(a.page_x(t.value), bottom + 18, t.text, "text-anchor=\"middle\"");
  }
  return text + "<rect class=\"frame\" x=\"" + svg_number(left_margin) + "\" y=\"" + svg_number(a.top) + "\" width=\"" +
         svg_number(plot_width) + "\" height=\"" + svg_number(panel_height) + "\"/>\n";
}

// Draws a panel whose legend begins at `top`; advances `top` below it.
std::string panel_text(const run_plot& plot, const plot_panel& p, double& top) {
  const auto legend = lay_out_legend(p);
  const double legend_height = (legend.empty() ? 0 : legend.back().row + 1) * legend_line + 4;
  const svg_area a{x_axis_of(plot, 9), y_axis_of(p, 6), top + legend_height};
  auto text = legend_of(p, legend, top) + grid_of(a);
  for (const auto& s : p.series)
    if (!s.raw.empty()) text += path_of(a, s.raw, "raw " + colour_class(s), {});
  for (const auto& s : p.series)
    text += path_of(a, s.points, "line " + colour_class(s), dashes(s, has_unmarked(p))) + dots_of(a, s);
  const double middle = a.top + panel_height / 2;
  text += text_at(16, middle, p.title, "text-anchor=\"middle\" transform=\"rotate(-90 16 " + svg_number(middle) + ")\"");
  top = a.top + panel_height + axis_height;
  return text;
}

}  // namespace

std::string curve_svg(const run_plot& p) {
  std::string body;
  double top = title_height;
  for (const auto& panel : p.panels) body += panel_text(p, panel, top);
  if (p.panels.empty()) {
    body += text_at(page_width / 2, top + 30, "no values yet", "text-anchor=\"middle\"");
    top += 60;
  } else {
    body += text_at(left_margin + plot_width / 2, top + 8, p.x_title, "text-anchor=\"middle\"");
  }
  const auto height = svg_number(top + 24);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"" + height + "\" viewBox=\"0 0 860 " + height +
         "\" role=\"img\">\n<title>" + xml_text(p.title) + "</title>\n" + svg_style +
         "<rect class=\"page\" width=\"860\" height=\"" + height + "\"/>\n" + text_at(left_margin, 27, p.title, "class=\"title\"") +
         body + "</svg>\n";
}

expected<std::string, record_error> svg_of_run(const std::filesystem::path& folder) {
  plot_request request;
  request.folders = {folder};
  auto plot = plot_of_runs(request);
  if (!plot) return unexpected(std::move(plot).error());
  return curve_svg(plot->plot);
}

}  // namespace troupe
