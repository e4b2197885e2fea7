#include "ops/layers/pooling.hpp"

namespace troupe {

namespace {

std::int64_t out_extent(std::int64_t extent, std::int64_t kernel, std::int64_t stride, std::int64_t pad, bool ceil) {
  const std::int64_t room = extent + 2 * pad - kernel;
  std::int64_t out = (room + (ceil ? stride - 1 : 0)) / stride + 1;
  if (ceil && (out - 1) * stride >= extent + pad) --out;
  return out;
}

}  // namespace

pooling::pooling(const options& o)
    : kernel_h_(o.integer("kernel_h") > 0 ? o.integer("kernel_h") : o.integer("kernel")),
      kernel_w_(o.integer("kernel_w") > 0 ? o.integer("kernel_w") : o.integer("kernel")),
      stride_(o.integer("stride")),
      pad_(o.integer("pad")),
      ceil_(o.text("rounding") == "ceil"),
      count_padding_(!o.has("count_padding") || o.flag("count_padding")) {
  if ((kernel_h_ <= 0) != (kernel_w_ <= 0))
    throw option_error("kernel", "set 'kernel', or both 'kernel_h' and 'kernel_w', or none of them");
  if (kernel_h_ > 0 && (pad_ >= kernel_h_ || pad_ >= kernel_w_)) throw option_error("pad", "'pad' must be smaller than the kernel");
  if (kernel_h_ <= 0 && (pad_ != 0 || stride_ != 1)) throw option_error("kernel", "'stride' and 'pad' require a 'kernel'");
}

pool_geometry pooling::geometry(const shape& x) const {
  pool_geometry g;
  g.planes = x[0] * x[1], g.height = x[2], g.width = x[3];
  g.kernel_h = kernel_h_ > 0 ? kernel_h_ : g.height;
  g.kernel_w = kernel_w_ > 0 ? kernel_w_ : g.width;
  g.stride_h = g.stride_w = stride_;
  g.pad_h = g.pad_w = pad_;
  g.out_h = out_extent(g.height, g.kernel_h, stride_, pad_, ceil_);
  g.out_w = out_extent(g.width, g.kernel_w, stride_, pad_, ceil_);
  g.count_padding = count_padding_;
  return g;
}

shapes pooling::infer(const shapes& in) const {
  want(in.size() == 1 && in[0].rank() == 4, "one input [N, C, H, W]", in);
  want(in[0][2] + 2 * pad_ >= kernel_h_ && in[0][3] + 2 * pad_ >= kernel_w_,
       "an image no smaller than the kernel " + shape{kernel_h_, kernel_w_}.to_string() + " (pad " + std::to_string(pad_) + ")",
       in);
  want(in[0][2] * in[0][3] < (1 << 24), "fewer than 2^24 pixels in a plane", in);
  const pool_geometry g = geometry(in[0]);
  return {shape{in[0][0], in[0][1], g.out_h, g.out_w}};
}

signatures pooling::supported() const {
  using enum distribution;
  return alike({split_0, split_1, broadcast}, 1);
}

option_specs pooling_options() {
  return {integer_option("kernel", 0, "height and width of the window; 0: the whole image"),
          integer_option("kernel_h", 0, "height of the window, if not square"),
          integer_option("kernel_w", 0, "width of the window, if not square"),
          integer_option("stride", 1, "distance between windows, in pixels", 1),
          integer_option("pad", 0, "rows and columns of padding on each side of the image"),
          choice_option("rounding", {"ceil", "floor"}, "rounding of the output extents: ceil as in Caffe, floor as in PyTorch")};
}

std::vector<layer_case> pooling_cases() {
  using i = std::int64_t;
  const auto with = [](i kernel, i stride, i pad, const char* rounding) {
    return options{{{"kernel", kernel}, {"stride", stride}, {"pad", pad}, {"rounding", std::string(rounding)}}};
  };
  return {
      example("2 by 2", with(2, 2, 0, "ceil"), {{2, 3, 6, 8}}),
      example("3 by 2, clipped at the border", with(3, 2, 0, "ceil"), {{2, 2, 8, 6}}),
      example("3 by 2, rounded down", with(3, 2, 0, "floor"), {{2, 2, 8, 6}}),
      example("overlapping, padded", with(3, 1, 1, "ceil"), {{1, 2, 5, 4}}),
      example("padded, a last window beyond it dropped", with(2, 2, 1, "ceil"), {{2, 1, 5, 4}}),
      example("stride beyond the kernel", with(2, 3, 0, "ceil"), {{1, 2, 8, 7}}),
      example("1x1 image", with(1, 1, 0, "ceil"), {{3, 2, 1, 1}}),
      example("whole image", {}, {{2, 3, 4, 5}}),
      example("long rows", with(3, 2, 1, "ceil"), {{1, 1, 4, 41}}),
      example("oblong", options{{{"kernel_h", i{1}}, {"kernel_w", i{3}}}}, {{2, 2, 3, 7}}),
  };
}

}  // namespace troupe
