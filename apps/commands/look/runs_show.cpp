// `troupe runs show [RUN]`: run.json, the files, the last evaluations and curves of a run.
#include <algorithm>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>

#include "apps/cli/screen.hpp"
#include "apps/commands/look/runs.hpp"
#include "runtime/base/sparkline.hpp"
#include "runtime/base/text_table.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/runs/run_curve.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr std::size_t shown_evaluations = 5;
constexpr std::size_t most_files = 100'000;

struct run_file {
  std::string name;  // a folder's with '/' at the end
  std::uintmax_t bytes = 0;
  std::size_t files = 1;
};

// The entries of a run folder; a folder counts as one with the bytes of its files.
std::vector<run_file> files_of(const fs::path& folder) {
  std::vector<run_file> all;
  std::error_code ec, odd;
  for (fs::directory_iterator i(folder, ec), end; !ec && i != end && all.size() < most_files; i.increment(ec)) {
    const auto name = i->path().filename().string();
    if (name == "lock") continue;
    if (i->is_regular_file(odd)) all.push_back({name, i->file_size(odd), 1});
    if (!i->is_directory(odd) || i->is_symlink(odd)) continue;
    run_file sum{name + "/", 0, 0};
    for (fs::recursive_directory_iterator f(i->path(), odd), none; !odd && f != none && sum.files < most_files; f.increment(odd))
      if (std::error_code gone; f->is_regular_file(gone)) sum.bytes += f->file_size(gone), ++sum.files;
    all.push_back(sum);
  }
  std::sort(all.begin(), all.end(), [](const run_file& a, const run_file& b) { return a.name < b.name; });
  return all;
}

double metric_value(const metric_row& row, metric m) { return row[static_cast<std::size_t>(m)]; }

// The last rows of metrics.csv that are evaluations; none if the file cannot be read.
std::deque<metric_row> last_evaluations(const fs::path& folder) {
  std::deque<metric_row> last;
  metrics_parser parser([&last](const metric_row& row) {
    if (std::isnan(metric_value(row, metric::accuracy)) && std::isnan(metric_value(row, metric::test_loss))) return;
    last.push_back(row);
    if (last.size() > shown_evaluations) last.pop_front();
  });
  if (!read_metrics(run_metrics_file(folder), parser)) last.clear();
  return last;
}

class fact_lines {
 public:
  void add(const char* name, const std::string& text) {
    if (!text.empty()) text_ += left(name, 16) + printable(text) + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string counted_text(std::uint64_t n, const char* what) {
  return n == 0 ? "" : with_commas(n) + " " + what + (n == 1 ? "" : "s");
}

std::string joined_known(std::vector<std::string> words) {
  std::erase(words, "");
  return joined(words);
}

std::string results_text(const run_info& r) {
  fact_lines lines;
  const auto rate = mean_rate(r);
  lines.add("training", joined_known({steps_text(r) + " steps", r.seconds > 0 ? clock_text(r.seconds) : "",
                                      rate > 0 ? with_commas(static_cast<std::uint64_t>(rate)) + " examples/s" : ""}));
  if (r.steps > 0) lines.add("loss", number_or_dash(r.loss, 4));
  if (r.accuracy >= 0)
    lines.add("accuracy", accuracy_text(r.accuracy) + " (best " + accuracy_text(r.best_accuracy) + " at step " +
                              std::to_string(r.best_step) + ")");
  else if (const auto best = best_of(r))
    lines.add("test loss", "best " + number_or_dash(best->loss, 4) + " at step " + std::to_string(best->step));
  lines.add("weights_sha256", r.weights_sha256);
  lines.add("error", r.error);
  return lines.text();
}

std::string facts_text(const known_run& known) {
  const auto& r = known.info;
  const auto now = std::time(nullptr);
  fact_lines lines;
  lines.add("folder", known.folder.string());
  std::string job = r.job_file, resumed;
  for (const auto& o : r.overrides) job += " --set " + o;
  for (const auto step : r.resumed_at) resumed += (resumed.empty() ? "at step " : ", ") + std::to_string(step);
  lines.add("job", job);
  lines.add("started", r.started.empty() ? "" : r.started + " (" + started_text(r.started, now) + ")");
  lines.add("ended", r.ended);
  lines.add("resumed", resumed);
  lines.add("begun from", r.begun_from);
  if (r.not_recorded > 0)
    lines.add("not recorded", counted_text(r.not_recorded, "event") + ": a file could not be written, or the process was killed");
  auto text = lines.text() + results_text(r);
  fact_lines rest;
  rest.add("mode", joined_known({r.mode, counted_text(r.workers, "worker"), counted_text(r.packets, "packet"),
                                 r.batch > 0 ? "batch " + std::to_string(r.batch) : ""}));
  rest.add("model", counted_text(r.parameters, "parameter"));
  rest.add("seed", std::to_string(r.seed));
  rest.add("machine", joined_known({r.host, r.cpu, counted_text(r.cores, "core"),
                                    r.blas_kernel.empty() ? "" : "BLAS kernel " + r.blas_kernel}));
  rest.add("devices", joined(r.devices));
  rest.add("version", r.version);
  return text + rest.text();
}

std::string files_text(const std::vector<run_file>& files) {
  text_table t({"file", "size", ""});
  t.right(1);
  for (const auto& f : files)
    t.add(
        {printable(f.name), bytes_text(static_cast<double>(f.bytes)), f.name.ends_with('/') ? counted_text(f.files, "file") : ""});
  return files.empty() ? "" : "\n" + t.text() + "\n";
}

std::string evaluations_text(const std::deque<metric_row>& rows) {
  if (rows.empty()) return {};
  text_table t({"evaluation", "step", "epoch", "accuracy", "test loss"});
  for (const std::size_t column : {1, 2, 3, 4}) t.right(column);
  for (const auto& row : rows)
    t.add({"", fixed(metric_value(row, metric::step), 0), number_or_dash(metric_value(row, metric::epoch), 2),
           number_or_dash(metric_value(row, metric::accuracy), 4), number_or_dash(metric_value(row, metric::test_loss), 4)});
  return "\n" + t.text() + "\n";
}

std::string curves_text(const fs::path& folder) {
  const auto read = read_run_curves(run_metrics_file(folder));
  if (!read) return {};
  std::string text;
  const auto width = static_cast<std::size_t>(std::clamp(terminal_width() - 40, 10, 60));
  for (const auto m : {metric::loss, metric::test_loss, metric::accuracy, metric::examples_per_s}) {
    const auto& c = (*read)[m];
    if (c.raw.empty()) continue;
    const auto points = (c.smooth.empty() ? c.raw : c.smooth).points();
    std::vector<double> values;
    for (const auto& p : points) values.push_back(p.y);
    const int digits = m == metric::examples_per_s ? 0 : 4;
    text += left(metric_names[static_cast<std::size_t>(m)], 16) + sparkline(values, width, terminal_unicode()) + "  " +
            fixed(points.front().y, digits) + " to " + fixed(points.back().y, digits) + "\n";
  }
  return text.empty() ? text : "\n" + text;
}

json evaluation_object(const metric_row& row) {
  json o;
  for (std::size_t i = 0; i < metric_count; ++i)
    if (!std::isnan(row[i])) o[metric_names[i]] = row[i];
  o["step"] = static_cast<std::uint64_t>(metric_value(row, metric::step));
  return o;
}

}  // namespace

int show_run(const known_run& r, const output& out) {
  const auto files = files_of(r.folder);
  const auto evaluations = last_evaluations(r.folder);
  if (out.json()) {
    auto o = run_object("run", r);
    o["files"] = json::array();
    for (const auto& f : files) o["files"].push_back({{"name", f.name}, {"bytes", f.bytes}, {"files", f.files}});
    o["evaluations"] = json::array();
    for (const auto& row : evaluations) o["evaluations"].push_back(evaluation_object(row));
    out.object(o);
    return exit_done;
  }
  out.text("run " + std::to_string(r.info.number) + "  " + printable(r.info.name) + "  " + r.info.state + "\n\n" + facts_text(r) +
           files_text(files) + evaluations_text(evaluations) + curves_text(r.folder));
  return exit_done;
}

}  // namespace troupe
