// Event files of TensorBoard: framing and checksums byte by byte, contents as protoc decodes them
// by the published format, and the picture of filters.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "ops/bf16.hpp"
#include "runtime/node/images/decode.hpp"
#include "runtime/node/tensorboard/tensorboard_log.hpp"
#include "runtime/reduce/histogram.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using test::temp_dir;
using ::testing::HasSubstr;

// CRC32C bit by bit, independent of runtime/checksum.
std::uint32_t masked_bitwise(const std::string& bytes) {
  std::uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<std::uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::string file_text(const std::filesystem::path& file) {
  std::ostringstream all;
  all << std::ifstream(file, std::ios::binary).rdbuf();
  return all.str();
}

// The records of a file as TensorBoard's reader takes them: it stops at the first that is not
// complete or damaged.
std::vector<std::string> records_in(const std::string& bytes) {
  std::vector<std::string> list;
  std::size_t at = 0;
  const auto number = [&](std::size_t from) {
    std::uint32_t v = 0;
    std::memcpy(&v, bytes.data() + from, sizeof v);
    return v;
  };
  while (bytes.size() - at >= 12) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    if (number(at + 8) != masked_bitwise(bytes.substr(at, 8)) || length > bytes.size() - at - 12 ||
        bytes.size() - at - 12 - length < 4)
      break;
    auto data = bytes.substr(at + 12, length);
    if (number(at + 12 + length) != masked_bitwise(data)) break;
    list.push_back(std::move(data));
    at += 16 + length;
  }
  return list;
}

bool has_protoc() { return std::system("protoc --version >/dev/null 2>&1") == 0; }

// The text form of an Event by protoc and tensorboard_event.proto.
std::string decoded(const std::string& record, const temp_dir& dir) {
  std::ofstream(dir.file("record"), std::ios::binary) << record;
  const auto command = "protoc --proto_path=" + std::string(TROUPE_SOURCE_DIR) +
                       "/tests/node --decode=Event tensorboard_event.proto < " + dir.file("record") + " > " + dir.file("text") +
                       " 2>&1";
  if (std::system(command.c_str()) != 0) return "protoc: " + file_text(dir.file("text"));
  return file_text(dir.file("text"));
}

event_file opened_event_file(const std::filesystem::path& folder, double now = 1700000000.25) {
  auto f = event_file::open(folder, now);
  if (!f) throw std::runtime_error(f.error().to_string());
  return std::move(*f);
}

TEST(tensorboard, begins_with_the_file_version_and_masked_checksums) {
  EXPECT_EQ(masked_bitwise("123456789"), (0xe3069283u >> 15 | 0xe3069283u << 17) + 0xa282ead8u) << "the check value of CRC32C";
  temp_dir dir;
  const auto f = opened_event_file(dir.path);
  EXPECT_THAT(f.path().filename().string(), ::testing::StartsWith("events.out.tfevents.1700000000."));
  const auto bytes = file_text(f.path());
  std::string data = "\x09";
  const double now = 1700000000.25;
  data.append(reinterpret_cast<const char*>(&now), sizeof now);
  data +=
      "\x1a\x0d"
      "brain.Event:2";
  std::string want("\x18\0\0\0\0\0\0\0", 8);
  const auto put = [&](std::uint32_t crc) { want.append(reinterpret_cast<const char*>(&crc), sizeof crc); };
  put(masked_bitwise(want));
  want += data;
  put(masked_bitwise(data));
  EXPECT_EQ(bytes, want);
}

TEST(tensorboard, scalars_and_histograms_are_read_by_the_published_format) {
  if (!has_protoc()) GTEST_SKIP() << "protoc is not installed (package protobuf-compiler)";
  temp_dir dir;
  auto f = opened_event_file(dir.path);
  f.scalar(300, 1700000001.5, "train/loss", 0.75);
  const auto values = std::make_shared<std::vector<float>>(std::vector<float>{-1, 0, 0, 3});
  f.histogram(~0ull >> 1, 2, "weights/ip.weight", count_values(tensor::adopt(values, values->data(), {4}, dtype::f32)));
  f.histogram(1, 2, "weights/none", {});
  ASSERT_EQ(test::error_text(f.flush()), "");
  const auto all = records_in(file_text(f.path()));
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(decoded(all[1], dir),
            "wall_time: 1700000001.5\nstep: 300\nsummary {\n  value {\n    tag: \"train/loss\"\n    simple_value: 0.75\n  }\n}\n");
  const auto& limits = histogram_limits();
  const auto histo = decoded(all[2], dir);
  EXPECT_THAT(histo, HasSubstr("step: 9223372036854775807\n"));
  EXPECT_THAT(
      histo,
      HasSubstr("    tag: \"weights/ip.weight\"\n    histo {\n      min: -1\n      max: 3\n      num: 4\n      sum: 2\n      "
                "sum_squares: 10\n"));
  // Buckets: none below -1, one at -1, none up to 0, two zeros, none up to 3, one at 3.
  EXPECT_THAT(histo,
              HasSubstr("bucket: 0\n      bucket: 1\n      bucket: 0\n      bucket: 2\n      bucket: 0\n      bucket: 1\n    }"));
  const auto at = histo.find("bucket_limit: 0\n");
  EXPECT_NE(at, std::string::npos) << histo;
  EXPECT_NE(histo.find("bucket_limit: 1e-12\n"), std::string::npos) << histo << limits.size();
  EXPECT_THAT(decoded(all[3], dir), HasSubstr("bucket: 0\n"));
}

TEST(tensorboard, sums_of_buckets_are_the_number_of_values) {
  if (!has_protoc()) GTEST_SKIP() << "protoc is not installed (package protobuf-compiler)";
  temp_dir dir;
  auto f = opened_event_file(dir.path);
  value_histogram every;
  for (std::size_t i = 1; i < histogram_limits().size(); ++i) every.buckets.emplace_back(static_cast<std::uint16_t>(i), i);
  for (const auto& b : every.buckets) every.count += b.second;
  f.histogram(1, 2, "h", every);
  ASSERT_TRUE(f.flush());
  std::istringstream lines(decoded(records_in(file_text(f.path())).at(1), dir));
  double sum = 0, limit = 0;
  std::size_t limits = 0, counts = 0;
  for (std::string name, value; lines >> name;) {
    if (name != "bucket:" && name != "bucket_limit:") continue;
    lines >> value;
    if (name == "bucket:") {
      sum += std::stod(value), ++counts;
      continue;
    }
    if (++limits > 1) {
      EXPECT_GT(std::stod(value), limit);
    }
    limit = std::stod(value);
  }
  EXPECT_EQ(sum, static_cast<double>(every.count));
  EXPECT_EQ(limits, counts);
  EXPECT_EQ(limits, histogram_limits().size()) << "the empty bucket below the first one is written too";
}

TEST(tensorboard, a_torn_tail_loses_only_the_last_record) {
  temp_dir dir;
  std::string bytes;
  {
    auto f = opened_event_file(dir.path);
    for (std::uint64_t step = 1; step <= 3; ++step) f.scalar(step, 1, "train/loss", 1);
    ASSERT_EQ(test::error_text(f.flush()), "");
    bytes = file_text(f.path());
  }
  const auto whole = records_in(bytes);
  ASSERT_EQ(whole.size(), 4u);
  const auto last = bytes.size() - 16 - whole.back().size();
  for (auto n = last; n < bytes.size(); ++n) ASSERT_EQ(records_in(bytes.substr(0, n)).size(), 3u) << n;
  for (auto i = last; i < bytes.size(); ++i) {
    auto damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    ASSERT_EQ(records_in(damaged).size(), 3u) << i;
  }
}

TEST(tensorboard, every_session_writes_a_new_file) {
  temp_dir dir;
  std::set<std::string> names;
  for (int i = 0; i < 3; ++i) names.insert(opened_event_file(std::filesystem::path(dir.path) / "tensorboard").path().string());
  names.insert(opened_event_file(std::filesystem::path(dir.path) / "tensorboard", 999999999).path().string());
  EXPECT_EQ(names.size(), 4u);
  EXPECT_THAT(*names.begin(), HasSubstr("tfevents.0999999999.")) << "the order of names is that of time";
}

// TensorBoard then forgets this step and later ones of earlier files.
TEST(tensorboard, a_restart_is_a_session_log_with_the_first_repeated_step) {
  temp_dir dir;
  auto f = opened_event_file(dir.path);
  f.restart(41, 1700000001.5);
  ASSERT_EQ(test::error_text(f.flush()), "");
  const auto all = records_in(file_text(f.path()));
  ASSERT_EQ(all.size(), 2u);
  // wall_time (field 1, fixed64), step (field 2), session_log (field 7) with status START = 1.
  EXPECT_EQ(all[1].substr(9), std::string("\x10\x29\x3a\x02\x08\x01", 6));
}

TEST(tensorboard, writes_when_the_buffer_is_full_and_when_closed) {
  temp_dir dir;
  std::filesystem::path path;
  {
    auto f = opened_event_file(dir.path);
    path = f.path();
    f.scalar(1, 1, std::string(60'000, 'x'), 1);
    EXPECT_EQ(records_in(file_text(path)).size(), 1u);
    f.scalar(2, 1, std::string(60'000, 'x'), 1);
    EXPECT_EQ(records_in(file_text(path)).size(), 3u);
    f.scalar(3, 1, "t", 1);
    auto moved = std::move(f);
    moved.scalar(4, 1, "t", 1);
  }
  EXPECT_EQ(records_in(file_text(path)).size(), 5u);
}

TEST(tensorboard, errors_name_the_file) {
  temp_dir dir;
  std::ofstream(dir.file("file")) << "x";
  const auto in_file = event_file::open(dir.file("file") + "/tensorboard", 1);
  ASSERT_FALSE(in_file);
  EXPECT_THAT(in_file.error().to_string(), HasSubstr(dir.file("file")));
  // A device without space stands for a full disk.
  auto f = opened_event_file(dir.path);
  f.scalar(1, 1, "t", 1);
  const auto full = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  int fd = -1;
  for (const auto& e : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(e.path(), gone) == f.path()) fd = std::stoi(e.path().filename().string());
  }
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::dup2(full, fd), fd);
  ::close(full);
  const auto why = test::error_text(f.flush());
  EXPECT_THAT(why, HasSubstr(f.path().string()));
  EXPECT_THAT(why, HasSubstr("No space left"));
  f.scalar(2, 1, "t", 1);
  EXPECT_FALSE(f.flush()) << "the first error remains";
}

TEST(tensorboard_log, maps_events_to_tags) {
  if (!has_protoc()) GTEST_SKIP() << "protoc is not installed (package protobuf-compiler)";
  temp_dir dir;
  auto made = tensorboard_log::open(dir.path, 1);
  ASSERT_TRUE(made);
  auto& log = *made;
  log.event({7, step_event{.loss = 0.5, .lr = 0.25, .examples_per_s = 1000, .step_seconds = 0.1}}, 2);
  log.event({8, eval_event{.accuracy = 0.75, .loss = 0.5}}, 3);
  log.event({8, paused_event{}}, 4);
  value_histogram h{1, 1, 0, 0, 0, 0, 0, {{static_cast<std::uint16_t>(bucket_of(0)), 1}}};
  for (const bool gradient : {false, true}) log.event({9, histogram_event{gradient, "conv1.weight", h}}, 5);
  ASSERT_EQ(test::error_text(log.flush()), "");
  const auto all = records_in(file_text(log.path()));
  std::vector<std::string> tags;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const auto text = decoded(all[i], dir);
    const auto from = text.find("tag: \"") + 6;
    tags.push_back(text.substr(from, text.find('"', from) - from));
  }
  EXPECT_THAT(tags, ::testing::ElementsAre("train/loss", "train/lr", "train/examples_per_s", "test/accuracy", "test/loss",
                                           "weights/conv1.weight", "gradients/conv1.weight"));
}

// --- filters

template <class T>
tensor filters_of(std::vector<T> values, shape dims) {
  const auto v = std::make_shared<std::vector<T>>(std::move(values));
  return tensor::adopt(v, v->data(), dims, dtype_of<T>);
}

images::image pixels_of(const std::optional<summary_image>& i) {
  if (!i) throw std::runtime_error("no image");
  const std::vector<std::uint8_t> file(i->png.begin(), i->png.end());
  auto got = images::decode_image(file, i->channels);
  if (!got) throw std::runtime_error(got.error().text);
  auto image = *std::move(got);
  EXPECT_EQ(image.width, i->width);
  EXPECT_EQ(image.height, i->height);
  EXPECT_EQ(image.channels, i->channels);
  return image;
}

TEST(filter_image, draws_a_grid_with_borders_between_black_and_white) {
  // Three grey filters of 1 x 2 values: a grid of 2 x 2, each value 16 pixels wide and high.
  const auto image = pixels_of(filter_image(filters_of<float>({-1, 1, 0, 0, 0.5f, -0.5f}, {3, 1, 1, 2})));
  ASSERT_EQ(image.width, 1 + 33 + 33);
  ASSERT_EQ(image.height, 1 + 17 + 17);
  const auto at = [&](std::int64_t x, std::int64_t y) { return image.bytes[static_cast<std::size_t>(y * image.width + x)]; };
  for (std::int64_t x = 0; x < image.width; ++x)
    for (const std::int64_t y : {0, 17, 34}) EXPECT_EQ(at(x, y), 0) << "border";
  for (std::int64_t y = 0; y < image.height; ++y)
    for (const std::int64_t x : {0, 33, 66}) EXPECT_EQ(at(x, y), 0) << "border";
  for (std::int64_t y = 1; y < 17; ++y) {
    for (std::int64_t x = 0; x < 16; ++x) {
      EXPECT_EQ(at(1 + x, y), 0);
      EXPECT_EQ(at(17 + x, y), 255);
      EXPECT_EQ(at(34 + x, y), 128);
      EXPECT_EQ(at(1 + x, 17 + y), 191);
      EXPECT_EQ(at(17 + x, 17 + y), 64);
      EXPECT_EQ(at(34 + x, 17 + y), 0) << "no fourth filter";
    }
  }
}

TEST(filter_image, shows_three_channels_as_colours) {
  const auto image = pixels_of(filter_image(filters_of<double>({0, 0.5, 1}, {1, 3, 1, 1})));
  ASSERT_EQ(image.channels, 3);
  const auto* p = &image.bytes[static_cast<std::size_t>((image.width + 1) * 3)];
  EXPECT_EQ(p[0], 0);
  EXPECT_EQ(p[1], 128);
  EXPECT_EQ(p[2], 255);
}

TEST(filter_image, reads_bf16_and_skips_values_that_are_not_finite) {
  const auto nan = to_bf16(std::numeric_limits<float>::quiet_NaN());
  const auto image = pixels_of(filter_image(filters_of<bf16>({to_bf16(0), to_bf16(2), nan}, {3, 1, 1, 1})));
  EXPECT_EQ(image.bytes[static_cast<std::size_t>(image.width + 1)], 0);
  EXPECT_EQ(image.bytes[static_cast<std::size_t>(image.width + 34)], 255);
  EXPECT_EQ(image.bytes[static_cast<std::size_t>(34 * image.width + 1)], 0);
  const auto flat = pixels_of(filter_image(filters_of<float>({3, 3}, {2, 1, 1, 1})));
  EXPECT_EQ(flat.bytes[static_cast<std::size_t>(flat.width + 1)], 128) << "equal values are grey";
}

TEST(filter_image, shows_at_most_256_filters) {
  const auto image = filter_image(filters_of<float>(std::vector<float>(300 * 25, 1.0f), {300, 1, 5, 5}));
  ASSERT_TRUE(image);
  EXPECT_EQ(image->width, 16u * (6 * 5 + 1) + 1);
  EXPECT_EQ(image->height, 16u * (6 * 5 + 1) + 1);
}

TEST(filter_image, has_none_of_other_weights) {
  EXPECT_FALSE(filter_image(filters_of<float>(std::vector<float>(8, 1.0f), {2, 2, 1, 2}))) << "two input channels";
  EXPECT_FALSE(filter_image(filters_of<float>({1, 2}, {1, 2})));
  EXPECT_FALSE(filter_image(tensor::declare({2, 1, 3, 3}, dtype::f32)));
  EXPECT_FALSE(filter_image(filters_of<float>(std::vector<float>(100, 1.0f), {1, 1, 1, 100})));
}

TEST(tensorboard_log, shows_the_filters_of_the_first_layer) {
  if (!has_protoc()) GTEST_SKIP() << "protoc is not installed (package protobuf-compiler)";
  temp_dir dir;
  auto made = tensorboard_log::open(dir.path, 1);
  auto& log = *made;
  const auto conv1 = filters_of<float>({0, 1, 2, 3}, {1, 1, 2, 2}), conv2 = filters_of<float>({0, 1, 2, 3}, {4, 1, 1, 1});
  log.weights(5, 2, {{"conv1.weight", conv1}, {"conv1.bias", filters_of<float>({0}, {1})}, {"conv2.weight", conv2}});
  log.weights(6, 2, {{"ip.weight", filters_of<float>({0, 1}, {1, 2})}});
  ASSERT_EQ(test::error_text(log.flush()), "");
  const auto all = records_in(file_text(log.path()));
  ASSERT_EQ(all.size(), 2u);
  const auto text = decoded(all[1], dir);
  EXPECT_THAT(text,
              HasSubstr("tag: \"filters/conv1.weight\"\n    image {\n      height: 34\n      width: 34\n      colorspace: 1\n"));
  EXPECT_THAT(text, HasSubstr("encoded_image_string: \"\\211PNG"));
}

}  // namespace
}  // namespace troupe
