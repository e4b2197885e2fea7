// Times the algorithms of convolutions on this machine, and chooses those of a "measured" job. A
// pass of a geometry is timed once per machine and saved in a file, so that every later job there
// has the same choice.
//
// The file ($XDG_CACHE_HOME/troupe/convolutions.json, else ~/.cache/troupe/...) contains
// milliseconds by machine (processor, numerics id, compiler) and shape. It is replaced as a whole.
// If two processes write at the same time, one wins, and the times of the other are measured again
// when they are needed. A file that cannot be read is ignored, with a warning, and replaced.
// Errors: warnings; the file cannot make a job fail.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/convolutions.hpp"

namespace troupe {

constexpr std::size_t max_cache_bytes = std::size_t{4} << 20;

// Empty if neither variable is set.
std::string convolution_cache_file();
// Identifies the machine for which times are valid: equal texts, comparable times.
std::string machine_words(const device& d);

class convolution_cache {
 public:
  // With an empty `file`, nothing is read or saved.
  convolution_cache(std::string file, std::string machine);
  const conv_times* find(const conv_geometry& g, conv_pass p) const;
  void put(const conv_geometry& g, conv_pass p, conv_times t);
  bool changed() const { return changed_; }
  // Merges new times into the current contents of the file.
  void save();
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  expected<void> replace(const std::string& text) const;
  std::string file_, machine_;
  std::map<std::string, conv_times> mine_;  // by text of pass and shape
  std::vector<std::string> warnings_;
  bool changed_ = false;
};

// CPU milliseconds of this thread for one call of each algorithm that supports `g`, in f32. Large
// batches are timed with a part of their images.
conv_times time_convolution(device& d, const conv_geometry& g, conv_pass p);

struct timed_pass {
  conv_task task;
  conv_times ms;
};
struct resolved_convolutions {
  std::shared_ptr<prepared_job> job;  // with the choice
  conv_table chosen;                  // empty: no choice was open
  std::vector<timed_pass> times;      // the times for the choice
  std::vector<std::string> warnings;
};

// Makes the choices that the job leaves to measuring, and measures times that are not saved:
// seconds, once. Call it before roles are made and before the job is changed, because it may return
// another job. Errors: only those of prepare_job.
expected<resolved_convolutions, diagnostics> resolve_convolutions(const std::shared_ptr<prepared_job>& j, device& d,
                                                                  const std::string& cache_file = convolution_cache_file());

}  // namespace troupe
