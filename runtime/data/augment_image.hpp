// Changes of one image [channels, height, width], for augmentation (augment.hpp): where its pixels
// are (rotation, zoom, shear, shift), their colours, and a rectangle that is erased. Arithmetic is
// in double; a change that is zero leaves the bits of the values.
// Threads: functions without state.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/data/channel_order.hpp"
#include "runtime/data/source.hpp"

namespace troupe {

// Around the centre of the image: shear, then zoom, then rotation, then shift.
struct image_motion {
  double degrees = 0;          // counterclockwise
  double zoom = 1;             // 2: twice as large
  double shear = 0;            // degrees; rows move to the right by tan(shear) for each row further down
  double right = 0, down = 0;  // pixels
  bool moves() const { return degrees != 0 || zoom != 1 || shear != 0 || right != 0 || down != 0; }
};

// Bilinear; outside of the image are zeros. `in` and `out` are different memory.
template <class T>
void move_image(const image_motion& m, const shape& dims, const T* in, T* out);

// Factors of 1 and a hue of 0 change nothing. In this order, as in torchvision's functions:
struct image_colours {
  double brightness = 1;  // of all values
  double contrast = 1;    // distance from the mean grey of the image
  double saturation = 1;  // distance from the grey of the pixel; three channels
  double hue = 0;         // -0.5 to 0.5 of the circle of hues; three channels
  bool changes() const { return brightness != 1 || contrast != 1 || saturation != 1 || hue != 0; }
};

// `image`: values = byte * scale - mean by channel; the change is made on bytes, which are limited
// to 0 to 255 and not rounded. `order`: of three channels.
template <class T>
void colour_image(const image_colours& c, const shape& dims, const byte_scaling& scaling, channel_order order, T* image);

struct image_rectangle {
  std::int64_t y = 0, x = 0, height = 0, width = 0;
};
// Sets the rectangle to zeros.
template <class T>
void erase_from_image(const image_rectangle& r, const shape& dims, T* image);

}  // namespace troupe
