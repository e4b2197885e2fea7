// Prints the progress of a run. As JSON: its events. On a terminal: one line, redrawn at most ten
// times a second and fitted to the width, with evaluations and checkpoints as lines above it.
// Otherwise: plain lines for evaluations and checkpoints, and for the progress about one a second
// in the first minute and then one per 2 % of the time so far. After "done" come the summary of the
// run and the commands to go on with.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/cli/output.hpp"
#include "apps/cli/screen.hpp"
#include "apps/commands/train/summary.hpp"
#include "runtime/job/job_head.hpp"
#include "runtime/role.hpp"

namespace troupe {

// Properties of the job that the bar shows.
struct run_extent {
  std::uint64_t first_step = 0;
  std::uint64_t last_step = 0;        // 0: unknown
  std::uint64_t steps_per_epoch = 0;  // 0: unknown, epochs are not shown
  std::int64_t batch = 0;
  bool far = false;  // a job of a cluster: its events may come late and many at once, so they have the rate
};

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

// size: the state of the line, and the parts of which its numbers are made
class progress {
 public:
  progress(const output& out, run_extent e);
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  // Prints lines "label  text" about what runs; nothing with --json.
  void head(const std::vector<head_line>& lines);
  // `texts`: values of the event that are texts ("file", "weights_sha256").
  void event(const event_effect& e);
  // Sets what the summary shows beyond the events. To be called before the event "done".
  void end_with(run_ending e) { ending_ = std::move(e); }
  // The best evaluation of the run before this process continued it.
  void begin_with(const std::optional<best_evaluation>& best) { summary_.begin_with(best); }
  // Sets the extent, if it was not known at first. To be called before the first event.
  void extent(run_extent e);

 private:
  using clock = std::chrono::steady_clock;

  void show(const event_effect& e);
  void show_done(std::uint64_t step, const done_event& e);
  void step(std::uint64_t step, const step_event& e);
  void measure(const step_event& e, clock::time_point now);
  clock::duration pause(clock::time_point now) const;
  void line(const std::string& text);  // printable
  void remark(const std::string& text);
  void draw();
  void erase();
  std::string erasure();
  std::string numbers(std::size_t columns) const;
  std::string bar(std::size_t columns) const;
  std::string eta() const;

  const output& out_;
  run_extent extent_;
  screen screen_;
  std::size_t drawn_ = 0;  // columns of the line on the terminal; 0: there is none
  bool has_rate_ = false;  // rate_ covers a whole window, not just the first few steps
  std::uint64_t step_ = 0, marked_step_ = 0;
  std::uint64_t trained_ = 0;  // the last step whose loss is in loss_
  loss_trend trend_;
  run_summary summary_;
  run_ending ending_;
  double loss_ = 0, loss_weight_ = 0;  // exponential mean over about 20 steps, and the sum of its weights
  double rate_ = 0, lr_ = -1;          // examples per second, over about the last second; lr_ < 0: unknown
  clock::time_point begun_{}, shown_{}, marked_{};
};

}  // namespace troupe
