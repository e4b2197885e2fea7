// Prints the progress of a run: as JSON events; on a terminal as a bar, redrawn at most ten times a
// second; otherwise as plain lines, about one a second and one for each evaluation.
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

// Properties of the job that the bar shows.
struct run_extent {
  std::uint64_t first_step = 0;
  std::uint64_t last_step = 0;        // 0: unknown
  std::uint64_t steps_per_epoch = 0;  // 0: unknown, epochs are not shown
  std::int64_t batch = 0;
};

using event_texts = std::vector<std::pair<std::string, std::string>>;

// Detects a loss that did not fall. With a learning rate that is far too high, a run can end
// normally and with finite losses although it has learned nothing.
class loss_trend {
 public:
  void add(std::uint64_t step, double loss);
  // A warning if the mean loss of the last steps is far above the first step's loss; otherwise
  // empty.
  std::string warning() const;

 private:
  std::uint64_t first_step_ = 0;
  std::optional<double> first_;
  std::deque<double> last_;  // losses of the last steps, without the first step
};

class progress {
 public:
  progress(const output& out, run_extent e);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  // `texts`: values of the event that are texts ("file", "weights_sha256").
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
  bool has_rate_ = false;  // rate_ covers a whole window, not just the first few steps
  std::uint64_t step_ = 0, marked_step_ = 0;
  loss_trend trend_;
  double loss_ = 0, rate_ = 0;  // rate_: examples per second, over about the last second
  clock::time_point shown_{}, marked_{};
};

}  // namespace troupe
