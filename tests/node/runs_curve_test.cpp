// metrics.csv as curves, and their plots.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "runtime/node/runs/curve_svg.hpp"
#include "runtime/node/runs/curve_text.hpp"
#include "runtime/node/runs/run_curve.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

const std::string metrics_head = "step,epoch,time,loss,accuracy,lr,examples_per_s,test_loss\n";

class runs_curve : public testing::Test {
 protected:
  runs_curve() {
    auto name = (fs::temp_directory_path() / "troupe-curve-XXXXXX").string();
    folder = fs::path(::mkdtemp(name.data())) / "1-net";
    fs::create_directories(folder);
  }
  ~runs_curve() override {
    std::error_code ec;
    fs::remove_all(folder.parent_path(), ec);
  }
  void write(const std::string& text) const { std::ofstream(run_metrics_file(folder)) << text; }
  run_curves read(const curve_options& o = {metric::step, 0}) const {
    auto c = read_run_curves(run_metrics_file(folder), o);
    if (!c) {
      ADD_FAILURE() << c.error().to_string();
      return {};
    }
    return std::move(*c);
  }
  std::vector<std::pair<double, double>> points(metric m, const curve_options& o = {metric::step, 0}) const {
    std::vector<std::pair<double, double>> all;
    for (const auto& p : read(o)[m].raw.points()) all.emplace_back(p.x, p.y);
    return all;
  }
  fs::path folder;
};

using pairs = std::vector<std::pair<double, double>>;

TEST_F(runs_curve, read_run_values_finds_the_last_and_the_best_evaluation) {
  write(metrics_head + "1,0,1,3,,,,\n1,0,1,,0.5,,,2\n2,0,1,2,,,,\n2,0,1,,0.5,,,1\n3,0,1,,,,,\n3,0,1,,0.25,,,0.5\n");
  const auto v = read_run_values(run_metrics_file(folder));
  ASSERT_TRUE(v);
  EXPECT_EQ(v->loss, 2);
  EXPECT_EQ(v->last->step, 3u);
  EXPECT_EQ(v->last->accuracy, 0.25);
  EXPECT_EQ(v->best->step, 2u);
  EXPECT_EQ(v->best->loss, 1);
  write(metrics_head);
  EXPECT_FALSE(read_run_values(run_metrics_file(folder))->best);
}

TEST_F(runs_curve, read_run_values_ignores_an_evaluation_whose_step_is_no_step) {
  write(metrics_head + "4,0,1,,0.5,,,1\n1e300,0,1,,0.75,,,1\n18446744073709551616,0,1,,0.75,,,1\n");
  const auto v = read_run_values(run_metrics_file(folder));
  ASSERT_TRUE(v);
  EXPECT_EQ(v->last->step, 4u);
  EXPECT_EQ(v->best->step, 4u);
}

TEST_F(runs_curve, steps_and_evaluations_are_separate_curves) {
  write(metrics_head + "1,0.5,10,2.5,,0.1,700,\n2,1,12,nan,,0.1,800,\n2,1,12.5,,0.75,,,1.5\n3,1.5,14,1e0,,0.05,,\r\n");
  EXPECT_EQ(points(metric::loss), (pairs{{1, 2.5}, {3, 1}})) << "a loss that is not finite is left out";
  EXPECT_EQ(points(metric::accuracy), (pairs{{2, 0.75}}));
  EXPECT_EQ(points(metric::test_loss), (pairs{{2, 1.5}}));
  EXPECT_EQ(points(metric::lr, {metric::time, 0}), (pairs{{0, 0.1}, {2, 0.1}, {4, 0.05}}));
  EXPECT_EQ(points(metric::loss, {metric::epoch, 0}), (pairs{{0.5, 2.5}, {1.5, 1}}));
  EXPECT_EQ(read().damaged, 0u);
}

TEST_F(runs_curve, columns_are_found_by_name) {
  write("future,loss,step\nx,2,1\n,3,2\n");
  EXPECT_EQ(read().damaged, 1u) << "x is no number";
  EXPECT_EQ(points(metric::loss), (pairs{{2, 3}}));
}

TEST_F(runs_curve, damaged_lines_are_counted_and_an_incomplete_last_line_is_ignored) {
  write(metrics_head + "1,,,2,,,,\n2,,,x,,,,\n3,,,2\n,,,2,,,,\n-1,,,2,,,,\n" + std::string(5000, '7') + "\n4,,,1.5,,,,\n5,,,1.2");
  EXPECT_EQ(points(metric::loss), (pairs{{1, 2}, {4, 1.5}}));
  EXPECT_EQ(read().damaged, 5u);
}

TEST_F(runs_curve, a_wrong_header_or_a_missing_file_is_an_error) {
  const auto missing = read_run_curves(run_metrics_file(folder));
  EXPECT_NE(missing.error().to_string().find("metrics.csv: there is no such file"), std::string::npos);
  write("a,b\n1,2\n");
  EXPECT_NE(read_run_curves(run_metrics_file(folder)).error().message.find("is not the header"), std::string::npos);
  write("");
  EXPECT_EQ(read().rows, 0u);
}

TEST_F(runs_curve, steps_of_a_resumed_run_replace_the_earlier_ones) {
  write(metrics_head + "1,,,1,,,,\n2,,,2,,,,\n3,,,3,,,,\n3,,,,0.3,,,\n2,,,20,,,,\n3,,,30,,,,\n4,,,40,,,,\n");
  EXPECT_EQ(points(metric::loss), (pairs{{1, 1}, {2, 20}, {3, 30}, {4, 40}}));
  EXPECT_EQ(points(metric::accuracy), (pairs{{3, 0.3}}));
}

TEST_F(runs_curve, a_long_curve_keeps_its_ends_and_peaks_in_few_points) {
  run_curve c;
  constexpr int n = 1'000'000;
  for (int i = 1; i <= n; ++i) c.add(i, i, i == 123'456 ? 99 : i == 654'321 ? -99 : std::sin(i * 1e-4));
  const auto points = c.points();
  EXPECT_LE(points.size(), 2048u);
  EXPECT_EQ(c.count(), static_cast<std::uint64_t>(n));
  EXPECT_EQ(points.front().x, 1);
  EXPECT_EQ(points.back().x, n);
  EXPECT_EQ(c.lowest(), -99);
  EXPECT_EQ(c.highest(), 99);
  const auto has = [&points](double x, double y) {
    return std::any_of(points.begin(), points.end(), [&](const curve_point& p) { return p.x == x && p.y == y; });
  };
  EXPECT_TRUE(has(123'456, 99) && has(654'321, -99));
  EXPECT_TRUE(std::is_sorted(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.x < b.x; }));
  const auto bands = c.bands();
  EXPECT_LE(bands.size(), 512u);
  EXPECT_GE(bands.size(), 256u);
  for (const auto& b : bands) {
    EXPECT_TRUE(b.low <= b.mean && b.mean <= b.high) << b.x;
    const bool peak = b.low == -99 || b.high == 99;
    EXPECT_NEAR(b.mean, std::sin(b.x * 1e-4), peak ? 0.2 : 0.01) << b.x;
  }
  c.add(500'000, 500'000, 7);  // resumed
  EXPECT_EQ(c.last(), 7);
  EXPECT_GT(c.lowest(), -2);
}

TEST_F(runs_curve, a_short_curve_has_a_band_for_each_point) {
  run_curve c;
  for (int i = 1; i <= 5; ++i) c.add(i, i, 2 * i);
  c.add(4, 4, 1);
  const auto bands = c.bands();
  ASSERT_EQ(bands.size(), 4u);
  for (const auto& b : bands) {
    const auto y = b.x == 4 ? 1 : 2 * b.x;
    EXPECT_TRUE(b.mean == y && b.low == y && b.high == y) << b.x;
  }
}

TEST_F(runs_curve, a_moving_average_has_no_bias_to_zero) {
  write(metrics_head + "1,,,4,,,,\n2,,,4,,,,\n3,,,1,,,,\n");
  const auto smooth = read({metric::step, 0.5})[metric::loss].smooth.points();
  ASSERT_EQ(smooth.size(), 3u);
  EXPECT_DOUBLE_EQ(smooth[0].y, 4);
  EXPECT_DOUBLE_EQ(smooth[1].y, 4);
  EXPECT_DOUBLE_EQ(smooth[2].y, (0.5 * (0.5 * 2 + 2) + 0.5) / 0.875);
  EXPECT_TRUE(read({metric::step, -1})[metric::loss].smooth.empty()) << "three values are not smoothed";
}

TEST_F(runs_curve, axes_have_few_round_ticks_inside_their_range) {
  const auto texts = [](const plot_axis& a) {
    std::vector<std::string> all;
    for (const auto& t : a.ticks) all.push_back(t.text);
    return all;
  };
  using words = std::vector<std::string>;
  EXPECT_EQ(texts(make_axis(0, 1, false, 6)), (words{"0", "0.2", "0.4", "0.6", "0.8", "1.0"}));
  EXPECT_EQ(texts(make_axis(1, 4, false, 9, true)), (words{"1", "2", "3", "4"}));
  EXPECT_EQ(texts(make_axis(0, 1e6, false, 5)), (words{"0", "0.5M", "1.0M"}));
  EXPECT_EQ(texts(make_axis(0.001, 10, true, 6)), (words{"0.001", "0.01", "0.1", "1", "10"}));
  for (const auto& [low, high] : pairs{{0, 0}, {5, 5}, {-3, -3}, {-1e308, 1e308}, {1e-300, 1e-299}, {7, 7.0000001}})
    for (const bool logarithmic : {false, true}) {
      if (logarithmic && low <= 0) continue;
      const auto a = make_axis(low, high, logarithmic, 6);
      EXPECT_LT(a.low, a.high);
      EXPECT_LE(a.ticks.size(), 30u);
      for (const auto& t : a.ticks) EXPECT_TRUE(a.position(t.value) > -0.01 && a.position(t.value) < 1.01) << low << " " << t.text;
    }
}

TEST_F(runs_curve, the_axis_of_accuracy_is_between_0_and_1) {
  for (const auto& values : {std::vector<double>{1, 1}, {0, 0}, {0.97, 1}, {0.5, 0.98}, {0.3}, {0.999, 0.9995}}) {
    std::vector<curve_point> points;
    for (const auto y : values) points.push_back({static_cast<double>(points.size()), y});
    const auto a = y_axis_of({"accuracy", false, {{"run", points, {}, 0, true}}, true}, 6);
    EXPECT_GE(a.low, 0) << values[0];
    EXPECT_LE(a.high, 1 + 1e-12) << values[0];
    EXPECT_LT(a.low, a.high);
    for (const auto& t : a.ticks) EXPECT_LE(t.value, 1 + 1e-12);
  }
  const auto below = y_axis_of({"accuracy", false, {{"run", {{0, 0.2}, {1, 0.5}}, {}, 0, true}}, true}, 6);
  EXPECT_LT(below.high, 0.7) << "the axis ends near the values";
}

TEST_F(runs_curve, a_plot_of_a_run_is_small_and_names_its_curves) {
  std::string text = metrics_head;
  for (int i = 1; i <= 20'000; ++i) text += std::to_string(i) + ",,," + std::to_string(2.0 / i) + ",,0.1,7000,\n";
  write(text + "20000,,,,0.9,,,0.25\n");
  const auto svg = svg_of_run(folder);
  ASSERT_TRUE(svg);
  const auto& s = *svg;
  EXPECT_LT(s.size(), 120'000u);
  for (const char* part : {"<svg ", "training loss", "test loss", "accuracy", "</svg>", "prefers-color-scheme: dark"})
    EXPECT_NE(s.find(part), std::string::npos) << part;
  EXPECT_EQ(s.find("nan"), std::string::npos);
  EXPECT_EQ(s.find("inf"), std::string::npos);
}

TEST_F(runs_curve, names_are_escaped_in_svg) {
  run_plot p{"a<b>&\"\x1b\xff", "step", {{"loss", false, {{"<script>", {{1, 1}, {2, 2}}, {}, 0, false}}}}};
  const auto svg = curve_svg(p);
  EXPECT_NE(svg.find("&lt;script&gt;"), std::string::npos);
  EXPECT_EQ(svg.find("<script>"), std::string::npos);
  EXPECT_NE(svg.find("a&lt;b&gt;&amp;&quot;"), std::string::npos);
  EXPECT_EQ(svg.find('\x1b'), std::string::npos);
  EXPECT_EQ(svg.find('\xff'), std::string::npos);
}

TEST_F(runs_curve, text_plots_fit_the_width_and_are_ascii_if_asked) {
  run_plot p{
      "t", "step", {{"loss", false, {{"a", {{1, 3}, {50, 1}, {100, 2}}, {}, 0, false}, {"b", {{1, 1}, {100, 3}}, {}, 1, true}}}}};
  for (const int width : {20, 60, 133}) {
    const auto text = curve_text(p, {width, 10, false, false});
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
    EXPECT_NE(text.find('*'), std::string::npos);
    EXPECT_NE(text.find('o'), std::string::npos);
    std::size_t begin = 0;
    for (auto end = text.find('\n'); end != std::string::npos; begin = end + 1, end = text.find('\n', begin))
      EXPECT_LE(end - begin, static_cast<std::size_t>(std::max(width, 40))) << text.substr(begin, end - begin);
  }
  EXPECT_NE(curve_text(p, {60, 10, true, true}).find("\xe2\xa0"), std::string::npos) << "braille";
}

}  // namespace
}  // namespace troupe
