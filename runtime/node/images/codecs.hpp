// Between decode.cpp and the two codecs, and how their errors come back. Both libraries report an
// error by calling a function that must not return; ours jumps. A jump over a C++ frame is defined
// only where it skips no destructor, hence the rules:
//   - `guarded` is the only function that calls setjmp; it has no locals, and nothing but a step
//     runs below it;
//   - a step is a plain function over a plain struct: what it owns lies in that struct or inside
//     the library;
//   - what has a destructor (the decoder, which destroys the library's object, and the pixels)
//     lives above `guarded`.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "runtime/node/images/decode.hpp"

namespace troupe::images {

template <class State>
bool guarded(State& s, void (*step)(State&)) {
  static_assert(std::is_trivially_destructible_v<State>);
  if (setjmp(s.stop) != 0) return false;
  step(s);
  return true;
}

// Empty when an image of this size may be decoded, else what is wrong.
std::string check_size(std::int64_t height, std::int64_t width, wanted_size want);

bool is_png(std::span<const std::uint8_t> file);
bool is_jpeg(std::span<const std::uint8_t> file);
using size_result = std::variant<image_size, std::string>;
size_result size_of_png(std::span<const std::uint8_t> file);  // from the header alone
size_result size_of_jpeg(std::span<const std::uint8_t> file);
image_result decode_png(std::span<const std::uint8_t> file, wanted_size want);   // 1 or 3 channels, as the file has them
image_result decode_jpeg(std::span<const std::uint8_t> file, wanted_size want);  // likewise

}  // namespace troupe::images
