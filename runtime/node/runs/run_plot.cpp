#include "runtime/node/runs/run_plot.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

bool may_be_logarithmic(metric m) { return m != metric::accuracy; }

const char* axis_title(metric m) {
  switch (m) {
    case metric::time: return "time (s)";
    case metric::lr: return "learning rate";
    case metric::examples_per_s: return "examples/s";
    case metric::test_loss: return "test loss";
    default: return metric_names[static_cast<std::size_t>(m)];
  }
}

std::vector<curve_point> positive(std::vector<curve_point> points, bool only) {
  if (only) std::erase_if(points, [](const curve_point& p) { return !(p.y > 0); });
  return points;
}

// Adds the series of a metric, unless the run has no value.
void add_series(plot_panel& panel, const metric_curve& c, std::string name, std::size_t colour, bool marked) {
  plot_series s{std::move(name), positive((c.smooth.empty() ? c.raw : c.smooth).points(), panel.logarithmic), {}, colour, marked};
  if (!c.smooth.empty()) s.raw = positive(c.raw.points(), panel.logarithmic);
  if (!s.points.empty()) panel.series.push_back(std::move(s));
}

struct named_curves {
  std::string name;
  run_curves curves;
};

plot_panel panel_of(const std::vector<named_curves>& runs, metric what, bool logarithmic) {
  plot_panel panel{axis_title(what), logarithmic && may_be_logarithmic(what), {}, what == metric::accuracy};
  const bool alone = runs.size() == 1;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& c = runs[i].curves;
    const bool evaluations = what == metric::accuracy || what == metric::test_loss;
    add_series(panel, c[what], alone ? (what == metric::loss ? "training loss" : panel.title) : runs[i].name, i, evaluations);
    if (what == metric::loss)
      add_series(panel, c[metric::test_loss], alone ? "test loss" : runs[i].name + " (test)", alone ? 1 : i, true);
  }
  return panel;
}

// "run 7-lenet (done)"; the folder's name alone if run.json cannot be read.
std::string title_of(const fs::path& folder) {
  const auto info = read_run_info(folder);
  const auto name = fs::absolute(folder).lexically_normal().filename();
  const auto shown = name.empty() ? fs::absolute(folder).lexically_normal().parent_path().filename().string() : name.string();
  return printable(info ? shown + " (" + info->state + ")" : shown);
}

std::string name_of_run(const fs::path& folder) {
  const auto title = title_of(folder);
  return title.substr(0, title.find(" ("));
}

// 1, 2 or 5 times a power of ten: the smallest distance of ticks that needs at most `most_ticks`.
double round_distance(double range, int most_ticks) {
  const double rough = range / std::max(1, most_ticks - 1);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

std::string trimmed_number(double v) { return general_text(v, 6); }

// The ticks of an axis have one unit and one number of decimals.
std::string tick_text(double value, double distance, double greatest) {
  if (greatest >= 1e12 || greatest < 1e-4) return trimmed_number(value);
  const double unit = greatest >= 1e9 ? 1e9 : greatest >= 1e6 ? 1e6 : greatest >= 1e4 ? 1e3 : 1;
  const char* suffix = unit >= 1e9 ? "G" : unit >= 1e6 ? "M" : unit > 1 ? "k" : "";
  if (value == 0) return "0";
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(distance / unit) - 1e-9)), 0, 9);
  return fixed_text(value / unit, digits) + suffix;
}

void add_linear_ticks(plot_axis& a, double distance) {
  const double greatest = std::max(std::abs(a.low), std::abs(a.high));
  for (double n = std::ceil(a.low / distance - 1e-6); n <= std::floor(a.high / distance + 1e-6) && a.ticks.size() < 100; ++n)
    a.ticks.push_back({n * distance, tick_text(n * distance, distance, greatest)});
}

// Powers of ten; over less than two of them also 2 and 5 times a power.
void add_logarithmic_ticks(plot_axis& a, int most_ticks) {
  const double first = std::floor(std::log10(a.low)), last = std::ceil(std::log10(a.high));
  const double every = std::max(1.0, std::ceil((last - first) / std::max(1, most_ticks)));
  for (double e = first; e <= last; e += every)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double v = factor * std::pow(10, e);
      if (v < a.low * (1 - 1e-9) || v > a.high * (1 + 1e-9) || (factor > 1 && last - first > 2)) continue;
      a.ticks.push_back({v, trimmed_number(v)});
    }
}

struct value_range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void include(double v) { low = std::min(low, v), high = std::max(high, v); }
};

}  // namespace

expected<plot_result, record_error> plot_of_runs(const plot_request& request) {
  std::vector<named_curves> runs;
  plot_result result;
  for (const auto& folder : request.folders) {
    auto read = read_run_curves(run_metrics_file(folder), {request.x, request.smooth});
    if (!read) return unexpected(std::move(read).error());
    auto& curves = *read;
    if (curves.damaged > 0)
      result.remarks.push_back(run_metrics_file(folder).string() + ": " + with_commas(curves.damaged) + " damaged " +
                               (curves.damaged == 1 ? "line is" : "lines are") + " left out");
    runs.push_back({name_of_run(folder), std::move(curves)});
  }
  result.plot.title = request.folders.size() == 1 ? title_of(request.folders[0]) : with_commas(request.folders.size()) + " runs";
  result.plot.x_title = axis_title(request.x);
  for (const auto what : request.what)
    if (auto panel = panel_of(runs, what, request.logarithmic); !panel.series.empty())
      result.plot.panels.push_back(std::move(panel));
  return result;
}

double plot_axis::position(double value) const {
  if (logarithmic) return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
  return (value - low) / (high - low);
}

plot_axis make_axis(double low, double high, bool logarithmic, int most_ticks, bool whole) {
  constexpr double largest = 1e300;
  low = std::clamp(low, -largest, largest), high = std::clamp(high, -largest, largest);
  plot_axis a{low, high, logarithmic, {}};
  if (logarithmic) {
    if (!(high > low * (1 + 1e-9))) a.low = low / 2, a.high = high * 2;
    add_logarithmic_ticks(a, most_ticks);
    if (a.ticks.size() >= 2) return a;
    a.ticks.clear();
  } else if (!(high - low > std::max(std::abs(low), std::abs(high)) * 1e-12)) {
    const double more = low == 0 ? 1 : std::abs(low) * 0.1;
    a.low = low - more, a.high = high + more;
  }
  const double distance = round_distance(a.high - a.low, most_ticks);
  add_linear_ticks(a, whole ? std::max(1.0, distance) : distance);
  return a;
}

plot_axis x_axis_of(const run_plot& p, int most_ticks) {
  value_range r;
  for (const auto& panel : p.panels)
    for (const auto& s : panel.series)
      for (const auto* points : {&s.points, &s.raw})
        for (const auto& point : *points) r.include(point.x);
  if (!(r.low <= r.high)) r = {0, 1};
  // A run is drawn from 0, its beginning, unless it is long and only its end is there.
  if (r.low > 0 && r.low < 0.1 * r.high) r.low = 0;
  return make_axis(r.low, r.high, false, most_ticks, p.x_title == axis_title(metric::step));
}

plot_axis y_axis_of(const plot_panel& p, int most_ticks) {
  value_range r;
  for (const auto& s : p.series)
    for (const auto* points : {&s.points, &s.raw})
      for (const auto& point : *points) r.include(point.y);
  if (!(r.low <= r.high)) r = {p.logarithmic ? 0.1 : 0, 1};
  if (p.fraction && r.low == r.high) r = {std::max(0.0, r.low - 0.1), std::min(1.0, r.high + 0.1)};
  auto a = make_axis(r.low, r.high, p.logarithmic, most_ticks);
  if (p.logarithmic || a.ticks.size() < 2) return a;
  const double distance = a.ticks[1].value - a.ticks[0].value;
  return make_axis(std::floor(a.low / distance + 1e-6) * distance, std::ceil(a.high / distance - 1e-6) * distance, false,
                   most_ticks + 1);
}

}  // namespace troupe
