#include "runtime/data/augment.hpp"

#include <algorithm>
#include <cassert>
#include <string>

#include "ops/option_specs.hpp"
#include "runtime/data/random.hpp"

namespace troupe {
namespace {

constexpr std::uint64_t tag = 0x6175676d656e7430;  // separates these draws from those of samplers and sources
constexpr double max_side = 65535;

// `key`'s numbers by channel: one for all channels, or one for each; `otherwise` if the list is
// empty.
std::vector<double> per_channel(const options& o, const char* key, double otherwise, std::int64_t channels) {
  const auto& list = o.get<std::vector<double>>(key);
  const auto n = static_cast<std::size_t>(channels);
  if (list.empty()) return std::vector<double>(n, otherwise);
  if (list.size() == 1) return std::vector<double>(n, list[0]);
  if (list.size() != n)
    throw option_error(key, std::string(key) + " has " + std::to_string(list.size()) + " numbers, but the images have " +
                                std::to_string(n) + " channels");
  return list;
}

std::int64_t window(const options& o, const char* key, const char* other, std::int64_t side, std::int64_t pad, const char* name) {
  const auto crop = o.integer("crop"), one = o.integer(key);
  if (crop != 0 && one != 0)
    throw option_error(key, std::string("crop sets height and width already: give either crop, or ") + key + " and " + other);
  const auto wanted = crop != 0 ? crop : one;
  if (wanted > side + 2 * pad)
    throw option_error(crop != 0 ? "crop" : key, "a crop of " + std::to_string(wanted) + " is more than the images' " + name + " " +
                                                     std::to_string(side) +
                                                     (pad > 0 ? " with " + std::to_string(pad) + " zeros on each side" : ""));
  return wanted != 0 ? wanted : side;
}

}  // namespace

option_specs augmentation::specs() {
  using kind = option_kind;
  const option_value zero{std::int64_t{0}}, no_numbers{std::vector<double>{}};
  return {bounded(option_of("crop", kind::integer, zero,
                            "height and width that the net sees: at a random position in training, centred otherwise; 0: all"),
                  0, max_side),
          bounded(option_of("crop_height", kind::integer, zero, "instead of crop"), 0, max_side),
          bounded(option_of("crop_width", kind::integer, zero, "instead of crop"), 0, max_side),
          bounded(option_of("pad", kind::integer, zero, "zeros on each side, before the crop"), 0, max_side),
          flag_option("mirror", false, "in training, flips each image left to right with probability 1/2"),
          option_of("scale", kind::reals, no_numbers, "value = value * scale - mean, one number or one for each channel; none: 1"),
          option_of("mean", kind::reals, no_numbers, "subtracted after scaling, one number or one for each channel; none: 0")};
}

augmentation::augmentation(const options& o, const shape& example, bool ids, std::uint64_t seed)
    : key_(sub_key(seed, tag)), in_(example), pad_(o.integer("pad")), mirror_(o.flag("mirror")) {
  if (ids || example.rank() != 3)
    throw option_error("", "augment is for images [channels, height, width]; this source yields " + (ids ? "ids " : std::string()) +
                               example.to_string());
  if (pad_ > std::max(example[1], example[2]))
    throw option_error("pad", "pad " + std::to_string(pad_) + " is more than the images' height and width, " +
                                  std::to_string(example[1]) + " and " + std::to_string(example[2]));
  out_ = shape{example[0], window(o, "crop_height", "crop_width", example[1], pad_, "height"),
               window(o, "crop_width", "crop_height", example[2], pad_, "width")};
  scale_ = per_channel(o, "scale", 1.0, example[0]);
  mean_ = per_channel(o, "mean", 0.0, example[0]);
  plain_ = std::all_of(scale_.begin(), scale_.end(), [](double s) { return s == 1; }) &&
           std::all_of(mean_.begin(), mean_.end(), [](double m) { return m == 0; });
}

augmentation::draw augmentation::drawn(std::uint64_t step, std::int64_t place) const {
  counter_rng rng(sub_key(sub_key(key_, step), static_cast<std::uint64_t>(place)));
  draw d;
  d.y = static_cast<std::int64_t>(rng.draw_below(static_cast<std::uint64_t>(in_[1] + 2 * pad_ - out_[1] + 1)));
  d.x = static_cast<std::int64_t>(rng.draw_below(static_cast<std::uint64_t>(in_[2] + 2 * pad_ - out_[2] + 1)));
  d.mirror = mirror_ && (rng.next() >> 63) != 0;
  return d;
}

augmentation::draw augmentation::middle() const {
  return {(in_[1] + 2 * pad_ - out_[1]) / 2, (in_[2] + 2 * pad_ - out_[2]) / 2, false};
}

// Row by row: zeros, the part of the image's row that is in the window, zeros; reversed if
// mirrored.
template <class T>
void augmentation::write(const draw& d, const T* in, T* out) const {
  const auto height = in_[1], width = in_[2], rows = out_[1], columns = out_[2];
  const auto from = std::clamp<std::int64_t>(d.x - pad_, 0, width);
  const auto end = std::clamp<std::int64_t>(d.x - pad_ + columns, 0, width);
  const auto before = from - (d.x - pad_), n = end - from;  // zeros on the left, then n values
  for (std::int64_t c = 0; c < in_[0]; ++c) {
    const auto scale = scale_[static_cast<std::size_t>(c)], mean = mean_[static_cast<std::size_t>(c)];
    for (std::int64_t y = 0; y < rows; ++y, out += columns) {
      const auto row = y + d.y - pad_;
      if (row < 0 || row >= height || n <= 0) {
        std::fill_n(out, columns, T{0});
        continue;
      }
      const T* values = in + (c * height + row) * width + from;
      std::fill_n(out, before, T{0});
      std::fill_n(out + before + n, columns - before - n, T{0});
      if (plain_)
        std::copy_n(values, n, out + before);
      else
        for (std::int64_t k = 0; k < n; ++k) out[before + k] = static_cast<T>(values[k] * scale - mean);
      if (d.mirror) std::reverse(out, out + columns);
    }
  }
}

template <class T, class Draw>
void augmentation::all(const std::vector<std::int64_t>& indices, const tensor& raw, tensor& data, const Draw& draw_of) const {
  const auto* in = raw.data<T>();
  auto* out = data.mutable_data<T>();
  for (std::size_t i = 0; i < indices.size(); ++i, in += in_.count(), out += out_.count()) {
    if (indices[i] < 0)
      std::fill_n(out, out_.count(), T{0});
    else
      write(draw_of(static_cast<std::int64_t>(i)), in, out);
  }
}

void augmentation::training(std::uint64_t step, std::int64_t first, const std::vector<std::int64_t>& indices, const tensor& raw,
                            tensor& data) const {
  assert(raw.type() == data.type() && raw.count() == static_cast<std::int64_t>(indices.size()) * in_.count());
  assert(data.count() == static_cast<std::int64_t>(indices.size()) * out_.count());
  const auto draw_of = [&](std::int64_t i) { return drawn(step, first + i); };
  raw.type() == dtype::f64 ? all<double>(indices, raw, data, draw_of) : all<float>(indices, raw, data, draw_of);
}

void augmentation::test(const std::vector<std::int64_t>& indices, const tensor& raw, tensor& data) const {
  assert(raw.type() == data.type() && raw.count() == static_cast<std::int64_t>(indices.size()) * in_.count());
  assert(data.count() == static_cast<std::int64_t>(indices.size()) * out_.count());
  const auto draw_of = [&](std::int64_t) { return middle(); };
  raw.type() == dtype::f64 ? all<double>(indices, raw, data, draw_of) : all<float>(indices, raw, data, draw_of);
}

}  // namespace troupe
