// Class numbers as sources read them from files: 0, 1, 2, ..., and labels that do not count in
// losses and metrics. Those are all negative ones (as -1 and -100 of other programs) and the one
// that the option `ignore_label` names; layers get -1 for them. Internal to sources.
// Errors: option_error.  Threads: one at a time while labels are read; then any.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "ops/option_specs.hpp"

namespace troupe {

class label_rule {
 public:
  // `most`: class numbers are below this.
  label_rule(const options& o, std::int64_t most) : ignored_(o.integer("ignore_label")), most_(most) {}

  bool ignores(std::int64_t v) const { return v < 0 || v == ignored_; }
  // The class number, or -1 for a label that does not count; nullopt: it is neither.
  std::optional<std::int32_t> of(double v) {
    if (!(std::fabs(v) <= 1e15) || v != std::floor(v)) return std::nullopt;
    const auto whole = static_cast<std::int64_t>(v);
    if (ignores(whole)) {
      met_ = true;
      negative_ = negative_ || (whole < 0 && whole != ignored_);
      return -1;
    }
    if (whole >= most_) return std::nullopt;
    zero_ = zero_ || whole == 0;
    return static_cast<std::int32_t>(whole);
  }
  bool has_ignored() const { return met_; }  // of() has met a label that does not count
  // Classes that are numbered -1 and 1 would lose half of the examples: the number of classes is
  // not inferred from labels that have negative ones and no 0. `where` begins the message.
  void check_zero(const std::string& key, const std::string& where) const {
    if (negative_ && !zero_)
      throw option_error(key, where +
                                  ": negative labels do not count, and no label is 0: number the classes from 0, or set classes "
                                  "if that is meant");
  }

 private:
  std::int64_t ignored_, most_;
  bool met_ = false, negative_ = false, zero_ = false;
};

inline option_spec ignore_label_option() {
  // The default is a label that no file has: with a usual one, such as -1, check_zero() would take
  // that label for one that the user has named.
  return bounded(option_of("ignore_label", option_kind::integer, std::int64_t{-2147483648},
                           "this label does not count in losses and metrics, as all negative ones; the default: only those"),
                 -2147483648.0, 2147483647.0);
}

}  // namespace troupe
