#include "runtime/node/images/settings.hpp"

#include <utility>
#include <vector>

#include "ops/option_specs.hpp"
#include "runtime/data/source_options.hpp"

namespace troupe::images {
namespace {

constexpr double max_side = 65535;

folder_choice folder_of(const options& o, const char* key, const char* usual) {
  const auto& path = o.text("path");
  const auto& named = o.text(key);
  folder_choice f;
  f.key = named.empty() ? "path" : key;
  if (path.empty()) throw option_error("path", "option 'path' is empty");
  check_path_text(f.key, path + named);
  f.path = named.empty() ? path + "/" + usual : named.front() == '/' ? named : named == "." ? path : path + "/" + named;
  while (f.path.size() > 1 && f.path.back() == '/') f.path.pop_back();
  return f;
}

void read_size(const options& o, settings& s) {
  const auto side = o.integer("size");
  s.height = o.integer("height");
  s.width = o.integer("width");
  if (side != 0 && (s.height != 0 || s.width != 0))
    throw option_error("size", "size already sets height and width: give either size, or height and width");
  if ((s.height == 0) != (s.width == 0)) {
    const std::string has = s.height != 0 ? "height" : "width", lacks = s.height != 0 ? "width" : "height";
    throw option_error(has, has + " is set without " + lacks + ": set both");
  }
  if (side != 0) s.height = s.width = side;
  s.resize = o.flag("resize");
  if (s.resize && s.height == 0) throw option_error("resize", "resize has no target size: set size, or height and width");
}

// One number for all channels, or one per channel.
std::array<double, 3> per_channel(const options& o, const char* all, const std::string& each, int channels) {
  const auto& list = o.get<std::vector<double>>(each);
  if (list.empty()) return {o.real(all), o.real(all), o.real(all)};
  if (list.size() != static_cast<std::size_t>(channels))
    throw option_error(
        each, each + " has " + std::to_string(list.size()) + " numbers, but there are " + std::to_string(channels) + " channels");
  std::array<double, 3> out{};
  for (std::size_t i = 0; i < list.size(); ++i) out[i] = list[i];
  return out;
}

}  // namespace

option_specs option_list() {
  const option_value none{std::string{}}, zero{std::int64_t{0}}, no_numbers{std::vector<double>{}};
  using kind = option_kind;
  return {
      option_of("path", kind::text, std::nullopt, "folder of the data set: train/CLASS/ and test/CLASS/ with .png, .jpg, .jpeg"),
      option_of("train_path", kind::text, none,
                "folder of the training classes, in path unless absolute; empty: train; '.': path itself"),
      option_of("test_path", kind::text, none, "folder of the test classes, in path unless absolute; empty: test"),
      bounded(option_of("test_fraction", kind::real, 0.0,
                        "fraction of each class's training images used for testing, instead of a test folder"),
              0, 0.9),
      bounded(option_of("channels", kind::integer, std::int64_t{3}, "3 (colour) or 1 (grey); images are converted"), 1, 3),
      channel_order_option(
          channel_order::rgb,
          "order of the three planes that the net sees, and of channel_scale and channel_mean; bgr: Caffe, OpenCV"),
      bounded(option_of("size", kind::integer, zero, "height and width in pixels; 0: those of the first training image"), 0,
              max_side),
      bounded(option_of("height", kind::integer, zero, "in pixels, with width, instead of size"), 0, max_side),
      bounded(option_of("width", kind::integer, zero, "in pixels, with height, instead of size"), 0, max_side),
      option_of("resize", kind::boolean, false, "images of another size are resized (bilinear); without it they are an error"),
      option_of("scale", kind::real, 1.0 / 255.0, "value = byte * scale - mean"),
      option_of("mean", kind::real, 0.0, "subtracted after scaling"),
      option_of("channel_scale", kind::reals, no_numbers, "instead of scale: one number per channel"),
      option_of("channel_mean", kind::reals, no_numbers, "instead of mean: one number per channel"),
      choice_option("cache", {"memory", "none"}, "none: files are decoded on each read; only their sizes are checked at the start"),
      bounded(option_of("memory_mib", kind::integer, std::int64_t{4096}, "maximum memory for decoded images, one byte per value"),
              1, 1e9)};
}

settings read_settings(const options& o) {
  settings s;
  s.channels = static_cast<int>(o.integer("channels"));
  if (s.channels == 2) throw option_error("channels", "option 'channels' must be 1 or 3, not 2");
  s.order = channel_order_of(o);
  s.train = folder_of(o, "train_path", "train");
  s.test = folder_of(o, "test_path", "test");
  s.test_fraction = o.real("test_fraction");
  if (s.test_fraction > 0) {
    if (!o.text("test_path").empty()) throw option_error("test_fraction", "test_fraction and test_path exclude each other");
    s.test = {};
  }
  read_size(o, s);
  s.keep = o.text("cache") == "memory";
  s.max_bytes = o.integer("memory_mib") << 20;
  s.scale = per_channel(o, "scale", "channel_scale", s.channels);
  s.mean = per_channel(o, "mean", "channel_mean", s.channels);
  return s;
}

}  // namespace troupe::images
