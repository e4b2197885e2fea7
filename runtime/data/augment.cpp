#include "runtime/data/augment.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string>
#include <utility>

#include "ops/option_specs.hpp"
#include "runtime/data/random.hpp"

namespace troupe {
namespace {

constexpr std::uint64_t tag = 0x6175676d656e7430;         // separates these draws from those of samplers and sources
constexpr std::uint64_t change_tag = 0x6368616e67657331;  // those of changed() from those of drawn()
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
          real_option("rotate", 0.0, "in training, rotates by an angle of at most so many degrees, either way", 0, 180),
          real_option("zoom", 0.0, "in training, enlarges by a factor in 1 - zoom to 1 + zoom", 0, 0.9),
          real_option("shear", 0.0, "in training, slants by an angle of at most so many degrees, either way", 0, 60),
          real_option("translate", 0.0, "in training, shifts by at most this part of height and width, any way", 0, 1),
          real_option("brightness", 0.0, "in training, multiplies bytes by a factor in 1 - brightness to 1 + brightness", 0, 1),
          real_option("contrast", 0.0, "in training, the same for their distance from the image's mean grey", 0, 1),
          real_option("saturation", 0.0, "in training, the same for their distance from the pixel's grey (RGB)", 0, 1),
          real_option("hue", 0.0, "in training, turns hues by at most this part of their circle, either way (RGB)", 0, 0.5),
          real_option("erase", 0.0, "in training, the probability that a rectangle of 2 to 33 % of the image becomes zeros", 0, 1),
          option_of("scale", kind::reals, no_numbers, "value = value * scale - mean, one number or one for each channel; none: 1"),
          option_of("mean", kind::reals, no_numbers, "subtracted after scaling, one number or one for each channel; none: 0")};
}

augmentation::augmentation(const options& o, const shape& example, bool ids, std::uint64_t seed, std::optional<byte_scaling> bytes,
                           channel_order order)
    : key_(sub_key(seed, tag)),
      in_(example),
      pad_(o.integer("pad")),
      mirror_(o.flag("mirror")),
      bytes_(std::move(bytes)),
      order_(order) {
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
  read_changes(o);
}

void augmentation::read_changes(const options& o) {
  const auto read = [&](const char* key, double& into) {
    into = o.real(key);
    changes_ = changes_ || into != 0;
  };
  read("rotate", most_.rotate), read("zoom", most_.zoom), read("shear", most_.shear), read("translate", most_.translate);
  read("brightness", most_.brightness), read("contrast", most_.contrast), read("saturation", most_.saturation),
      read("hue", most_.hue);
  read("erase", most_.erase);
  for (const char* key : {"brightness", "contrast", "saturation", "hue"})
    if (o.real(key) != 0 && !bytes_)
      throw option_error(
          key, std::string(key) + " changes bytes, as those of the sources images and idx; the values of this source are numbers");
  for (const char* key : {"saturation", "hue"})
    if (o.real(key) != 0 && in_[0] != 3)
      throw option_error(key, std::string(key) + " is for images of three channels (RGB); these have " + std::to_string(in_[0]));
}

augmentation::draw augmentation::drawn(std::uint64_t step, std::int64_t place) const {
  counter_rng rng(sub_key(sub_key(key_, step), static_cast<std::uint64_t>(place)));
  draw d;
  d.y = static_cast<std::int64_t>(rng.draw_below(static_cast<std::uint64_t>(in_[1] + 2 * pad_ - out_[1] + 1)));
  d.x = static_cast<std::int64_t>(rng.draw_below(static_cast<std::uint64_t>(in_[2] + 2 * pad_ - out_[2] + 1)));
  d.mirror = mirror_ && (rng.next() >> 63) != 0;
  return d;
}

augmentation::change augmentation::changed(std::uint64_t step, std::int64_t place) const {
  counter_rng rng(sub_key(sub_key(sub_key(key_, change_tag), step), static_cast<std::uint64_t>(place)));
  const auto uniform = [&rng](double from, double to) {
    return from + (to - from) * static_cast<double>(rng.next() >> 11) * 0x1p-53;
  };
  const auto either_way = [&](double most) { return uniform(-most, most); };
  change c;
  // Each has a draw of its own, so that one option does not change what another does.
  const double rotate = either_way(most_.rotate), zoom = either_way(most_.zoom), shear = either_way(most_.shear),
               right = either_way(most_.translate), down = either_way(most_.translate), brightness = either_way(most_.brightness),
               contrast = either_way(most_.contrast), saturation = either_way(most_.saturation), hue = either_way(most_.hue);
  c.motion = {rotate, 1 + zoom, shear, right * static_cast<double>(in_[2]), down * static_cast<double>(in_[1])};
  c.colours = {1 + brightness, 1 + contrast, 1 + saturation, hue};
  if (uniform(0, 1) >= most_.erase) return c;
  const double area = uniform(0.02, 0.33) * static_cast<double>(out_[1] * out_[2]), aspect = std::exp(either_way(std::log(3.3)));
  const auto side = [](double wanted, std::int64_t most) { return std::clamp<std::int64_t>(std::lround(wanted), 1, most); };
  c.erased.height = side(std::sqrt(area * aspect), out_[1]);
  c.erased.width = side(std::sqrt(area / aspect), out_[2]);
  c.erased.y = static_cast<std::int64_t>(rng.draw_below(static_cast<std::uint64_t>(out_[1] - c.erased.height + 1)));
  c.erased.x = static_cast<std::int64_t>(rng.draw_below(static_cast<std::uint64_t>(out_[2] - c.erased.width + 1)));
  return c;
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

template <class T>
void augmentation::train(std::uint64_t step, std::int64_t first, const std::vector<std::int64_t>& indices, const tensor& raw,
                         tensor& data) const {
  const auto* in = raw.data<T>();
  auto* out = data.mutable_data<T>();
  std::vector<T> image(static_cast<std::size_t>(in_.count())), moved(image.size());
  for (std::size_t i = 0; i < indices.size(); ++i, in += in_.count(), out += out_.count()) {
    if (indices[i] < 0) {
      std::fill_n(out, out_.count(), T{0});
      continue;
    }
    const auto place = first + static_cast<std::int64_t>(i);
    const auto c = changed(step, place);
    std::copy_n(in, image.size(), image.begin());
    if (c.colours.changes()) colour_image(c.colours, in_, *bytes_, order_, image.data());
    if (c.motion.moves()) {
      move_image(c.motion, in_, image.data(), moved.data());
      image.swap(moved);
    }
    write(drawn(step, place), image.data(), out);
    erase_from_image(c.erased, out_, out);
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
  if (changes_) {
    if (raw.type() == dtype::f64)
      train<double>(step, first, indices, raw, data);
    else
      train<float>(step, first, indices, raw, data);
    return;
  }
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
