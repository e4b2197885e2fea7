// Augmentation of images [channels, height, width], between their source and the net:
//   training:  random colours, rotation, zoom, shear and shift (augment_image.hpp); then zeros on
//              each side (pad), a window of the net's size at a random position (crop), mirrored
//              with probability 1/2; then a random rectangle is erased
//   test:      the centred window, never mirrored
//   always:    value = value * scale[channel] - mean[channel]; the zeros of the border are added
//              after that
// (Krizhevsky et al. 2012, section 4.1; He et al. 2016, section 4.2; erasing: Zhong et al. 2020.)
//
// Invariant: the result is a pure function of the example and (job seed, step, position in the
// global batch). Packets, workers, samplers, the reading node, restarts and resuming do not change
// it. It is applied where examples are read, so a role that reads for others sends augmented
// examples.
// Errors: the constructor throws option_error (key names the option). Threading: const, no state.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/options.hpp"
#include "ops/tensor.hpp"
#include "runtime/data/augment_image.hpp"

namespace troupe {

class augmentation {
 public:
  static option_specs specs();  // of the table [data] augment

  // `o`: checked against specs(). `example`: shape of the source's examples. `ids`: they are ids
  // and not values. `bytes`: the source's scaling of bytes, which changes of colours need; `order`:
  // of its colours.
  augmentation(const options& o, const shape& example, bool ids, std::uint64_t seed,
               std::optional<byte_scaling> bytes = std::nullopt, channel_order order = channel_order::rgb);

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

  // The other changes of a training example. They are drawn apart from drawn(), so that options
  // without them give the images of earlier versions.
  struct change {
    image_motion motion;
    image_colours colours;
    image_rectangle erased;  // of the result; empty: none
  };
  change changed(std::uint64_t step, std::int64_t place) const;

 private:
  template <class T>
  void write(const draw& d, const T* in, T* out) const;
  // Reads the options of changed(). Throws option_error.
  void read_changes(const options& o);
  template <class T>
  void train(std::uint64_t step, std::int64_t first, const std::vector<std::int64_t>& indices, const tensor& raw,
             tensor& data) const;
  template <class T, class Draw>
  void all(const std::vector<std::int64_t>& indices, const tensor& raw, tensor& data, const Draw& draw_of) const;

  std::uint64_t key_ = 0;
  shape in_, out_;
  std::int64_t pad_ = 0;
  bool mirror_ = false;
  bool plain_ = true;  // scale is 1 and mean is 0
  std::vector<double> scale_, mean_;
  std::optional<byte_scaling> bytes_;
  channel_order order_;
  bool changes_ = false;  // some of most_ are not 0
  // Of changed(): how far each may go.
  struct ranges {
    double rotate = 0, zoom = 0, shear = 0, translate = 0, brightness = 0, contrast = 0, saturation = 0, hue = 0, erase = 0;
  } most_;
};

}  // namespace troupe
