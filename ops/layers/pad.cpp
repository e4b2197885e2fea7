// pad: adds a border to an image. mode = "zero": zeros; "edge": the nearest pixel; "reflect": the
// image mirrored at its border pixels.
//   shapes    [N, C, H, W] -> [N, C, top + H + bottom, left + W + right]
//   gradient  dx = the sum of dy over all copies of the pixel
#include "ops/layers/axis_map.hpp"

namespace troupe {

namespace {

struct pad final : image_map {
  std::int64_t top, bottom, left, right;
  std::string mode;
  explicit pad(const options& o) : mode(o.text("mode")) {
    const auto side = [&](const char* name) { return o.integer(name) >= 0 ? o.integer(name) : o.integer("pad"); };
    top = side("top"), bottom = side("bottom"), left = side("left"), right = side("right");
  }
  shape sides(const shapes& in) const override {
    const auto mirrors = [&](std::int64_t extent, std::int64_t before, std::int64_t behind) {
      want(mode != "reflect" || (before < extent && behind < extent), "an image larger than its reflected border", in);
    };
    mirrors(in[0][2], top, bottom), mirrors(in[0][3], left, right);
    return {top + in[0][2] + bottom, left + in[0][3] + right};
  }
  axis_map rows(const shapes& in) const override { return along(in[0][2], top, bottom); }
  axis_map columns(const shapes& in) const override { return along(in[0][3], left, right); }

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
              "C, top + H + bottom, left + W + right]. dx = the sum of dy over all copies of the pixel.",
          .specs = {integer_option("pad", 0, "border on all sides, in pixels"), side("top"), side("bottom"), side("left"),
                    side("right"), choice_option("mode", {"zero", "reflect", "edge"}, "contents of the border")},
          .make = [](const options& o) { return std::make_unique<pad>(o); },
          .cases = {example("zero", with(2, "zero"), {{2, 3, 4, 5}}), example("edge", with(3, "edge"), {{2, 2, 3, 2}}),
                    example("reflect", with(2, "reflect"), {{1, 2, 3, 4}}), example("unlike sides", oblong, {{2, 1, 2, 5}}),
                    example("one pixel", with(1, "edge"), {{2, 2, 1, 1}}), example("no border", {}, {{2, 1, 3, 1}})}};
}

}  // namespace troupe
