#include "runtime/node/images/image_list.hpp"

#include <algorithm>
#include <cassert>
#include <stdexcept>

#include "runtime/data/byte_tables.hpp"
#include "runtime/node/images/image_file.hpp"
#include "runtime/node/images/resize.hpp"

namespace troupe {
namespace {

using namespace images;

class image_list final : public source {
 public:
  image_list(std::vector<std::string> files, shape example, const byte_scaling& scaling, channel_order order, bool resize)
      : files_(std::move(files)), example_(example), order_(order), tables_(scaling), resize_(resize) {}

  shape example() const override { return example_; }
  std::int64_t classes() const override { return 0; }
  channel_order picture_order() const override { return order_; }
  std::int64_t size(split s) const override { return s == split::test ? static_cast<std::int64_t>(files_.size()) : 0; }
  bool decodes() const override { return true; }

  void read(split, const std::vector<std::int64_t>& indices, tensor& data, tensor& label) const override {
    assert(data.count() == static_cast<std::int64_t>(indices.size()) * example_.count());
    data.type() == dtype::f64 ? fill(indices, data.mutable_data<double>()) : fill(indices, data.mutable_data<float>());
    std::fill_n(label.mutable_data<std::int32_t>(), label.count(), -1);
  }

 private:
  template <class T>
  void fill(const std::vector<std::int64_t>& indices, T* out) const {
    const auto n = static_cast<std::size_t>(example_.count());
    std::vector<std::uint8_t> bytes;
    for (auto i : indices) {
      if (i < 0) {
        std::fill_n(out, n, T{0});
      } else {
        bytes.clear();
        append_planes(load(files_[static_cast<std::size_t>(i)]), order_, bytes);
        tables_.fill(bytes.data(), n, out);
      }
      out += n;
    }
  }

  image load(const std::string& path) const {
    const auto height = example_[1], width = example_[2];
    auto r = read_image(path, static_cast<int>(example_[0]), resize_ ? wanted_size{} : wanted_size{height, width});
    if (!r) throw std::runtime_error(path + ": " + r.error().text);
    auto& m = *r;
    return m.height == height && m.width == width ? std::move(m) : resized(m, height, width);
  }

  std::vector<std::string> files_;
  shape example_;
  channel_order order_;
  byte_tables tables_;
  bool resize_;
};

}  // namespace

expected<std::shared_ptr<const source>> open_image_list(std::vector<std::string> files, const shape& example,
                                                        const byte_scaling& scaling, channel_order order, bool resize) {
  for (const auto& path : files) {
    const auto r = size_of_image_file(path);
    if (!r) return unexpected(r.error().in(path));
    const auto& is = *r;
    if (!resize && (is.height != example[1] || is.width != example[2]))
      return unexpected(error(path + ": the image is " + std::to_string(is.height) + "x" + std::to_string(is.width) +
                              " (height x width), but the net takes " + std::to_string(example[1]) + "x" +
                              std::to_string(example[2]) + "; --resize brings all images to that size"));
  }
  return std::make_shared<image_list>(std::move(files), example, scaling, order, resize);
}

}  // namespace troupe
