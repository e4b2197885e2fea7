// The order in which a colour picture lies in an example [3, height, width]. It is part of what a
// net expects of its input: a picture that a user gives to a trained net gets the order of the
// examples that the net has seen.
#pragma once

#include <cstdint>

namespace troupe {

enum class channel_order : std::uint8_t {
  rgb,  // red, green, blue: PIL, torchvision, most data sets
  bgr   // blue, green, red: OpenCV and Caffe
};

inline constexpr const char* channel_order_names[] = {"rgb", "bgr"};
constexpr const char* name_of(channel_order o) { return channel_order_names[static_cast<int>(o)]; }

}  // namespace troupe
