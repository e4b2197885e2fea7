// The events of one job as TensorBoard shows them:
//
//   tag                                   kind        from
//   train/loss, train/lr,                 scalar      event "step"
//   train/examples_per_s, train/skipped
//   test/accuracy, test/loss, test/NAME   scalar      event "eval", every metric
//   weights/PARAMETER                     histogram   event "histogram"
//   gradients/PARAMETER                   histogram   event "histogram" of a gradient
//   filters/PARAMETER                     image       weights(): the filters of the first layer
//
//   auto opened = tensorboard_log::open(run_folder / "tensorboard", now);
//   auto& log = *opened;
//   log.event(e, now);                    // every event of the job; others are ignored
//   log.weights(s.step, now, s.named);    // e.g. every store "best" and "weights"
//   if (auto bad = log.flush()) ...       // about once a second, and at the end
//
// `now`: seconds since 1970. A job that continues opens the folder again and writes a new file,
// which begins with restart().
// Errors: as in event_file.hpp. Threads: one at a time (the recorder's).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "runtime/base/result.hpp"
#include "runtime/node/tensorboard/event_file.hpp"
#include "runtime/role.hpp"

namespace troupe {

class tensorboard_log {
 public:
  static expected<tensorboard_log, record_error> open(const std::filesystem::path& folder, double wall_time);

  // Steps from this one on are repeated: what earlier records say about them is forgotten.
  void restart(std::uint64_t step, double wall_time) { file_.restart(step, wall_time); }
  void event(const event_effect& e, double wall_time);
  // `named`: weights in layer order, in host memory. Shows the first of rank 4 if it has 1 or 3
  // input channels; otherwise nothing.
  void weights(std::uint64_t step, double wall_time, const named_tensors& named);
  expected<void, record_error> flush() { return file_.flush(); }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  explicit tensorboard_log(event_file f) : file_(std::move(f)) {}

  event_file file_;
};

// The filters of a convolution [outputs, 1 or 3, height, width] as one image: a grid, almost
// square, with borders of one pixel, enlarged to about 32 pixels a filter. The smallest value of
// all filters is black, the largest white. At most 256 filters are shown. Nullopt: `weight` has
// another shape or no values in host memory.
std::optional<summary_image> filter_image(const tensor& weight);

}  // namespace troupe
