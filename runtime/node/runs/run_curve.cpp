#include "runtime/node/runs/run_curve.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_line_bytes = 4096, most_columns = 64;
constexpr std::size_t most_buckets = 512;  // even: pairs are merged
constexpr double absent = std::numeric_limits<double>::quiet_NaN();

// Calls take(index, field) for the fields of a line; returns their number.
template <class Take>
std::size_t split_fields(std::string_view line, const Take& take) {
  std::size_t fields = 0;
  for (;;) {
    const auto comma = line.find(',');
    take(fields++, line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

// Returns false if the field is neither empty nor a number.
bool read_field(std::string_view field, double& value) {
  value = absent;
  if (field.empty()) return true;
  double read = 0;
  const auto r = std::from_chars(field.data(), field.data() + field.size(), read);
  if (r.ptr != field.data() + field.size() || (r.ec != std::errc{} && r.ec != std::errc::result_out_of_range)) return false;
  if (r.ec == std::errc{} && std::isfinite(read)) value = read;
  return true;
}

double value_of(const metric_row& row, metric m) { return row[static_cast<std::size_t>(m)]; }

// Weight of an exponential moving average that spans a hundredth of `count` values.
double automatic_weight(metric m, std::uint64_t count) {
  const double span = static_cast<double>(count) / 100;
  return (m == metric::loss || m == metric::examples_per_s) && span > 1 ? 1 - 2 / (span + 1) : 0;
}

// An exponential moving average without the bias of its start at 0.
class moving_average {
 public:
  double add(double value, double weight) {
    sum_ = weight * sum_ + (1 - weight) * value;
    total_ = weight * total_ + (1 - weight);
    return sum_ / total_;
  }

 private:
  double sum_ = 0, total_ = 0;
};

// Feeds a file to a parser.
expected<void> feed_file(const fs::path& file, metrics_parser& parser) {
  std::error_code ec;
  if (!fs::is_regular_file(file, ec))
    return unexpected(error(ec || !fs::exists(file, ec) ? "there is no such file" : "it is not a regular file"));
  std::ifstream in(file, std::ios::binary);
  if (!in) return unexpected(error("it cannot be read"));
  std::vector<char> buffer(1u << 16);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), in.gcount() > 0)
    parser.feed({buffer.data(), static_cast<std::size_t>(in.gcount())});
  if (in.bad()) return unexpected(error("reading it failed"));
  if (!parser.problem().empty()) return unexpected(error(parser.problem()));
  return {};
}

class curve_builder {
 public:
  explicit curve_builder(const curve_options& o) : options_(o) {}

  run_curves curves;

  void weigh(const std::array<std::uint64_t, metric_count>& counts) {
    for (std::size_t i = 0; i < metric_count; ++i) {
      const auto m = static_cast<metric>(i);
      curves.of[i].weight = options_.smooth < 0 ? automatic_weight(m, counts[i]) : m == metric::lr ? 0 : options_.smooth;
    }
  }

  void take(const metric_row& row) {
    const double step = value_of(row, metric::step);
    double x = value_of(row, options_.x);
    if (std::isnan(x)) return;
    if (options_.x == metric::time) {
      if (std::isnan(start_)) start_ = x;
      x -= start_;
    }
    for (std::size_t i = static_cast<std::size_t>(metric::loss); i < metric_count; ++i) {
      if (std::isnan(row[i])) continue;
      auto& c = curves.of[i];
      c.raw.add(step, x, row[i]);
      if (c.weight > 0) c.smooth.add(step, x, averages_[i].add(row[i], c.weight));
    }
  }

 private:
  curve_options options_;
  std::array<moving_average, metric_count> averages_;
  double start_ = absent;
};

}  // namespace

void metrics_parser::feed(std::string_view text) {
  while (!text.empty() && problem_.empty()) {
    const auto end = text.find('\n');
    const auto piece = text.substr(0, end);
    if (rest_.size() + piece.size() > most_line_bytes) too_long_ = true;
    if (!too_long_) rest_.append(piece);
    if (end == std::string_view::npos) return;
    take_line(rest_);
    rest_.clear();
    too_long_ = false;
    text.remove_prefix(end + 1);
  }
}

void metrics_parser::take_header(std::string_view line) {
  std::vector<int> columns;
  bool step = false;
  const auto take = [&](std::size_t i, std::string_view name) {
    if (i >= most_columns) return;
    const auto at = std::find(metric_names.begin(), metric_names.end(), name);
    columns.push_back(at == metric_names.end() ? -1 : static_cast<int>(at - metric_names.begin()));
    step = step || columns.back() == static_cast<int>(metric::step);
  };
  const auto fields = too_long_ ? 0 : split_fields(line, take);
  if (!step || fields > most_columns)
    problem_ = "its first line " + in_quotes(line) + " is not the header of metrics.csv, e.g. step,epoch,time,loss";
  else
    columns_ = std::move(columns);
}

void metrics_parser::take_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (columns_.empty()) return take_header(line);
  metric_row row;
  row.fill(absent);
  bool sound = !too_long_;
  const auto take = [&](std::size_t i, std::string_view field) {
    double value = absent;
    if (!sound || i >= columns_.size() || !read_field(field, value))
      sound = false;
    else if (columns_[i] >= 0)
      row[static_cast<std::size_t>(columns_[i])] = value;
  };
  if (!sound || split_fields(line, take) != columns_.size() || !sound || !(value_of(row, metric::step) >= 0)) {
    ++damaged_;
    return;
  }
  ++rows_;
  take_(row);
}

void run_curve::bucket::include(const bucket& later) {
  if (later.low.y < low.y) low = later.low;
  if (later.high.y > high.y) high = later.high;
  last = later.last;
  count += later.count;
  sum += later.sum;
}

void run_curve::add(double step, double x, double y) {
  if (!empty() && step <= buckets_.back().last.step) remove_from(step);
  const stepped_point p{step, x, y};
  const bucket one{p, p, p, p, 1, y};
  if (!empty() && buckets_.back().count < width_) return buckets_.back().include(one);
  if (buckets_.size() == most_buckets) {
    for (std::size_t i = 0; i < most_buckets / 2; ++i) {
      auto pair = buckets_[2 * i];
      pair.include(buckets_[2 * i + 1]);
      buckets_[i] = pair;
    }
    buckets_.resize(most_buckets / 2);
    width_ *= 2;
  }
  buckets_.push_back(one);
}

// Of a bucket that is cut, those of its points remain that it still knows.
void run_curve::remove_from(double step) {
  while (!empty() && buckets_.back().first.step >= step) buckets_.pop_back();
  if (empty() || buckets_.back().last.step < step) return;
  const auto cut = buckets_.back();
  auto& b = buckets_.back();
  b = {cut.first, cut.first, cut.first, cut.first, 1, cut.first.y};
  auto inner = cut.low.step < cut.high.step ? std::array{cut.low, cut.high} : std::array{cut.high, cut.low};
  for (const auto& p : inner)
    if (p.step > b.last.step && p.step < step) b.include({p, p, p, p, 1, p.y});
}

std::vector<curve_point> run_curve::points() const {
  std::vector<curve_point> all;
  double newest = -1;
  const auto add_point = [&](const stepped_point& p) {
    if (p.step > newest) all.push_back({p.x, p.y});
    newest = std::max(newest, p.step);
  };
  for (const auto& b : buckets_) {
    add_point(b.first);
    add_point(b.low.step < b.high.step ? b.low : b.high);
    add_point(b.low.step < b.high.step ? b.high : b.low);
    add_point(b.last);
  }
  return all;
}

std::vector<curve_band> run_curve::bands() const {
  std::vector<curve_band> all;
  for (const auto& b : buckets_)
    all.push_back({b.first.x / 2 + b.last.x / 2, b.sum / static_cast<double>(b.count), b.low.y, b.high.y});
  return all;
}

std::uint64_t run_curve::count() const {
  std::uint64_t sum = 0;
  for (const auto& b : buckets_) sum += b.count;
  return sum;
}
double run_curve::lowest() const {
  double low = absent;
  for (const auto& b : buckets_) low = std::fmin(low, b.low.y);
  return low;
}
double run_curve::highest() const {
  double high = absent;
  for (const auto& b : buckets_) high = std::fmax(high, b.high.y);
  return high;
}

expected<void, record_error> read_metrics(const fs::path& metrics_file, metrics_parser& parser) {
  return feed_file(metrics_file, parser).transform_error([&](const error& e) {
    return record_error{metrics_file.string(), {}, e.text};
  });
}

expected<run_values, record_error> read_run_values(const fs::path& metrics_file, std::uint64_t until) {
  run_values v;
  best_so_far best;
  metrics_parser parser([&](const metric_row& row) {
    const auto loss = value_of(row, metric::loss), accuracy = value_of(row, metric::accuracy);
    const auto test_loss = value_of(row, metric::test_loss);
    const auto step = value_of(row, metric::step);
    if (step > static_cast<double>(until)) return;
    if (!std::isnan(loss)) v.loss = loss;
    if ((std::isnan(accuracy) && std::isnan(test_loss)) || !(step < 0x1p63)) return;  // no step is as large
    v.last =
        best_evaluation{static_cast<std::uint64_t>(step), std::isnan(accuracy) ? std::nullopt : std::optional(accuracy), test_loss};
    best.note(*v.last);
  });
  if (auto ok = read_metrics(metrics_file, parser); !ok) return unexpected(std::move(ok).error());
  v.best = best.best();
  return v;
}

expected<run_curves, record_error> read_run_curves(const fs::path& metrics_file, const curve_options& o) {
  std::array<std::uint64_t, metric_count> counts{};
  if (o.smooth < 0) {
    metrics_parser counter([&counts](const metric_row& row) {
      for (std::size_t i = 0; i < metric_count; ++i) counts[i] += std::isnan(row[i]) ? 0 : 1;
    });
    if (auto ok = read_metrics(metrics_file, counter); !ok) return unexpected(std::move(ok).error());
  }
  curve_builder builder(o);
  builder.weigh(counts);
  metrics_parser parser([&builder](const metric_row& row) { builder.take(row); });
  if (auto ok = read_metrics(metrics_file, parser); !ok) return unexpected(std::move(ok).error());
  builder.curves.rows = parser.rows();
  builder.curves.damaged = parser.damaged();
  return std::move(builder.curves);
}

}  // namespace troupe
