// Augmentation of images: what happens to an example [channels, height, width] between its source
// and the net.
//   training: zeros around it (pad), a window of the net's size at a random place (crop), its mirror image with probability 1/2
//   test:     the window in the middle, never mirrored
//   always:   value = value * scale[channel] - mean[channel]; the zeros of the border are put around what comes out of that
// (Krizhevsky et al. 2012, section 4.1; He et al. 2016, section 4.2.)
//
// Invariant: what an example becomes is a pure function of (job seed, step, place in the global
// batch): packets, workers, samplers, who reads it, restarts and resuming change nothing. It is
// applied in the job that reads, so whoever reads for others sends it ready.
// Errors: the constructor throws option_error (key names the option). Threading: const, no state.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/options.hpp"
#include "ops/tensor.hpp"

namespace troupe {

class augmentation {
 public:
  static option_specs specs();  // of the table [data] augment

  // `o`: checked against specs(); `example`: what the source yields, `ids`: whether as numbers of
  // words and not as values.
  augmentation(const options& o, const shape& example, bool ids, std::uint64_t seed);

  const shape& example_in() const { return in_; }
  const shape& example() const { return out_; }  // what the net sees

  // `raw` [n, example_in()] to `data` [n, example()], both backed, of one type (f32 or f64).
  // Example i is number `first` + i of the global batch of `step`; where indices[i] < 0 there is
  // none, and it becomes zeros.
  void training(std::uint64_t step, std::int64_t first, const std::vector<std::int64_t>& indices, const tensor& raw,
                tensor& data) const;
  void test(const std::vector<std::int64_t>& indices, const tensor& raw, tensor& data) const;

  // Where the window lies in the image with its border, and whether it is mirrored: drawn() for one
  // training example, middle() for everything that is not training.
  struct draw {
    std::int64_t y = 0, x = 0;
    bool mirror = false;
  };
  draw drawn(std::uint64_t step, std::int64_t place) const;
  draw middle() const;

 private:
  template <class T>
  void write(const draw& d, const T* in, T* out) const;
  template <class T, class Draw>
  void all(const std::vector<std::int64_t>& indices, const tensor& raw, tensor& data, const Draw& draw_of) const;

  std::uint64_t key_ = 0;
  shape in_, out_;
  std::int64_t pad_ = 0;
  bool mirror_ = false;
  bool plain_ = true;  // neither scale nor mean
  std::vector<double> scale_, mean_;
};

}  // namespace troupe
