// `troupe plot`: curves of runs in the terminal, or as SVG.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/cli/screen.hpp"
#include "apps/commands/commands.hpp"
#include "apps/commands/look/runs.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/runs/curve_svg.hpp"
#include "runtime/node/runs/curve_text.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {
namespace {

const std::vector<std::string> plot_metrics{"loss", "accuracy", "lr", "examples_per_s", "test_loss"};
const std::vector<std::string> plot_axes{"step", "epoch", "time"};

struct plot_arguments {
  std::vector<std::string> runs, what;
  run_dir_argument dir;
  std::string out_file, x = "step";
  double smooth = -1;
  bool logarithmic = false;
};

metric metric_named(const std::string& name) {
  const auto at = std::find(metric_names.begin(), metric_names.end(), name);
  return static_cast<metric>(at - metric_names.begin());
}

nlohmann::ordered_json point_list(const std::vector<curve_point>& points) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& p : points) list.push_back({p.x, p.y});
  return list;
}

void print_as_json(const run_plot& p, const output& out) {
  for (const auto& panel : p.panels)
    for (const auto& s : panel.series)
      out.object({{"event", "curve"},
                  {"of", panel.title},
                  {"name", s.name},
                  {"x", p.x_title},
                  {"smoothed", !s.raw.empty()},
                  {"points", point_list(s.points)}});
}

int write_svg(const plot_arguments& a, const run_plot& p, const output& out) {
  const auto svg = curve_svg(p);
  if (const auto fine = write_file_atomically(a.out_file, {{svg.data(), svg.size()}}); !fine)
    return out.failed(a.out_file, fine.error().text);
  if (out.json()) out.object({{"event", "plot"}, {"file", a.out_file}, {"bytes", svg.size()}});
  out.text("wrote " + a.out_file + "\n");
  return exit_done;
}

int run_plot_command(const plot_arguments& a, const output& out) {
  plot_request request;
  for (const auto& word : a.what)
    if (std::find(plot_metrics.begin(), plot_metrics.end(), word) == plot_metrics.end())
      return out.wrong("--what", "there is no curve " + in_quotes(word) + did_you_mean(word, plot_metrics) +
                                     " (curves: " + joined(plot_metrics) + ")");
  if (!a.out_file.empty() && !a.out_file.ends_with(".svg")) return out.wrong("--out", in_quotes(a.out_file) + " must end in .svg");
  if (!a.what.empty()) request.what.clear();
  for (const auto& word : a.what) request.what.push_back(metric_named(word));
  request.x = metric_named(a.x);
  request.smooth = a.smooth;
  request.logarithmic = a.logarithmic;
  const auto runs = known_runs(a.dir, a.runs.empty() ? std::vector<std::string>{"last"} : a.runs, out);
  if (!runs) return exit_wrong;
  for (const auto& r : *runs) request.folders.push_back(r.folder);
  const auto read = plot_of_runs(request);
  if (!read) return out.failed(read.error().file, read.error().message);
  const auto& result = *read;
  for (const auto& remark : result.remarks) out.remark(remark);
  if (result.plot.panels.empty())
    return out.failed("plot", "the runs have no values yet of: " +
                                  joined(a.what.empty() ? std::vector<std::string>{"loss", "accuracy"} : a.what) +
                                  "; try again later, or name others with --what");
  if (!a.out_file.empty()) return write_svg(a, result.plot, out);
  if (out.json()) print_as_json(result.plot, out);
  text_style style;
  style.width = terminal_width();
  style.unicode = terminal_unicode();
  style.colour = terminal_colour();
  out.drawn(curve_text(result.plot, style));  // its names are printable
  return exit_done;
}

void add_options(CLI::App& c, plot_arguments& a) {
  c.add_option("RUN", a.runs, "Runs: numbers, folders' names, jobs' names, paths, or last (default: last)")
      ->option_text("[RUN...]");
  run_dir_option(c, a.dir);
  c.add_option("--what", a.what,
               "Curves, a panel each: " + joined(plot_metrics) + " (default: loss,accuracy; loss includes test_loss)")
      ->option_text("LIST")
      ->delimiter(',')
      ->allow_extra_args(false);
  c.add_option("--x", a.x, "x axis: step, epoch or time in seconds (default: step)")
      ->option_text("AXIS")
      ->check(CLI::IsMember(plot_axes));
  c.add_option("--smooth", a.smooth,
               "Weight of an exponential moving average, as in TensorBoard; 0: none\n(default: over a hundredth of the steps, for "
               "loss and examples_per_s)")
      ->option_text("W")
      ->check(CLI::Range(0.0, 0.999999));
  c.add_flag("--log", a.logarithmic, "Logarithmic y axis, except for accuracy");
  file_option(c, "--out", a.out_file, "Write an SVG instead");
  json_option(c);
}

}  // namespace

cli_command plot_command() {
  return make_command<plot_arguments>(
      "plot", "Draw the curves of runs in the terminal, or as SVG",
      "  troupe plot 7\n  troupe plot 6 7 --what loss,lr --log\n  troupe plot lenet --x time --out lenet.svg", add_options,
      run_plot_command);
}

}  // namespace troupe
