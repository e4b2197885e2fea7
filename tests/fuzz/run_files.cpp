// Fuzz target: files of a run folder: run.json, or metrics.csv in two pieces, by the first byte.
#include <cmath>

#include "runtime/node/runs/run_curve.hpp"
#include "runtime/node/runs/run_info.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_metrics_text(const std::string& all, std::size_t split) {
  run_curve loss;
  std::uint64_t rows = 0;
  metrics_parser parser([&](const metric_row& row) {
    ++rows;
    for (const double v : row) must(!std::isinf(v), "a value is infinite");
    must(row[0] >= 0, "a row without a step");
    if (!std::isnan(row[3])) loss.add(row[0], row[0], row[3]);
  });
  split = all.empty() ? 0 : split % all.size();
  parser.feed(std::string_view(all).substr(0, split));
  parser.feed(std::string_view(all).substr(split));
  must(rows == parser.rows(), "rows are miscounted");
  must(parser.problem().empty() || rows == 0, "rows after a wrong header");
  const auto points = loss.points();
  for (std::size_t i = 1; i < points.size(); ++i) must(points[i - 1].x < points[i].x, "points out of order");
  must(points.size() <= loss.count() && points.empty() == (loss.count() == 0), "points are miscounted");
}

void read_run_files(input in) {
  reader r(in);
  const auto how = r.number(1);
  const auto all = text(r.rest());
  if (how & 1) return read_metrics_text(all, static_cast<std::size_t>(how) * 37);
  const auto read = parse_run_info(all);
  if (!read) return must(!read.error().text.empty(), "refused without a reason");
  const auto again = parse_run_info(run_info_text(*read));
  must(again.has_value(), "the text of a run cannot be read");
  must(run_info_text(*again) == run_info_text(*read), "a run is changed by writing and reading");
}

std::vector<std::string> sound_run_files() {
  run_info r;
  r.number = 7, r.name = "lenet", r.state = "done", r.overrides = {"x=1"}, r.resumed_at = {5}, r.accuracy = 0.5;
  return {std::string(1, '\0') + run_info_text(r),
          "\x03step,epoch,time,loss,accuracy,lr,examples_per_s,test_loss\n1,0.1,2,2.5,,0.1,700,\n2,0.2,3,nan,,0.1,,\n2,0.2,3,,0.5,,"
          ",1e3\n1,0.1,9,1,,,,\n",
          "\x01loss,step\n1,2\r\n3,4\n"};
}

const entry run_files_entry({"run_files", read_run_files, sound_run_files});

}  // namespace
}  // namespace troupe::fuzz
