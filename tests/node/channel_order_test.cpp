// The order of the planes of colour pictures: a picture that a user gives to a trained net has the
// numbers that training on the same picture has, whatever the source, and after every way that a
// net or its data takes (net file, HTTP, ONNX, packed data, validation split).
#include <gtest/gtest.h>

#include "ops/device.hpp"
#include "runtime/data/packed.hpp"
#include "runtime/data/validation.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/images/image_list.hpp"
#include "runtime/node/models/onnx/onnx_export.hpp"
#include "runtime/node/models/onnx/onnx_import.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/predict/net_file.hpp"
#include "runtime/node/serving/request_body.hpp"
#include "tests/error_text.hpp"
#include "tests/node/image_files.hpp"

namespace troupe {
namespace {

using namespace image_test;

constexpr std::uint32_t height = 2, width = 3;

class channel_orders : public testing::TestWithParam<channel_order> {
 protected:
  void SetUp() override {
    for (const char* part : {"train", "test"})
      for (const char* name : {"a", "b"}) put(dir_.file(std::string(part) + "/" + name + "/0.png"), png_of(width, height, pixels_));
  }

  // A net for the pictures; `more`: further lines of [data].
  std::shared_ptr<prepared_job> job(const std::string& more = "channel_mean = [0.1, 0.2, 0.3]\n") const {
    const std::string text =
        "[data]\nsource = \"images\"\npath = \"" + dir_.path + "\"\nbatch = 1\nchannel_order = \"" + name_of(GetParam()) + "\"\n" +
        more +
        "[[layer]]\nname = \"scores\"\ntype = \"linear\"\ninputs = [\"data\"]\noutputs = 2\n[[layer]]\nname = "
        "\"loss\"\ntype = \"softmax_loss\"\ninputs = [\"scores\", \"label\"]\n[train]\nfinish = { steps = 1 }\n";
    auto made = prepare_text({text, "net.toml", {}}, std::make_shared<const tables>(node_tables()));
    EXPECT_EQ(test::error_text(made), "");
    return *made;
  }
  std::string picture() const { return dir_.file("test/a/0.png"); }

  static std::vector<float> read(const source& s, split part, std::int64_t i) {
    std::vector<float> values(static_cast<std::size_t>(s.example().count()));
    std::vector<std::int32_t> labels(1);
    auto data = tensor::borrow(values.data(), shape{1, s.example()[0], s.example()[1], s.example()[2]}, dtype::f32);
    auto label = tensor::borrow(labels.data(), shape{1}, dtype::i32);
    s.read(part, {i}, data, label);
    return values;
  }

  test::temp_dir dir_;
  bytes pixels_ = image_test::picture(width, height, 3, 7);
};

INSTANTIATE_TEST_SUITE_P(both, channel_orders, testing::Values(channel_order::rgb, channel_order::bgr),
                         [](const auto& i) { return std::string(name_of(i.param)); });

TEST_P(channel_orders, are_those_of_the_planes_that_the_net_sees) {
  const auto j = job();
  const double means[] = {0.1, 0.2, 0.3};
  const auto values = read(*j->data, split::test, 0);
  for (std::size_t c = 0; c < 3; ++c) {
    const auto from = GetParam() == channel_order::bgr ? 2 - c : c;
    for (std::size_t k = 0; k < height * width; ++k)
      EXPECT_FLOAT_EQ(values[c * height * width + k], static_cast<float>(pixels_[3 * k + from] / 255.0 - means[c]));
  }
}

TEST_P(channel_orders, give_a_picture_the_numbers_of_the_example) {
  const auto j = job();
  const auto wanted = read(*j->data, split::test, 0);
  const auto list = open_image_list({picture()}, j->data->example(), *j->data->bytes(), j->data->picture_order(), false);
  ASSERT_EQ(test::error_text(list), "");
  EXPECT_EQ(read(**list, split::test, 0), wanted);
}

TEST_P(channel_orders, are_kept_by_a_net_file_and_honoured_by_the_server) {
  const auto j = job();
  const auto made = net_file_bytes(*j, initial_weights(*j, *make_cpu_device()), net_weights::f32);
  ASSERT_EQ(test::error_text(made), "");
  const auto owner = std::make_shared<std::string>(*made);
  const auto net = read_net_file(owner, owner->data(), owner->size(), "net.troupe");
  ASSERT_EQ(test::error_text(net), "");
  EXPECT_EQ((*net)->data->picture_order(), GetParam());
  const auto file = test::read_bytes(picture());
  const auto body = examples_of_body(std::string(file.begin(), file.end()), **net, {}, 1);
  ASSERT_EQ(test::error_text(body), "");
  EXPECT_EQ(body->values, read(*j->data, split::test, 0));
}

TEST_P(channel_orders, are_kept_by_packed_data_and_by_a_validation_split) {
  const auto j = job();
  ASSERT_EQ(test::error_text(pack(*j->data, dir_.file("p"))), "");
  const auto packed = open_packed(*open_bytes(dir_.file("p")), "p");
  ASSERT_EQ(test::error_text(packed), "");
  EXPECT_EQ((*packed)->picture_order(), GetParam());
  EXPECT_EQ(read(**packed, split::test, 0), read(*j->data, split::test, 0));
  EXPECT_EQ(with_validation(j->data, 0.5, 1)->picture_order(), GetParam());
}

TEST_P(channel_orders, are_part_of_an_onnx_model) {
  const auto j = job();
  const auto made = onnx::export_job(*j, initial_weights(*j, *make_cpu_device()), {});
  ASSERT_EQ(test::error_text(made), "");
  const auto bytes = onnx::model_bytes(made->model);
  ASSERT_TRUE(bytes);
  const auto back = onnx::parse_model({reinterpret_cast<const std::uint8_t*>(bytes->data()), bytes->size()});
  ASSERT_EQ(test::error_text(back), "");
  const bool bgr = GetParam() == channel_order::bgr;
  ASSERT_EQ(back->metadata.size(), 1u);
  EXPECT_EQ(back->metadata[0], (std::pair<std::string, std::string>("Image.BitmapPixelFormat", bgr ? "Bgr8" : "Rgb8")));
  const auto imported = onnx::import_graph(*back, "net.onnx");
  ASSERT_EQ(test::error_text(imported), "");
  EXPECT_EQ(imported->job.find("channel_order = \"bgr\"") != std::string::npos, bgr);
}

TEST_P(channel_orders, do_not_matter_to_grey_pictures) {
  const auto j = job("channels = 1\n");
  const auto list = open_image_list({picture()}, j->data->example(), *j->data->bytes(), j->data->picture_order(), false);
  EXPECT_EQ(read(**list, split::test, 0), read(*j->data, split::test, 0));
}

}  // namespace
}  // namespace troupe
