// Interface between decode.cpp and the two codecs, and their error handling. Both libraries report
// an error by calling a function that must not return; here it calls longjmp. A jump over a C++
// frame is defined only if it skips no destructor, hence the rules:
//   - `guarded` is the only function that calls setjmp. It has no locals, and only a step runs
//     below it.
//   - A step is a plain function on a plain struct: all that it owns is in that struct or inside
//     the library.
//   - Objects with destructors (the decoder, which destroys the library's object, and the pixels)
//     are above `guarded`.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "runtime/base/result.hpp"
#include "runtime/node/images/decode.hpp"

namespace troupe::images {

template <class State>
bool guarded(State& s, void (*step)(State&)) {
  static_assert(std::is_trivially_destructible_v<State>);
  if (setjmp(s.stop) != 0) return false;
  step(s);
  return true;
}

// An error if an image of this size may not be decoded.
expected<void> check_size(std::int64_t height, std::int64_t width, wanted_size want);

bool is_png(std::span<const std::uint8_t> file);
bool is_jpeg(std::span<const std::uint8_t> file);
using size_result = expected<image_size>;
size_result size_of_png(std::span<const std::uint8_t> file);  // reads the header only
size_result size_of_jpeg(std::span<const std::uint8_t> file);
image_result decode_png(std::span<const std::uint8_t> file, wanted_size want);   // 1 or 3 channels, as in the file
image_result decode_jpeg(std::span<const std::uint8_t> file, wanted_size want);  // 1 or 3 channels, as in the file

}  // namespace troupe::images
