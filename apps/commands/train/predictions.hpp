// Writes predictions as CSV or as JSON lines, to stdout or to a file.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/output.hpp"
#include "runtime/base/result.hpp"
#include "runtime/plain/predictor.hpp"

namespace troupe {

struct prediction_format {
  bool all = false;          // every output
  std::int64_t top = 1;      // most probable classes
  bool labelled = false;     // there is a column for the label
  std::int64_t targets = 0;  // columns of target values
  std::string file;          // empty: stdout
};

// size: the format, the file, and the sums over what was written
class prediction_writer {
 public:
  prediction_writer(const output& out, const predictor& p, std::vector<std::string> class_names, prediction_format f);
  ~prediction_writer();  // removes the unfinished file
  prediction_writer(const prediction_writer&) = delete;
  prediction_writer& operator=(const prediction_writer&) = delete;

  // Opens the file and writes the header line. The error does not name the file.
  expected<void> begin();
  // The predictions of examples first, first + 1, ... `input`: what a row names them by.
  expected<void> add(const std::vector<std::string>& inputs, const std::vector<std::int64_t>& indices, const predictor::result& r);
  expected<void> end();  // the file gets its name

  std::int64_t examples() const { return examples_; }
  std::optional<double> accuracy() const;       // over the answers with a label
  std::optional<double> squared_error() const;  // mean over all outputs with a target

 private:
  struct row;
  std::string header() const;
  std::string csv_line(const row& r) const;
  void append(const row& r);
  std::string name_of_label(const row& r) const;
  void take_targets(row& r, const double* targets);
  row row_of(const double* values) const;
  expected<void> put(const std::string& text);

  const output& out_;
  answer meaning_;
  std::int64_t positions_ = 1, width_ = 1, classes_ = 0;  // classes: 2 for a single score; 0: numbers
  std::vector<std::string> names_;                        // of the classes of the output; empty: none
  std::vector<std::string> label_names_;                  // of the classes of the data, whatever the output is
  prediction_format format_;
  std::string text_;  // not yet written
  std::ofstream file_;
  std::string path_, temporary_;
  std::int64_t examples_ = 0, hits_ = 0, labelled_ = 0, compared_ = 0;
  double squares_ = 0;
};

}  // namespace troupe
