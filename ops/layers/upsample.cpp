// upsample: resizes an image, up or down (without a low-pass filter).
//   nearest        y[i, j] = x[floor(i H / OH), floor(j W / OW)]
//   bilinear       the weighted mean of the four pixels around ((i + 1/2) H / OH - 1/2, ...), or of
//                  those that exist at the border
//   align_corners  bilinear around (i (H - 1) / (OH - 1), ...)
//   shapes         [N, C, H, W] -> [N, C, H factor, W factor], or [N, C, height, width]
//   gradient       dx = the sum of weight dy over the output pixels that use the pixel
#include <cmath>

#include "ops/layers/axis_map.hpp"

namespace troupe {

namespace {

struct upsample final : image_map {
  std::int64_t factor, height, width;
  bool bilinear, align_corners;
  explicit upsample(const options& o)
      : factor(o.integer("factor")),
        height(o.integer("height")),
        width(o.integer("width")),
        bilinear(o.text("mode") == "bilinear"),
        align_corners(o.flag("align_corners")) {
    if ((height > 0) != (width > 0)) throw option_error("height", "set both 'height' and 'width', or 'factor'");
    if (align_corners && !bilinear) throw option_error("align_corners", "'align_corners' requires mode = \"bilinear\"");
  }
  shape sides(const shapes& in) const override {
    return {height > 0 ? height : in[0][2] * factor, width > 0 ? width : in[0][3] * factor};
  }
  axis_map rows(const shapes& in) const override { return along(in[0][2], sides(in)[0]); }
  axis_map columns(const shapes& in) const override { return along(in[0][3], sides(in)[1]); }

  axis_map along(std::int64_t in, std::int64_t out) const {
    axis_map m(in, bilinear ? 2 : 1);
    const auto a = static_cast<double>(in), b = static_cast<double>(out);
    for (std::int64_t j = 0; j < out; ++j) {
      const auto at = static_cast<double>(j);
      if (!bilinear) {
        m.add(j * in / out, 1.0);
        continue;
      }
      const double from = align_corners ? (out > 1 ? at * (a - 1) / (b - 1) : 0.0) : std::max(0.0, (at + 0.5) * a / b - 0.5);
      const auto low = std::min(static_cast<std::int64_t>(from), in - 1);
      const double share = from - static_cast<double>(low);
      m.add(low, 1.0 - share);
      m.add(std::min(low + 1, in - 1), share);
    }
    return m;
  }
};

}  // namespace

layer_type upsample_layer() {
  using i = std::int64_t;
  const std::string bilinear = "bilinear";
  return {.name = "upsample",
          .doc =
              "Resizes an image: repeats pixels (nearest), or interpolates between four (bilinear). [N, C, H, W] -> [N, C, H "
              "factor, W factor], or [N, C, height, width]. dx = the sum of weight dy over the output pixels that use the pixel.",
          .specs = {integer_option("factor", 2, "ratio of output to input height and width", 1),
                    integer_option("height", 0, "output height, instead of a factor"),
                    integer_option("width", 0, "output width, instead of a factor"),
                    choice_option("mode", {"nearest", "bilinear"}, "interpolation between pixels"),
                    flag_option("align_corners", false, "bilinear: the corner pixels of input and output coincide")},
          .make = [](const options& o) { return std::make_unique<upsample>(o); },
          .cases = {example("twice", {}, {{2, 3, 4, 5}}), example("bilinear", options{{{"mode", bilinear}}}, {{2, 2, 3, 4}}),
                    example("corners", options{{{"mode", bilinear}, {"factor", i{3}}, {"align_corners", true}}}, {{1, 2, 3, 2}}),
                    example("to a size", options{{{"mode", bilinear}, {"height", i{5}}, {"width", i{3}}}}, {{2, 1, 3, 4}}),
                    example("nearest to a size", options{{{"height", i{7}}, {"width", i{6}}}}, {{2, 1, 3, 4}}),
                    example("one pixel", options{{{"mode", bilinear}, {"factor", i{4}}}}, {{2, 2, 1, 1}}),
                    example("factor 1", options{{{"factor", i{1}}}}, {{1, 1, 2, 3}})}};
}

}  // namespace troupe
