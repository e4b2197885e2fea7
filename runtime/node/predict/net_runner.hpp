// Runs a net on batches of examples, with several threads: each computes a part of the batch.
// Equal calls give equal bits. Another number of threads or of examples may change the rounding of
// an output, because OpenBLAS chooses its kernels by the size of a matrix.
//
//   auto net = net_runner::make(job, {}, 2);
//   (*net)->run(examples, 64, scores);
//
// Errors: values. Threads: run() may be called by several threads, which wait for each other.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/data/source.hpp"
#include "runtime/job/job.hpp"
#include "runtime/plain/predictor.hpp"

namespace troupe {

class net_runner {
 public:
  // `j`: with its weights. `layer`: as in predictor::make. `threads`: with the caller's; at least
  // 1.
  static expected<std::unique_ptr<net_runner>, diagnostic> make(std::shared_ptr<const prepared_job> j, const std::string& layer,
                                                                unsigned threads);
  ~net_runner();
  net_runner(const net_runner&) = delete;
  net_runner& operator=(const net_runner&) = delete;

  answer meaning() const;
  std::int64_t classes() const;
  shape example() const;           // of an input
  std::int64_t positions() const;  // answers for each example
  std::int64_t width() const;      // values of each answer

  // Computes `n` examples: values as the job's source delivers them, one example after the other.
  // `out`: [n][positions][width].
  expected<void> run(const float* examples, std::int64_t n, float* out);
  // The same for bytes, which are scaled as in training. An error if the source of the job does not
  // say how.
  expected<void> run(const std::uint8_t* examples, std::int64_t n, float* out);

 private:
  struct impl;
  explicit net_runner(std::unique_ptr<impl> i);
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
