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
