// pad: adds a border to an image. mode = "zero": zeros; "edge": the nearest pixel; "reflect": the
// image mirrored at its border pixels.
//   shapes    [N, C, H, W] -> [N, C, top + H + bottom, left + W + right];
//             [N, C, L] -> [N, C, left + L + right]
//   gradient  dx = the sum of dy over all copies of the pixel
#include "ops/layers/axis_map.hpp"

namespace troupe {

namespace {

struct pad final : image_map {
  std::int64_t top, bottom, left, right;
  std::string mode;
  bool rows_named;  // a border at the top or bottom, by its own option
  explicit pad(const options& o) : mode(o.text("mode")), rows_named(o.integer("top") > 0 || o.integer("bottom") > 0) {
    const auto side = [&](const char* name) { return o.integer(name) >= 0 ? o.integer(name) : o.integer("pad"); };
    top = side("top"), bottom = side("bottom"), left = side("left"), right = side("right");
  }
  bool takes_series() const override { return true; }
  // The border before and behind the rows.
  std::array<std::int64_t, 2> border_of_rows(const shapes& in) const {
    return in[0].rank() == 4 ? std::array{top, bottom} : std::array<std::int64_t, 2>{0, 0};
  }
  static std::int64_t height(const shapes& in) { return in[0].rank() == 4 ? in[0][2] : 1; }
  static std::int64_t width(const shapes& in) { return in[0][in[0].rank() - 1]; }

  shape sides(const shapes& in) const override {
    want(in[0].rank() == 4 || !rows_named, "one input [N, C, H, W] for a border at the top or bottom", in);
    const auto [above, below] = border_of_rows(in);
    const auto mirrors = [&](std::int64_t extent, std::int64_t before, std::int64_t behind) {
      want(mode != "reflect" || (before < extent && behind < extent), "an image larger than its reflected border", in);
    };
    mirrors(height(in), above, below), mirrors(width(in), left, right);
    return {above + height(in) + below, left + width(in) + right};
  }
  axis_map rows(const shapes& in) const override {
    const auto [above, below] = border_of_rows(in);
    return along(height(in), above, below);
  }
  axis_map columns(const shapes& in) const override { return along(width(in), left, right); }

  axis_map along(std::int64_t extent, std::int64_t before, std::int64_t behind) const {
    axis_map m(extent, 1);
    for (std::int64_t j = -before; j < extent + behind; ++j) {
      const bool inside = j >= 0 && j < extent;
      if (inside || mode == "zero")
        m.add(inside ? j : -1, 1.0);
      else if (mode == "edge")
        m.add(j < 0 ? 0 : extent - 1, 1.0);
      else
        m.add(j < 0 ? -j : 2 * (extent - 1) - j, 1.0);
    }
    return m;
  }
};

}  // namespace

layer_type pad_layer() {
  using i = std::int64_t;
  const auto with = [](i all, const char* mode) { return options{{{"pad", all}, {"mode", std::string(mode)}}}; };
  const auto side = [](const char* name) { return integer_option(name, -1, std::string("border on this side; -1: as 'pad'"), -1); };
  const options oblong{{{"top", i{1}}, {"bottom", i{0}}, {"left", i{2}}, {"right", i{3}}, {"mode", std::string("reflect")}}};
  return {.name = "pad",
          .doc =
              "Adds a border of zeros, of the nearest pixels, or of the image mirrored at its border pixels. [N, C, H, W] -> [N, "
              "C, top + H + bottom, left + W + right], [N, C, L] -> [N, C, left + L + right]. dx = the sum of dy over all copies "
              "of the pixel.",
          .specs = {integer_option("pad", 0, "border on all sides, in pixels"), side("top"), side("bottom"), side("left"),
                    side("right"), choice_option("mode", {"zero", "reflect", "edge"}, "contents of the border")},
          .make = [](const options& o) { return std::make_unique<pad>(o); },
          .cases = {example("zero", with(2, "zero"), {{2, 3, 4, 5}}), example("edge", with(3, "edge"), {{2, 2, 3, 2}}),
                    example("reflect", with(2, "reflect"), {{1, 2, 3, 4}}), example("unlike sides", oblong, {{2, 1, 2, 5}}),
                    example("one pixel", with(1, "edge"), {{2, 2, 1, 1}}), example("no border", {}, {{2, 1, 3, 1}}),
                    example("a series", with(2, "reflect"), {{2, 3, 5}}),
                    example("a series, before it", options{{{"left", i{3}}}}, {{2, 2, 4}})}};
}

}  // namespace troupe
