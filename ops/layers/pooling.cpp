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
    : kernel_(kernel_of(o)),
      stride_(o.by_axis("stride")),
      pad_(o.by_axis("pad")),
      ceil_(o.text("rounding") == "ceil"),
      count_padding_(!o.has("count_padding") || o.flag("count_padding")) {
  if ((kernel_[0] <= 0) != (kernel_[1] <= 0))
    throw option_error("kernel", "set 'kernel', or both 'kernel_h' and 'kernel_w', or none of them");
  if (kernel_[0] > 0 && (pad_[0] >= kernel_[0] || pad_[1] >= kernel_[1]))
    throw option_error("pad", "'pad' must be smaller than the kernel");
  if (kernel_[0] <= 0 && (pad_ != by_axes{0, 0} || stride_ != by_axes{1, 1}))
    throw option_error("kernel", "'stride' and 'pad' require a 'kernel'");
}

// An input [N, C, L] counts as images of height 1.
pool_geometry pooling::geometry(const shape& x) const {
  pool_geometry g;
  const bool image = x.rank() == 4;
  g.planes = x[0] * x[1], g.height = image ? x[2] : 1, g.width = x[x.rank() - 1];
  g.kernel_h = image && kernel_[0] > 0 ? kernel_[0] : g.height;
  g.kernel_w = kernel_[1] > 0 ? kernel_[1] : g.width;
  g.stride_h = image ? stride_[0] : 1, g.stride_w = stride_[1];
  g.pad_h = image ? pad_[0] : 0, g.pad_w = pad_[1];
  g.out_h = out_extent(g.height, g.kernel_h, g.stride_h, g.pad_h, ceil_);
  g.out_w = out_extent(g.width, g.kernel_w, g.stride_w, g.pad_w, ceil_);
  g.count_padding = count_padding_;
  return g;
}

shapes pooling::infer(const shapes& in) const {
  const bool square = kernel_[0] == kernel_[1] && stride_[0] == stride_[1] && pad_[0] == pad_[1];
  want(in.size() == 1 && (in[0].rank() == 4 || (in[0].rank() == 3 && square)),
       square ? "one input [N, C, H, W] or [N, C, L]" : "one input [N, C, H, W] for a window that differs by axis", in);
  const pool_geometry g = geometry(in[0]);
  want(g.height + 2 * g.pad_h >= g.kernel_h && g.width + 2 * g.pad_w >= g.kernel_w,
       "an image no smaller than the kernel " + shape{g.kernel_h, g.kernel_w}.to_string() + " (pad " + text_of(pad_) + ")", in);
  want(g.height * g.width < (1 << 24), "fewer than 2^24 pixels in a plane", in);
  return {images_like(in[0], in[0][1], {g.out_h, g.out_w})};
}

signatures pooling::supported() const {
  using enum distribution;
  return alike({split_0, split_1, broadcast}, 1);
}

option_specs pooling_options() {
  return {by_axis_option("kernel", 0, "height and width of the window; 0: the whole image"),
          integer_option("kernel_h", 0, "height of the window, if not square"),
          integer_option("kernel_w", 0, "width of the window, if not square"),
          by_axis_option("stride", 1, "distance between windows, in pixels", 1),
          by_axis_option("pad", 0, "rows and columns of padding on each side of the image"),
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
      example("by axis, not to the border",
              options{{{"kernel", std::vector<i>{3, 2}}, {"stride", std::vector<i>{2, 3}}, {"pad", std::vector<i>{1, 0}}}},
              {{2, 2, 6, 9}}),
      example("stride by axis, rounded down",
              options{{{"kernel", i{2}}, {"stride", std::vector<i>{1, 2}}, {"rounding", std::string("floor")}}}, {{2, 2, 4, 7}}),
      example("two rows, long steps",
              options{{{"kernel", std::vector<i>{2, 5}}, {"stride", std::vector<i>{2, 4}}, {"pad", std::vector<i>{0, 2}}}},
              {{1, 2, 5, 21}}),
      example("a series", with(3, 2, 1, "ceil"), {{2, 3, 10}}),
      example("a whole series", {}, {{2, 3, 7}}),
      example("oblong", options{{{"kernel_h", i{1}}, {"kernel_w", i{3}}}}, {{2, 2, 3, 7}}),
  };
}

}  // namespace troupe
