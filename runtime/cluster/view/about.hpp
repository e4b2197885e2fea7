// What the REPL knows of a job in addition to its progress: its size, its layers, and the modes
// that it may be switched to, including those of plugins.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/job/job.hpp"

namespace troupe {

struct repl_parameter {
  std::string name;   // "conv1.weight"
  std::string shape;  // "20x1x5x5"
  std::int64_t count = 0;
  double lr = 1, decay = 1;  // multipliers
  bool trainable = true;
};

struct repl_layer {
  std::string name, type;
  std::vector<std::string> inputs;
  std::vector<std::string> in, out;  // shapes of one packet
  std::vector<repl_parameter> parameters;
  bool in_train = true, in_test = true;
};

struct repl_mode {
  std::string name;
  std::vector<std::string> options;
};

struct repl_about {
  std::vector<repl_layer> layers;
  std::vector<repl_mode> modes;
  // Of the job file and the first plan.
  std::string mode = {};  // with its options
  std::uint64_t workers = 0, batch = 0, steps_per_epoch = 0, first_step = 0;
  double lr = 0, decay = 0;  // base values, train.dynamics.*
  bool evaluates = true;     // there is test data
};

std::vector<repl_mode> repl_modes(const mode_registry& r);
repl_about about_job(const prepared_job& j);

}  // namespace troupe
