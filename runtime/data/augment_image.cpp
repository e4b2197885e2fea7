#include "runtime/data/augment_image.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace troupe {
namespace {

// Sines and cosines of quarter turns are exact, so that such a rotation only moves values.
double exact(double v) {
  const double near = std::round(v);
  return std::abs(v - near) < 1e-12 ? near : v;
}

constexpr std::array<double, 3> grey_weights{0.299, 0.587, 0.114};  // ITU-R 601-2 luma of red, green and blue

double limited(double v) { return std::clamp(v, 0.0, 255.0); }

// Turns the hue of a pixel by `turn` of the circle (RGB to HSV and back).
void turn_hue(double turn, std::array<double, 3>& p) {
  const double most = *std::max_element(p.begin(), p.end()), least = *std::min_element(p.begin(), p.end()), range = most - least;
  if (range == 0) return;
  double hue = 0;
  if (most == p[0])
    hue = (p[1] - p[2]) / range;
  else if (most == p[1])
    hue = 2 + (p[2] - p[0]) / range;
  else
    hue = 4 + (p[0] - p[1]) / range;
  hue = hue / 6 + turn;
  hue = 6 * (hue - std::floor(hue));
  for (std::size_t c = 0; c < 3; ++c) {
    const double at = std::fmod(hue + 5 - 2 * static_cast<double>(c), 6);
    p[c] = most - range * std::clamp(std::min(at, 4 - at), 0.0, 1.0);
  }
}

// The bytes of a pixel, and back.
template <class T>
class pixels {
 public:
  pixels(const shape& dims, const byte_scaling& s, channel_order order, T* image)
      : image_(image),
        area_(static_cast<std::size_t>(dims[1] * dims[2])),
        channels_(static_cast<std::size_t>(dims[0])),
        order_(order) {
    for (std::size_t c = 0; c < channels_; ++c) {
      scale_.push_back(s.scale[s.scale.size() > 1 ? c : 0]);
      mean_.push_back(s.mean[s.mean.size() > 1 ? c : 0]);
    }
  }
  std::size_t area() const { return area_; }
  std::size_t channels() const { return channels_; }
  double get(std::size_t c, std::size_t k) const {
    if (scale_[c] == 0) return 0;  // all bytes give one value
    return (static_cast<double>(image_[c * area_ + k]) + mean_[c]) / scale_[c];
  }
  void set(std::size_t c, std::size_t k, double byte) const {
    image_[c * area_ + k] = static_cast<T>(limited(byte) * scale_[c] - mean_[c]);
  }
  // Every value v becomes change(v).
  template <class Change>
  void change_all(const Change& change) const {
    for (std::size_t c = 0; c < channels_; ++c)
      for (std::size_t k = 0; k < area_; ++k) set(c, k, change(get(c, k)));
  }
  // The plane of red (0), green (1) or blue (2) of a picture with three channels.
  std::size_t plane(std::size_t colour) const { return order_ == channel_order::bgr ? 2 - colour : colour; }
  double grey(std::size_t k) const {
    if (channels_ != 3) {
      double sum = 0;
      for (std::size_t c = 0; c < channels_; ++c) sum += get(c, k);
      return sum / static_cast<double>(channels_);
    }
    return grey_weights[0] * get(plane(0), k) + grey_weights[1] * get(plane(1), k) + grey_weights[2] * get(plane(2), k);
  }

 private:
  T* image_;
  std::size_t area_, channels_;
  channel_order order_;
  std::vector<double> scale_, mean_;
};

}  // namespace

template <class T>
void move_image(const image_motion& m, const shape& dims, const T* in, T* out) {
  const auto height = dims[1], width = dims[2];
  const double turn = m.degrees * std::numbers::pi / 180;
  const double cos = exact(std::cos(turn)), sin = exact(std::sin(turn)), slope = exact(std::tan(m.shear * std::numbers::pi / 180));
  const double middle_y = static_cast<double>(height - 1) / 2, middle_x = static_cast<double>(width - 1) / 2;
  const auto value = [&](const T* plane, std::int64_t y, std::int64_t x) {
    return y < 0 || y >= height || x < 0 || x >= width ? 0.0 : static_cast<double>(plane[y * width + x]);
  };
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      // From the place in the result back to that in the image.
      const double v = static_cast<double>(y) - middle_y - m.down, u = static_cast<double>(x) - middle_x - m.right;
      const double down = (u * sin + v * cos) / m.zoom, right = (u * cos - v * sin) / m.zoom - slope * down;
      const double from_y = down + middle_y, from_x = right + middle_x;
      const double top = std::floor(from_y), left = std::floor(from_x), part_y = from_y - top, part_x = from_x - left;
      const auto i = static_cast<std::int64_t>(top), k = static_cast<std::int64_t>(left);
      for (std::int64_t c = 0; c < dims[0]; ++c) {
        const T* plane = in + c * height * width;
        const double above = value(plane, i, k) * (1 - part_x) + value(plane, i, k + 1) * part_x;
        const double below = value(plane, i + 1, k) * (1 - part_x) + value(plane, i + 1, k + 1) * part_x;
        out[(c * height + y) * width + x] = static_cast<T>(above * (1 - part_y) + below * part_y);
      }
    }
}

template <class T>
void colour_image(const image_colours& colours, const shape& dims, const byte_scaling& scaling, channel_order order, T* image) {
  const pixels<T> p(dims, scaling, order, image);
  if (const double b = colours.brightness; b != 1) p.change_all([b](double v) { return v * b; });
  if (const double f = colours.contrast; f != 1) {
    double mean = 0;
    for (std::size_t k = 0; k < p.area(); ++k) mean += p.grey(k) / static_cast<double>(p.area());
    p.change_all([f, mean](double v) { return mean + f * (v - mean); });
  }
  if ((colours.saturation == 1 && colours.hue == 0) || p.channels() != 3) return;
  for (std::size_t k = 0; k < p.area(); ++k) {
    const double grey = p.grey(k);
    std::array<double, 3> rgb{};
    for (std::size_t c = 0; c < 3; ++c) rgb[c] = limited(grey + colours.saturation * (p.get(p.plane(c), k) - grey));
    if (colours.hue != 0) turn_hue(colours.hue, rgb);
    for (std::size_t c = 0; c < 3; ++c) p.set(p.plane(c), k, rgb[c]);
  }
}

template <class T>
void erase_from_image(const image_rectangle& r, const shape& dims, T* image) {
  for (std::int64_t c = 0; c < dims[0]; ++c)
    for (std::int64_t y = r.y; y < r.y + r.height; ++y) std::fill_n(image + (c * dims[1] + y) * dims[2] + r.x, r.width, T{0});
}

template void move_image(const image_motion&, const shape&, const float*, float*);
template void move_image(const image_motion&, const shape&, const double*, double*);
template void colour_image(const image_colours&, const shape&, const byte_scaling&, channel_order, float*);
template void colour_image(const image_colours&, const shape&, const byte_scaling&, channel_order, double*);
template void erase_from_image(const image_rectangle&, const shape&, float*);
template void erase_from_image(const image_rectangle&, const shape&, double*);

}  // namespace troupe
