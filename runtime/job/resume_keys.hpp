// The table of keys that may, or may not, differ between the job that wrote a checkpoint and the
// job that resumes from it: one entry for each key of a job file. A checkpoint stores the values
// that must be equal (checkpoint::made_with). A value that the file does not have is not compared,
// because older versions did not store it.
// Errors: values.  Threads: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {

enum class on_resume : std::uint8_t {
  refused,    // another value changes the meaning of steps, epochs or tensors
  same_bits,  // another value gives other weights than an uninterrupted run: refused unless train.deterministic = false
  allowed,
};

// Collects the values of one entry, by name.
class resume_values {
 public:
  resume_values(const std::string& key, metadata_map& into) : key_(key), into_(into) {}
  void is(std::string text) const { into_[key_] = std::move(text); }
  void also(const std::string& name, std::string text) const { into_[name] = std::move(text); }

 private:
  const std::string& key_;
  metadata_map& into_;
};

struct resume_key {
  // As in the job file, e.g. "data.batch". "data.*": the options of the type that the table chooses
  // (a source, a layer). With spaces: a property of the job that is not a key.
  std::string key;
  on_resume rule;
  void (*values)(const prepared_job&, const resume_values&) = nullptr;  // nullptr: not compared, or compared by another entry
};

const std::vector<resume_key>& resume_keys();

// Returns the values that a checkpoint of this job stores.
metadata_map made_with(const prepared_job& j);

// An error if this job may not resume from the checkpoint: the first key that differs and must not,
// and both values.
expected<void, record_error> check_made_with(const prepared_job& j, const checkpoint& c);

// Returns the error "KEY is 1 in the checkpoint and 2 in the job: ...", with what to do.
record_error other_value(const std::string& key, on_resume rule, const std::string& theirs, const std::string& ours);

}  // namespace troupe
