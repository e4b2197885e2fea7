// Collects examples of several clients and computes them together: a pass begins when `most`
// examples wait, or `deadline` after the first of them came. A pass of many examples costs less for
// each; the deadline bounds what a client waits for others. Outputs do not depend on the batch.
// Threads: submit() may be called by any thread; `done` is called on the batcher's. Errors: values.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/predict/net_runner.hpp"

namespace troupe {

struct batcher_options {
  std::int64_t most = 64;                                   // examples of a pass; a larger request is a pass of its own
  std::chrono::microseconds deadline{2000};                 // 0: a pass begins at once, with what waits
  std::int64_t most_waiting = 4096;                         // examples; more are refused
  std::size_t most_waiting_bytes = std::size_t{256} << 20;  // of waiting examples; at least `most` may wait
};

struct batcher_counts {
  std::uint64_t requests = 0, examples = 0, passes = 0, refused = 0;
};

// The examples that may wait, each of `example_bytes`; a request of more is refused.
std::int64_t most_waiting_examples(const batcher_options& o, std::size_t example_bytes);

class batcher {
 public:
  using outputs = expected<std::vector<float>>;
  using done = std::function<void(outputs&&)>;

  // `net` must outlive the object.
  batcher(net_runner& net, batcher_options o);
  ~batcher();  // requests that wait fail
  batcher(const batcher&) = delete;
  batcher& operator=(const batcher&) = delete;

  // Computes `n` examples, as net_runner::run(float). Returns false, without calling `d`, if too
  // many wait.
  bool submit(std::vector<float> examples, std::int64_t n, done d);
  batcher_counts counts() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
