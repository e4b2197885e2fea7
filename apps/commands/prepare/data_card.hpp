// What a data source holds: counts, classes, the distribution of its values, and a hash.
// Errors: an example that cannot be read is an error with the source's text.
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/data/inputs.hpp"
#include "runtime/data/source.hpp"

namespace troupe {

struct data_card {
  struct channel {                                        // a step of an example's outermost axis: a channel of images, a column
    double mean = 0, deviation = 0, least = 0, most = 0;  // of the finite values
  };
  struct part {
    std::int64_t examples = 0;
    std::vector<std::int64_t> of_class;  // labels of each class; empty: the source has none
    std::vector<channel> channels;       // at most `most_channels`, else one for all
    std::vector<channel> targets;        // of each target value, likewise; empty: the source has none
    std::int64_t not_finite = 0;         // values
    std::int64_t repeated = 0;           // examples that are equal to an earlier one of the split
    std::string sha256;                  // empty: no examples
  };
  static constexpr std::int64_t most_channels = 16;

  shape example, label;
  bool ids = false;
  std::int64_t vocabulary = 0;  // ids are below; 0: not known
  part train, test;
  std::int64_t shared = 0;  // test examples that are equal to a training example
};

// The sums of finite values; means and deviations by Welford's recurrence, which does not cancel.
struct running_channel {
  double count = 0, mean = 0, squares = 0;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  void add(double v) {
    count += 1;
    const double before = v - mean;
    mean += before / count;
    squares += before * (v - mean);
    least = std::min(least, v), most = std::max(most, v);
  }
  data_card::channel result() const {
    return count == 0 ? data_card::channel{} : data_card::channel{mean, std::sqrt(squares / count), least, most};
  }
};

// `v` as people would write it: with four significant digits, and more if a unit of its deviation
// needs them. The error is at most a ten-thousandth of `unit`, or of `v`.
double rounded_to_unit(double v, double unit);

// Options of the source with which the training values of each channel (column) have mean 0 and
// deviation 1: value = number * scale - mean.
struct standard_scaling {
  const char *scale_key = "scale", *mean_key = "mean";
  bool list = false;  // the options are lists, one number for each channel
  std::vector<double> scale, mean;
};
// `specs`: of the source. `f`: its scaling as it is. nullopt: the source has no such options, or
// nothing is to be changed.
std::optional<standard_scaling> standard_scaling_of(const data_card& c, const option_specs& specs, const input_format& f);

// Reads every example once. Examples are compared and hashed as f32 values (i32 ids) and labels
// (f32 targets), so equal data has one hash whatever file it is in: sha256 is the hash of the
// examples' hashes in order.
expected<data_card> card_of(const source& s);

}  // namespace troupe
