// Curves of a run: metrics.csv read as points, in bounded memory for a file of any length.
//
//   step,epoch,time,loss,accuracy,lr,examples_per_s,test_loss
//   200,0.43,25.1,0.5312,,0.01,7031,     a step: accuracy and test_loss are missing
//   200,0.43,25.1,,0.8207,,,0.4952       an evaluation: loss, lr, examples_per_s are missing
//
// The header line gives the order of the columns; unknown columns are ignored. A line that cannot
// be read is counted and skipped. A last line without a newline is incomplete (a crash, or a run
// that is writing) and ignored. If the steps go back, the run was resumed from there: later lines
// replace the earlier ones from this step on.
//
// Errors: values.  Threads: values without shared state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/messages/best_evaluation.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe {

enum class metric : std::uint8_t { step, epoch, time, loss, accuracy, lr, examples_per_s, test_loss };
constexpr std::size_t metric_count = 8;
constexpr std::array<const char*, metric_count> metric_names{"step",     "epoch", "time",           "loss",
                                                             "accuracy", "lr",    "examples_per_s", "test_loss"};

// A line of metrics.csv, indexed by metric. NaN: the value is missing or not a finite number.
using metric_row = std::array<double, metric_count>;

// Splits the text of metrics.csv, which arrives in pieces of any size.
class metrics_parser {
 public:
  using take_row = std::function<void(const metric_row&)>;
  explicit metrics_parser(take_row take) : take_(std::move(take)) {}
  void feed(std::string_view text);
  std::uint64_t rows() const { return rows_; }
  std::uint64_t damaged() const { return damaged_; }       // lines that are no rows
  const std::string& problem() const { return problem_; }  // of the header; empty: sound

 private:
  void take_line(std::string_view line);
  void take_header(std::string_view line);

  take_row take_;
  std::string rest_;  // of the last line, without its end
  bool too_long_ = false;
  std::vector<int> columns_;  // the metric of each column, -1: unknown; empty: the header has not been read
  std::uint64_t rows_ = 0, damaged_ = 0;
  std::string problem_;
};

struct curve_point {
  double x = 0, y = 0;
};

// Neighbouring points of a curve as one: x in the middle of them.
struct curve_band {
  double x = 0, mean = 0, low = 0, high = 0;
};

// Points in the order of their steps. Beyond a limit, neighbours are merged to buckets that keep
// their first, lowest, highest and last point, so that no peak is lost.
class run_curve {
 public:
  // A step that is not above the last one removes the points from this step on.
  void add(double step, double x, double y);
  // The points as added if they are few, else four of a bucket. At most 2,048.
  std::vector<curve_point> points() const;
  // A band of each bucket: of each point if they are few. At most 512.
  std::vector<curve_band> bands() const;
  bool empty() const { return buckets_.empty(); }
  std::uint64_t count() const;  // of points that were added and not removed
  // Of all points; NaN if there are none.
  double last() const { return empty() ? std::numeric_limits<double>::quiet_NaN() : buckets_.back().last.y; }
  double lowest() const;
  double highest() const;

 private:
  struct stepped_point {
    double step = 0, x = 0, y = 0;
  };
  struct bucket {
    stepped_point first, low, high, last;
    std::uint64_t count = 0;
    double sum = 0;  // of y
    void include(const bucket& later);
  };
  void remove_from(double step);

  std::vector<bucket> buckets_;
  std::uint64_t width_ = 1;  // points of a full bucket
};

// Feeds a whole file to the parser. A problem of the header is an error; an empty file has no rows.
expected<void, record_error> read_metrics(const std::filesystem::path& metrics_file, metrics_parser& parser);

// The last and the best values of a run. Numbers of metrics.csv have nine digits.
struct run_values {
  std::optional<double> loss;           // of the last step that has one
  std::optional<best_evaluation> last;  // the last evaluation
  std::optional<best_evaluation> best;
};
expected<run_values, record_error> read_run_values(const std::filesystem::path& metrics_file,
                                                   std::uint64_t until = std::numeric_limits<std::uint64_t>::max());

// A curve of a metric over the axis x; `smooth` is its exponential moving average.
struct metric_curve {
  run_curve raw, smooth;
  double weight = 0;  // of the average: 0 <= weight < 1; 0: `smooth` is empty
};

struct run_curves {
  std::array<metric_curve, metric_count> of;  // by metric; that of x is empty
  std::uint64_t rows = 0, damaged = 0;
  const metric_curve& operator[](metric m) const { return of[static_cast<std::size_t>(m)]; }
};

struct curve_options {
  metric x = metric::step;  // step, epoch or time (seconds since the first line)
  // Weight of the moving average of all metrics but lr, as TensorBoard's slider; -1: chosen so that
  // it averages over about a hundredth of the steps, for loss and examples_per_s.
  double smooth = -1;
};

// Reads metrics.csv of a run that has ended or is running.
expected<run_curves, record_error> read_run_curves(const std::filesystem::path& metrics_file, const curve_options& o = {});

}  // namespace troupe
