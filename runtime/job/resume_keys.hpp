// Which keys of a job file may differ between the job that wrote a checkpoint and the job that goes on from it: one row a key. A checkpoint
// holds the values of the keys that must be equal (checkpoint::made_with). Values that a file does not hold are not compared: it was written
// before they were kept.
// Errors: values.  Threads: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/job/job.hpp"
#include "runtime/record/checkpoint.hpp"

namespace troupe {

enum class on_resume : std::uint8_t {
  refused,    // with another value, steps, epochs or tensors have another meaning
  same_bits,  // with another value, the weights are not those of an unbroken run: refused unless train.deterministic = false
  allowed,
};

// Takes the values of one row, by name.
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
  // As in the job file: "data.batch". "data.*": the options of the row that the table chooses. A phrase: a fact of the job that no key says.
  std::string key;
  on_resume rule;
  void (*values)(const prepared_job&, const resume_values&) = nullptr;  // none: not compared, or a part of another row's value
};

const std::vector<resume_key>& resume_keys();

// What a checkpoint of this job holds.
metadata_map made_with(const prepared_job& j);

// Nothing: this job may go on from the checkpoint. Else the first key that it may not have this value of, with both values.
std::optional<record_error> check_made_with(const prepared_job& j, const checkpoint& c);

// "KEY is 1 in the checkpoint and 2 in the job: ...", with what to do.
record_error other_value(const std::string& key, on_resume rule, const std::string& theirs, const std::string& ours);

}  // namespace troupe
