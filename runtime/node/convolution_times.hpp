// How long the algorithms of a convolution take on this machine, and what a "measured" job makes of
// that. A pass of a geometry is timed once per machine and remembered in a file, so that every
// later job there has the same choice.
//
// The file ($XDG_CACHE_HOME/troupe/convolutions.json, else ~/.cache/troupe/...) holds milliseconds
// by machine (processor, numerics id, compiler) and shape. It is replaced as a whole; of two
// processes that write at the same time one wins, and the other's figures are taken again some day.
// A file that cannot be read as one is left out of account, with a warning, and replaced.
// Errors: warnings; nothing about the file can make a job fail.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "runtime/job/convolutions.hpp"

namespace troupe {

constexpr std::size_t max_cache_bytes = std::size_t{4} << 20;

// Empty: neither variable says where.
std::string convolution_cache_file();
// What figures are good for: equal words, equal figures (but for the room's temperature).
std::string machine_words(const device& d);

class convolution_cache {
 public:
  // `file` empty: nothing is read or remembered.
  convolution_cache(std::string file, std::string machine);
  const conv_times* find(const conv_geometry& g, conv_pass p) const;
  void put(const conv_geometry& g, conv_pass p, conv_times t);
  bool changed() const { return changed_; }
  // Adds what is new to the file as it is now.
  void save();
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::string replace(const std::string& text) const;
  std::string file_, machine_;
  std::map<std::string, conv_times> mine_;  // by words of pass and shape
  std::vector<std::string> warnings_;
  bool changed_ = false;
};

// Milliseconds of this thread for one call of each algorithm that can, in f32. Large batches are
// timed by a part of their images.
conv_times time_convolution(device& d, const conv_geometry& g, conv_pass p);

struct timed_pass {
  conv_task task;
  conv_times ms;
};
struct resolved_convolutions {
  std::shared_ptr<prepared_job> job;  // with the choice
  conv_table chosen;                  // empty: nothing was open
  std::vector<timed_pass> times;      // what it was chosen by
  std::vector<std::string> warnings;
};

// Chooses what the job leaves to measuring, and takes the times that are not remembered: seconds,
// once. Call it before roles are made, and before anything is put into the job: it may come back as
// another. Errors: none but those of prepare_job.
std::variant<resolved_convolutions, diagnostics> resolve_convolutions(const std::shared_ptr<prepared_job>& j, device& d,
                                                                      const std::string& cache_file = convolution_cache_file());

}  // namespace troupe
