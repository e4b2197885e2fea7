// What a data source holds: counts, classes, the distribution of its values, and a hash.
// Errors: an example that cannot be read is an error with the source's text.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/data/source.hpp"

namespace troupe {

struct data_card {
  struct channel {                                        // a step of an example's outermost axis
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

// Reads every example once. Examples are compared and hashed as f32 values (i32 ids) and labels
// (f32 targets), so equal data has one hash whatever file it is in: sha256 is the hash of the
// examples' hashes in order.
expected<data_card> card_of(const source& s);

}  // namespace troupe
