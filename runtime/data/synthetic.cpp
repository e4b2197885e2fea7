// synthetic: examples computed on the fly, for tests, timing and simulation without files. A class
// is a coarse grid of values in [0, 1), stretched over the last two axes of the example. An example
// is its class's grid plus uniform noise in [-noise, noise]:
//   data[c, y, x] = grid(label)[c, y * gh / h, x * gw / w] + noise * u(example, c, y, x)
// Every number is a hash of (seed, stream, position), so that the source needs no memory, any
// example can be computed alone, and all nodes agree. With few classes a linear model separates
// them; more noise makes it harder.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "runtime/data/label_rule.hpp"
#include "runtime/data/random.hpp"
#include "runtime/data/source_options.hpp"
#include "runtime/data/stock.hpp"

namespace troupe {
namespace {

constexpr std::int64_t grid_cells_2d = 8;   // per axis
constexpr std::int64_t grid_cells_1d = 64;  // examples with one axis
constexpr std::int64_t max_values = std::int64_t{1} << 31;
constexpr std::int64_t max_width = std::int64_t{1} << 26;  // the source keeps a byte for each column

enum stream : std::uint64_t { grid_stream, label_stream, noise_stream };

class synthetic_source final : public source {
 public:
  synthetic_source(shape example, std::int64_t classes, std::int64_t train, std::int64_t test, double noise, channel_order order,
                   std::int64_t ignored, std::uint64_t seed)
      : example_(example), classes_(classes), sizes_{train, test}, order_(order), ignored_(ignored), seed_(seed) {
    const int r = example.rank();
    width_ = example[r - 1];
    height_ = r > 1 ? example[r - 2] : 1;
    planes_ = example.count() / (width_ * height_);
    grid_width_ = std::min(width_, r > 1 ? grid_cells_2d : grid_cells_1d);
    grid_height_ = std::min(height_, grid_cells_2d);
    for (std::int64_t x = 0; x < width_; ++x) column_.push_back(static_cast<std::uint8_t>(x * grid_width_ / width_));
    for (std::size_t i = 0; i < noise_.size(); ++i) noise_[i] = noise * (static_cast<double>(i) - 127.5) / 127.5;
  }

  shape example() const override { return example_; }
  std::int64_t classes() const override { return classes_; }
  channel_order picture_order() const override { return order_; }
  std::int64_t size(split s) const override { return sizes_[s == split::train ? 0 : 1]; }

  void read(split s, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    assert(data.count() == static_cast<std::int64_t>(indices.size()) * example_.count());
    assert(label.count() == static_cast<std::int64_t>(indices.size()));
    assert(data.type() == dtype::f32 || data.type() == dtype::f64);
    auto* labels = label.mutable_data<std::int32_t>();
    for (auto i : indices) {
      assert(i < size(s));
      const auto drawn = i < 0 ? -1 : label_of(s, i);
      *labels++ = drawn == ignored_ ? -1 : drawn;
    }
    if (data.type() == dtype::f64)
      fill(s, indices, data.mutable_data<double>());
    else
      fill(s, indices, data.mutable_data<float>());
  }

 private:
  std::uint64_t key(stream what, split s) const { return sub_key(sub_key(seed_, what), static_cast<std::uint64_t>(s)); }

  std::int32_t label_of(split s, std::int64_t i) const {
    const auto bits = hash_at(key(label_stream, s), static_cast<std::uint64_t>(i));
    return static_cast<std::int32_t>(scale_below(bits, static_cast<std::uint64_t>(classes_)));
  }

  template <class T>
  void fill(split s, const std::vector<std::int64_t>& indices, T* out) const {
    const auto n = static_cast<std::size_t>(example_.count());
    for (auto i : indices) {
      if (i < 0)
        std::memset(out, 0, n * sizeof(T));
      else
        fill_one(s, i, out);
      out += n;
    }
  }

  template <class T>
  void fill_one(split s, std::int64_t i, T* out) const {
    const auto grid_key = sub_key(sub_key(seed_, grid_stream), static_cast<std::uint64_t>(label_of(s, i)));
    const auto noise_key = sub_key(key(noise_stream, s), static_cast<std::uint64_t>(i));
    std::uint64_t drawn = 0, bits = 0;
    std::array<double, grid_cells_1d> row{};
    for (std::int64_t plane = 0; plane < planes_; ++plane) {
      std::int64_t in_row = -1;
      for (std::int64_t y = 0; y < height_; ++y) {
        if (const auto gy = y * grid_height_ / height_; gy != in_row)
          load_entry(grid_key, plane * grid_height_ + (in_row = gy), row);
        for (std::int64_t x = 0; x < width_; ++x) {
          if (drawn % 8 == 0) bits = hash_at(noise_key, drawn / 8);  // eight bytes of noise a hash
          ++drawn;
          *out++ = static_cast<T>(row[column_[static_cast<std::size_t>(x)]] + noise_[bits & 255]);
          bits >>= 8;
        }
      }
    }
  }

  void load_entry(std::uint64_t grid_key, std::int64_t index, std::array<double, grid_cells_1d>& row) const {
    for (std::int64_t x = 0; x < grid_width_; ++x) {
      const auto bits = hash_at(grid_key, static_cast<std::uint64_t>(index * grid_width_ + x));
      row[static_cast<std::size_t>(x)] = static_cast<double>(bits >> 40) * 0x1p-24;
    }
  }

  shape example_;
  std::int64_t classes_;
  std::array<std::int64_t, 2> sizes_;
  channel_order order_;
  std::int64_t ignored_;  // a label that does not count
  std::uint64_t seed_;
  std::int64_t width_ = 1, height_ = 1, planes_ = 1, grid_width_ = 1, grid_height_ = 1;
  std::vector<std::uint8_t> column_;  // the grid's column of each x
  std::array<double, 256> noise_{};
};

shape checked_shape(const std::vector<std::int64_t>& extents) {
  if (extents.empty() || extents.size() > shape::max_rank - 1)
    throw option_error("shape", "shape has " + std::to_string(extents.size()) + " extents: 1 to " +
                                    std::to_string(shape::max_rank - 1) + " are allowed");
  shape s;
  std::int64_t values = 1;
  for (auto e : extents) {
    if (e < 1) throw option_error("shape", "shape has an extent of " + std::to_string(e) + ", but must be at least 1");
    if (e > max_values / values) throw option_error("shape", "shape has more than 2^31 values");
    values *= e;
    s.push_back(e);
  }
  if (extents.back() > max_width) throw option_error("shape", "shape has rows of more than 2^26 values");
  return s;
}

std::shared_ptr<const source> open_synthetic(const options& o, std::uint64_t seed) {
  return std::make_shared<synthetic_source>(checked_shape(o.get<std::vector<std::int64_t>>("shape")), o.integer("classes"),
                                            o.integer("examples"), o.integer("test_examples"), o.real("noise"), channel_order_of(o),
                                            o.integer("ignore_label"), seed);
}

option_spec integer_option(std::string name, std::int64_t fallback, double max, std::string doc) {
  option_spec s;
  s.name = std::move(name);
  s.kind = option_kind::integer;
  s.fallback = fallback;
  s.doc = std::move(doc);
  s.min = 1;
  s.max = max;
  return s;
}

option_specs synthetic_specs() {
  option_spec extents;
  extents.name = "shape";
  extents.kind = option_kind::integers;
  extents.fallback = std::vector<std::int64_t>{1, 28, 28};
  extents.doc = "shape of one example, outermost first";
  option_spec noise;
  noise.name = "noise";
  noise.kind = option_kind::real;
  noise.fallback = 0.5;
  noise.doc = "amplitude of the uniform noise on every value; class patterns are in [0, 1)";
  noise.min = 0;
  return {
      extents,
      integer_option("classes", 10, 1e6, "number of classes"),
      integer_option("examples", 10000, 1e12, "number of training examples"),
      integer_option("test_examples", 1000, 1e12, "number of test examples"),
      noise,
      channel_order_option(channel_order::rgb, "order of the planes of the pictures [3, height, width] that the net is meant for"),
      ignore_label_option()};
}

}  // namespace

source_type synthetic_source_type() {
  return {"synthetic", "Learnable examples computed on the fly from the job's seed: a pattern for each class plus noise.",
          synthetic_specs(), open_synthetic};
}

}  // namespace troupe
