// How a run is told while it runs: JSON events; a bar on a terminal, redrawn at most ten times a
// second; else plain lines, about one a second and every evaluation.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/troupe_output.hpp"
#include "runtime/role.hpp"

namespace troupe {

// What the bar needs to know of the job.
struct run_extent {
  std::uint64_t first_step = 0;
  std::uint64_t last_step = 0;        // 0: unknown
  std::uint64_t steps_per_epoch = 0;  // 0: unknown, no epochs are shown
  std::int64_t batch = 0;
};

using event_texts = std::vector<std::pair<std::string, std::string>>;

// Where the loss began, and where it ends. A rate that is far too high leaves finite losses and
// weights that know nothing, and a run that ends like any other.
class loss_trend {
 public:
  void add(std::uint64_t step, double loss);
  // What there is to say at the end: the mean of the last steps is far above the first step's loss.
  // Empty: nothing.
  std::string warning() const;

 private:
  std::uint64_t first_step_ = 0;
  std::optional<double> first_;
  std::deque<double> last_;  // without the first
};

class progress {
 public:
  progress(const output& out, run_extent e);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  // `texts`: values of the event that are words ("file", "weights_sha256").
  void event(const event_effect& e, const event_texts& texts = {});

 private:
  using clock = std::chrono::steady_clock;

  void json(const event_effect& e, const event_texts& texts) const;
  void show(const event_effect& e, const event_texts& texts);
  void step(const event_effect& e);
  void measure(const event_effect& e, clock::time_point now);
  void line(const std::string& text);
  void draw();
  void erase();
  std::string numbers() const;
  std::string eta() const;

  const output& out_;
  run_extent extent_;
  bool terminal_ = false;
  bool drawn_ = false;
  bool has_rate_ = false;  // rate_ is of a whole window, and not of the first few steps
  std::uint64_t step_ = 0, marked_step_ = 0;
  loss_trend trend_;
  double loss_ = 0, rate_ = 0;  // examples a second, over the last second or so
  clock::time_point shown_{}, marked_{};
};

}  // namespace troupe
