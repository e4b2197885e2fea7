// Augmentation of images [channels, height, width], between their source and the net:
//   training:  zeros on each side (pad), a window of the net's size at a random position (crop),
//              mirrored with probability 1/2
//   test:      the centred window, never mirrored
//   always:    value = value * scale[channel] - mean[channel]; the zeros of the border are added
//              after that
// (Krizhevsky et al. 2012, section 4.1; He et al. 2016, section 4.2.)
//
// Invariant: the result is a pure function of the example and (job seed, step, position in the
// global batch). Packets, workers, samplers, the reading node, restarts and resuming do not change
// it. It is applied where examples are read, so a role that reads for others sends augmented
// examples.
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

  // `o`: checked against specs(). `example`: shape of the source's examples. `ids`: they are ids
  // and not values.
  augmentation(const options& o, const shape& example, bool ids, std::uint64_t seed);

  const shape& example_in() const { return in_; }
  const shape& example() const { return out_; }  // what the net sees

  // Augments `raw` [n, example_in()] to `data` [n, example()], both backed and of one type (f32 or
  // f64). Example i is number `first` + i of the global batch of `step`. If indices[i] < 0, it is
  // padding and becomes zeros.
  void training(std::uint64_t step, std::int64_t first, const std::vector<std::int64_t>& indices, const tensor& raw,
                tensor& data) const;
  void test(const std::vector<std::int64_t>& indices, const tensor& raw, tensor& data) const;

  // Position of the window in the bordered image, and whether it is mirrored: drawn() for a
  // training example, middle() otherwise.
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
  bool plain_ = true;  // scale is 1 and mean is 0
  std::vector<double> scale_, mean_;
};

}  // namespace troupe
