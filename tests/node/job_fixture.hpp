// A small valid job as text with numbered lines, for tests of the readers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"
#include "runtime/node/config/job_file.hpp"

namespace troupe::job_test {

inline std::vector<std::string> sound_lines() {
  return {
      /*  1 */ "[job]",
      /*  2 */ "name = \"small\"",
      /*  3 */ "seed = 7",
      /*  4 */ "devices = [\"cpu:0\"]",
      /*  5 */ "[data]",
      /*  6 */ "source = \"synthetic\"",
      /*  7 */ "shape = [2, 8, 8]",
      /*  8 */ "batch = 8",
      /*  9 */ "[[layer]]",
      /* 10 */ "name = \"conv1\"",
      /* 11 */ "type = \"convolution\"",
      /* 12 */ "inputs = [\"data\"]",
      /* 13 */ "outputs = 4",
      /* 14 */ "kernel = 3",
      /* 15 */ "weight_filler = { kind = \"gaussian\", std = 0.1 }",
      /* 16 */ "[[layer]]",
      /* 17 */ "name = \"ip1\"",
      /* 18 */ "type = \"linear\"",
      /* 19 */ "inputs = [\"conv1\"]",
      /* 20 */ "outputs = 10",
      /* 21 */ "[[layer]]",
      /* 22 */ "name = \"loss\"",
      /* 23 */ "type = \"softmax_loss\"",
      /* 24 */ "inputs = [\"ip1\", \"label\"]",
      /* 25 */ "[train]",
      /* 26 */ "sampler = { kind = \"shuffle\" }",
      /* 27 */ "sync = { mode = \"bsp\" }",
      /* 28 */ "finish = { epochs = 1, patience = 99 }",
      /* 29 */ "[train.dynamics]",
      /* 30 */ "rule = \"momentum\"",
      /* 31 */ "lr = 0.01",
      /* 32 */ "momentum = 0.9",
      /* 33 */ "schedule = { kind = \"step\", every = 100, factor = 0.5 }",
      /* 34 */ "[eval]",
      /* 35 */ "every = 50",
      /* 36 */ "[pipeline]",
      /* 37 */ "packets = 4",
      /* 38 */ "[topology]",
      /* 39 */ "workers_per_group = 2",
  };
}

inline std::string text_of(const std::vector<std::string>& lines) {
  std::string s;
  for (const auto& l : lines) s += l + "\n";
  return s;
}

inline std::shared_ptr<const tables> all_tables() {
  static const auto all = std::make_shared<const tables>(stock_tables());
  return all;
}

inline std::vector<node_spec> local_node() {
  node_spec n;
  n.name = "local";
  return {n};
}

// The errors that `troupe train` would print: those of the file or, if it has none, those of the
// data and the model.
inline diagnostics mistakes_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto spec = parse_job(text, "job.toml", *all_tables(), overrides);
  if (!spec) return spec.error();
  auto job = prepare_job(*std::move(spec), all_tables(), local_node());
  if (!job) return job.error();
  return {};
}

inline std::string shown(const diagnostics& list) {
  std::string s;
  for (const auto& d : list) s += d.to_string() + "\n";
  return s;
}

}  // namespace troupe::job_test
