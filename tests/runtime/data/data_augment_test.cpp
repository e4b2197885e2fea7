// Augmentation: values against a second implementation of the definition, and draws that depend
// only on an example's position.
#include "runtime/data/augment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ops/device.hpp"
#include "runtime/data/random.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using indices = std::vector<std::int64_t>;

options given(std::vector<std::pair<std::string, option_value>> list) {
  options o;
  for (auto& [k, v] : list) o.values.emplace(k, v);
  return check_options(o, augmentation::specs());
}
option_value n(std::int64_t v) { return v; }

std::string error_of(const options& o, const shape& example, bool ids = false) {
  try {
    augmentation(o, example, ids, 1);
  } catch (const option_error& e) {
    return e.key + ": " + e.what();
  }
  return "no error";
}

struct images {
  images(std::int64_t n, const shape& example, dtype t, std::uint64_t seed) {
    shape dims{n};
    for (int i = 0; i < example.rank(); ++i) dims.push_back(example[i]);
    data = tensor::allocate(*dev(), dims, t);
    for (std::int64_t i = 0; i < data.count(); ++i) {
      const auto v = static_cast<double>(hash_at(seed, static_cast<std::uint64_t>(i)) % 1000) / 8;
      t == dtype::f64 ? data.mutable_data<double>()[i] = v : data.mutable_data<float>()[i] = static_cast<float>(v);
    }
  }
  static std::shared_ptr<device> dev() {
    static const std::shared_ptr<device> d = make_cpu_device();
    return d;
  }
  double at(std::int64_t i) const { return data.type() == dtype::f64 ? data.data<double>()[i] : data.data<float>()[i]; }
  tensor data;
};

// One value of the result by the definition: from the image, or 0 of the border.
double wanted_pixel(const images& raw, const shape& in, const shape& out, std::int64_t pad, const augmentation::draw& d,
                    std::int64_t i, std::int64_t c, std::int64_t y, std::int64_t x, const std::vector<double>& scale,
                    const std::vector<double>& mean) {
  const auto across = d.mirror ? out[2] - 1 - x : x;
  const auto row = y + d.y - pad, column = across + d.x - pad;
  if (row < 0 || row >= in[1] || column < 0 || column >= in[2]) return 0;
  const auto k = static_cast<std::size_t>(c);
  return raw.at(((i * in[0] + c) * in[1] + row) * in[2] + column) * scale[k] - mean[k];
}

TEST(data_augment, every_value_matches_the_definition) {
  counter_rng rng(11);
  for (int round = 0; round < 400; ++round) {
    const auto side = [&] { return static_cast<std::int64_t>(1 + rng.draw_below(7)); };
    const shape in{static_cast<std::int64_t>(1 + rng.draw_below(3)), side(), side()};
    const auto pad = static_cast<std::int64_t>(rng.draw_below(static_cast<std::uint64_t>(std::max(in[1], in[2])) + 1));
    const auto within = [&](std::int64_t s) {
      return static_cast<std::int64_t>(1 + rng.draw_below(static_cast<std::uint64_t>(s + 2 * pad)));
    };
    const auto height = within(in[1]), width = within(in[2]);
    const bool scaled = round % 2 == 1;
    std::vector<double> scale(static_cast<std::size_t>(in[0]), 1.0), mean(static_cast<std::size_t>(in[0]), 0.0);
    auto o = given({{"crop_height", n(height)}, {"crop_width", n(width)}, {"pad", n(pad)}, {"mirror", true}});
    if (scaled) {
      for (std::size_t c = 0; c < scale.size(); ++c)
        scale[c] = 0.5 + static_cast<double>(c), mean[c] = 3.0 - static_cast<double>(c);
      o.values["scale"] = scale;
      o.values["mean"] = mean;
    }
    const augmentation a(o, in, false, 5);
    ASSERT_EQ(a.example(), (shape{in[0], height, width}));
    const auto type = round % 3 == 0 ? dtype::f64 : dtype::f32;
    const images raw(4, in, type, static_cast<std::uint64_t>(round));
    const indices which{7, -1, 0, 3};
    for (bool training : {true, false}) {
      images got(4, a.example(), type, 1);
      training ? a.training(9, 40, which, raw.data, got.data) : a.test(which, raw.data, got.data);
      std::int64_t at = 0;
      for (std::int64_t i = 0; i < 4; ++i) {
        const auto d = training ? a.drawn(9, 40 + i) : a.middle();
        for (std::int64_t c = 0; c < in[0]; ++c)
          for (std::int64_t y = 0; y < height; ++y)
            for (std::int64_t x = 0; x < width; ++x, ++at) {
              const auto want = which[static_cast<std::size_t>(i)] < 0
                                    ? 0.0
                                    : wanted_pixel(raw, in, a.example(), pad, d, i, c, y, x, scale, mean);
              ASSERT_EQ(got.at(at), want) << "round " << round << " example " << i << " at " << c << " " << y << " " << x;
            }
      }
    }
  }
}

TEST(data_augment, draws_windows_and_mirrors_uniformly) {
  const augmentation a(given({{"crop", n(28)}, {"pad", n(1)}, {"mirror", true}}), shape{1, 28, 28}, false, 3);
  std::map<std::tuple<std::int64_t, std::int64_t, bool>, int> seen;
  constexpr int draws = 18 * 2000;
  for (int i = 0; i < draws; ++i) {
    const auto d = a.drawn(static_cast<std::uint64_t>(i / 100), i % 100);
    ++seen[{d.y, d.x, d.mirror}];
  }
  ASSERT_EQ(seen.size(), 18u);
  double chi = 0;
  for (const auto& [what, times] : seen) {
    chi += (times - 2000.0) * (times - 2000.0) / 2000;
    EXPECT_LE(std::get<0>(what), 2);
  }
  EXPECT_LT(chi, 40.8) << "17 degrees of freedom, p = 0.001";
  EXPECT_GT(chi, 3) << "too even for random draws";
}

TEST(data_augment, a_draw_depends_only_on_seed_step_and_position) {
  const auto o = given({{"crop", n(20)}, {"mirror", true}});
  const augmentation a(o, shape{3, 64, 64}, false, 3), again(o, shape{3, 64, 64}, false, 3), other(o, shape{3, 64, 64}, false, 4);
  const auto key = [](const augmentation::draw& d) { return std::tuple(d.y, d.x, d.mirror); };
  int like_the_other_seed = 0, like_the_next_step = 0, like_the_next_place = 0;
  for (std::uint64_t step = 0; step < 40; ++step)
    for (std::int64_t place = 0; place < 50; ++place) {
      const auto d = key(a.drawn(step, place));
      ASSERT_EQ(d, key(again.drawn(step, place)));
      like_the_other_seed += d == key(other.drawn(step, place));
      like_the_next_step += d == key(a.drawn(step + 1, place));
      like_the_next_place += d == key(a.drawn(step, place + 1));
    }
  EXPECT_LT(like_the_other_seed, 10) << "of 2,000 draws; equal by chance with p = 1/4,050";
  EXPECT_LT(like_the_next_step, 10);
  EXPECT_LT(like_the_next_place, 10);
  // The same for packets of any size.
  const images raw(12, shape{3, 64, 64}, dtype::f32, 1);
  indices all(12);
  images whole(12, a.example(), dtype::f32, 2);
  a.training(6, 24, all, raw.data, whole.data);
  for (std::int64_t size : {1, 2, 3, 4, 6})
    for (std::int64_t first = 0; first < 12; first += size) {
      images part(size, a.example(), dtype::f32, 3);
      a.training(6, 24 + first, indices(static_cast<std::size_t>(size)), raw.data.slice(first * 3 * 64 * 64, {size, 3, 64, 64}),
                 part.data);
      for (std::int64_t i = 0; i < part.data.count(); ++i) ASSERT_EQ(part.at(i), whole.at(first * a.example().count() + i));
    }
}

TEST(data_augment, the_test_window_is_centred_for_any_padding) {
  for (std::int64_t pad : {0, 1, 4}) {
    const augmentation a(given({{"crop", n(5)}, {"pad", n(pad)}}), shape{1, 9, 9}, false, 3);
    EXPECT_EQ(a.middle().y - pad, 2);
    EXPECT_EQ(a.middle().x - pad, 2);
  }
}

// --- changes of pixels

template <class T>
std::vector<T> moved(const image_motion& m, const shape& dims, const std::vector<T>& in) {
  std::vector<T> out(in.size(), T{99});
  move_image(m, dims, in.data(), out.data());
  return out;
}
std::vector<double> numbered(std::int64_t n) {
  std::vector<double> v;
  for (std::int64_t k = 1; k <= n; ++k) v.push_back(static_cast<double>(k * k) + 0.1);
  return v;
}

TEST(augment_image, quarter_turns_only_move_values) {
  const shape square{2, 5, 5};
  const auto in = numbered(50);
  const std::vector<float> in_f32(in.begin(), in.end());
  const auto out = moved<double>({.degrees = 90}, square, in);
  const auto out_f32 = moved<float>({.degrees = 90}, square, in_f32);
  for (std::size_t c = 0; c < 2; ++c)
    for (std::size_t y = 0; y < 5; ++y)
      for (std::size_t x = 0; x < 5; ++x) {
        EXPECT_EQ(out[25 * c + 5 * y + x], in[25 * c + 5 * x + 4 - y]) << "counterclockwise, as numpy.rot90";
        EXPECT_EQ(out_f32[25 * c + 5 * y + x], in_f32[25 * c + 5 * x + 4 - y]);
      }
  EXPECT_EQ(moved<double>({.degrees = -90}, square, out), in);
  EXPECT_EQ(moved<double>({.degrees = 180}, square, moved<double>({.degrees = 180}, square, in)), in);
  EXPECT_EQ(moved<double>({}, {1, 3, 4}, numbered(12)), numbered(12)) << "no motion";
}

TEST(augment_image, shifts_zooms_and_shears_as_defined) {
  const shape dims{1, 3, 4};
  const auto in = numbered(12);
  EXPECT_THAT(moved<double>({.right = 1, .down = 1}, dims, in),
              ElementsAre(0, 0, 0, 0, 0, in[0], in[1], in[2], 0, in[4], in[5], in[6]));
  EXPECT_THAT(moved<double>({.right = 0.5}, {1, 1, 3}, std::vector<double>{2, 4, 8}), ElementsAre(1, 3, 6)) << "bilinear";
  EXPECT_THAT(moved<double>({.zoom = 2}, {1, 1, 5}, std::vector<double>{1, 2, 4, 8, 16}), ElementsAre(2, 3, 4, 6, 8))
      << "around the centre";
  // Each row moves by one pixel more than that above; the middle row stays.
  EXPECT_THAT(moved<double>({.shear = 45}, {1, 3, 3}, std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9}),
              ElementsAre(2, 3, 0, 4, 5, 6, 0, 7, 8));
}

TEST(augment_image, colours_change_bytes_whatever_their_scaling) {
  const shape dims{3, 1, 2};
  const byte_scaling scaling{{0.5, 0.25, 0.125}, {10, 0, -1}};
  const std::vector<double> bytes{200, 10, 100, 30, 50, 60};  // pixels (200, 100, 50) and (10, 30, 60)
  const auto changed = [&](const image_colours& c) {
    std::vector<double> image;
    for (std::size_t k = 0; k < 6; ++k) image.push_back(bytes[k] * scaling.scale[k / 2] - scaling.mean[k / 2]);
    colour_image(c, dims, scaling, channel_order::rgb, image.data());
    for (std::size_t k = 0; k < 6; ++k) image[k] = (image[k] + scaling.mean[k / 2]) / scaling.scale[k / 2];
    return image;
  };
  const auto near = [](const std::vector<double>& v) { return testing::Pointwise(testing::DoubleNear(1e-9), v); };
  EXPECT_EQ(changed({}), bytes);
  EXPECT_THAT(changed({.brightness = 1.5}), near({255, 15, 150, 45, 75, 90})) << "limited to 255";
  const double grey0 = 0.299 * 200 + 0.587 * 100 + 0.114 * 50, grey1 = 0.299 * 10 + 0.587 * 30 + 0.114 * 60,
               mean = (grey0 + grey1) / 2;
  EXPECT_THAT(changed({.contrast = 0}), near(std::vector<double>(6, mean)));
  EXPECT_THAT(changed({.saturation = 0}), near({grey0, grey1, grey0, grey1, grey0, grey1}));
  EXPECT_THAT(changed({.hue = 1.0 / 3}), near({50, 60, 200, 10, 100, 30})) << "red to green, green to blue";
  EXPECT_THAT(changed({.hue = -1.0 / 3}), near({100, 30, 50, 60, 200, 10}));
}

TEST(augment_image, colours_of_bgr_are_those_of_rgb_with_planes_exchanged) {
  const shape dims{3, 1, 2};
  const byte_scaling scaling{{1}, {0}};
  for (const image_colours& c : {image_colours{.saturation = 0.3}, {.hue = 0.2}, {.contrast = 0.5}}) {
    std::vector<double> rgb{200, 10, 100, 30, 50, 60}, bgr{50, 60, 100, 30, 200, 10};
    colour_image(c, dims, scaling, channel_order::rgb, rgb.data());
    colour_image(c, dims, scaling, channel_order::bgr, bgr.data());
    EXPECT_THAT(bgr, ElementsAre(rgb[4], rgb[5], rgb[2], rgb[3], rgb[0], rgb[1]));
  }
}

TEST(augment_image, erases_a_rectangle_of_all_channels) {
  auto image = numbered(24);
  const auto before = image;
  erase_from_image({1, 2, 2, 1}, {2, 3, 4}, image.data());
  for (std::size_t k = 0; k < 24; ++k) EXPECT_EQ(image[k], k % 12 == 6 || k % 12 == 10 ? 0 : before[k]) << k;
  erase_from_image({}, {2, 3, 4}, image.data());
  EXPECT_EQ(image[0], before[0]);
}

TEST(data_augment, changes_depend_only_on_seed_step_and_position) {
  const shape in{3, 9, 8};
  const auto some = given({{"rotate", 20.0},
                           {"zoom", 0.2},
                           {"shear", 5.0},
                           {"translate", 0.1},
                           {"brightness", 0.3},
                           {"contrast", 0.3},
                           {"saturation", 0.3},
                           {"hue", 0.1},
                           {"erase", 0.5},
                           {"crop", n(7)},
                           {"mirror", true}});
  const byte_scaling scaling{{0.1}, {1}};
  const augmentation a(some, in, false, 7, scaling);
  for (auto t : {dtype::f32, dtype::f64}) {
    images raw(12, in, t, 5), whole(12, a.example(), t, 1);
    a.training(6, 24, indices(12), raw.data, whole.data);
    for (std::int64_t first : {0, 4, 8}) {
      images part(4, a.example(), t, 1);
      a.training(6, 24 + first, indices(4), raw.data.slice(first * in.count(), {4, 3, 9, 8}), part.data);
      for (std::int64_t i = 0; i < part.data.count(); ++i) ASSERT_EQ(part.at(i), whole.at(first * a.example().count() + i));
    }
    images test(12, a.example(), t, 1), plain(12, a.example(), t, 2);
    a.test(indices(12), raw.data, test.data);
    augmentation(given({{"crop", n(7)}}), in, false, 7).test(indices(12), raw.data, plain.data);
    for (std::int64_t i = 0; i < test.data.count(); ++i) ASSERT_EQ(test.at(i), plain.at(i)) << "never in evaluations";
  }
  EXPECT_NE(a.changed(6, 3).motion.degrees, a.changed(7, 3).motion.degrees);
  EXPECT_NE(a.changed(6, 3).motion.degrees, a.changed(6, 4).motion.degrees);
  int erased = 0;
  for (std::int64_t place = 0; place < 1000; ++place) {
    const auto c = a.changed(1, place);
    EXPECT_LE(std::abs(c.motion.degrees), 20);
    EXPECT_LE(std::abs(c.motion.zoom - 1), 0.2);
    EXPECT_LE(std::abs(c.motion.right), 0.8);
    EXPECT_LE(std::abs(c.colours.hue), 0.1);
    EXPECT_LE(c.erased.y + c.erased.height, 7);
    EXPECT_LE(c.erased.x + c.erased.width, 7);
    erased += c.erased.width > 0 ? 1 : 0;
  }
  EXPECT_NEAR(erased, 500, 60);
}

// The windows and mirrors of a job do not change when it gets another option.
TEST(data_augment, an_option_of_zero_leaves_the_images_as_they_are) {
  const shape in{3, 9, 8};
  const auto plain = given({{"crop", n(7)}, {"mirror", true}});
  const auto colours = given({{"crop", n(7)}, {"mirror", true}, {"erase", 1.0}});
  const augmentation a(plain, in, false, 7), b(colours, in, false, 7);
  images raw(6, in, dtype::f32, 5), x(6, a.example(), dtype::f32, 1), y(6, a.example(), dtype::f32, 1);
  a.training(3, 0, indices(6), raw.data, x.data);
  b.training(3, 0, indices(6), raw.data, y.data);
  for (std::int64_t i = 0; i < x.data.count(); ++i)
    if (y.at(i) != 0) {
      ASSERT_EQ(x.at(i), y.at(i));
    }
}

TEST(data_augment, changes_of_colours_need_bytes_and_rgb) {
  const auto hue = given({{"hue", 0.1}}), bright = given({{"brightness", 0.1}});
  EXPECT_THAT(error_of(bright, shape{3, 4, 4}), HasSubstr("brightness: brightness changes bytes"));
  EXPECT_NO_THROW(augmentation(bright, shape{1, 4, 4}, false, 1, byte_scaling{{1}, {0}}));
  EXPECT_THROW(augmentation(hue, shape{1, 4, 4}, false, 1, byte_scaling{{1}, {0}}), option_error);
  EXPECT_THROW(given({{"hue", 0.6}}), option_error);
  EXPECT_THROW(given({{"rotate", -1.0}}), option_error);
}

TEST(data_augment, reports_invalid_options_by_key) {
  const shape image{3, 32, 30};
  EXPECT_THAT(error_of(given({{"crop", n(31)}}), image), HasSubstr("crop: a crop of 31 is more than the images' width 30"));
  EXPECT_EQ(error_of(given({{"crop", n(32)}, {"pad", n(1)}}), image), "no error");
  EXPECT_THAT(error_of(given({{"crop_height", n(35)}, {"pad", n(1)}}), image), HasSubstr("crop_height: a crop of 35 is more than"));
  EXPECT_THAT(error_of(given({{"crop", n(3)}, {"crop_width", n(3)}}), image), HasSubstr("crop_width: crop sets height and width"));
  EXPECT_THAT(error_of(given({{"pad", n(33)}}), image), HasSubstr("pad: pad 33 is more than"));
  EXPECT_THAT(error_of(given({{"mean", std::vector<double>{1, 2}}}), image), HasSubstr("mean: mean has 2 numbers"));
  EXPECT_THAT(error_of(given({{"mirror", true}}), shape{784}), HasSubstr("images [channels, height, width]"));
  EXPECT_THAT(error_of(given({}), shape{3, 4, 5}, true), HasSubstr("this source yields ids"));
  EXPECT_THROW(given({{"crop", n(-1)}}), option_error);
  EXPECT_THROW(given({{"crop", n(70000)}}), option_error);
}

}  // namespace
}  // namespace troupe
