// Imports of PyTorch's weights: tensors whose dtype no weights have.
#include "runtime/node/models/torch/torch_weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class torch_weights : public testing::Test {
 protected:
  // A file of another tool: this header, and as many bytes of data.
  std::string write(std::string header, std::size_t data) {
    std::vector<std::uint8_t> file(8);
    for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<std::uint8_t>(header.size() >> (8 * i));
    file.insert(file.end(), header.begin(), header.end());
    file.resize(file.size() + data);
    const auto path = dir_.file("w.safetensors");
    test::write_bytes(path, file);
    return path;
  }
  static expected<imported_model, diagnostics> read(const std::string& file, name_pairs names = {}) {
    return torch_format().read({{file}, std::move(names)});
  }
  test::temp_dir dir_;
};

TEST_F(torch_weights, take_floats_and_note_what_is_left_out) {
  const auto file = write(
      R"({"mask":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]},"w":{"dtype":"F16","shape":[2],"data_offsets":[2,6]}})", 6);
  const auto m = read(file);
  ASSERT_EQ(test::error_text(m), "");
  ASSERT_EQ(m->weights.size(), 1u);
  EXPECT_EQ(m->weights[0].first, "w");
  EXPECT_EQ(m->weights[0].second.type(), dtype::f32);
  EXPECT_THAT(m->notes, ElementsAre("left out: mask (BOOL, weights are floats)"));
  EXPECT_THAT(test::error_text(read(file, {{"mask", "a"}, {"w", "b"}})),
              HasSubstr("tensor 'mask' is BOOL, but weights are floats"));
}

TEST_F(torch_weights, are_an_error_when_there_are_none) {
  EXPECT_THAT(test::error_text(read(write("{}", 0))), HasSubstr("it has no tensors that are weights"));
  test::write_bytes(dir_.file("empty.safetensors"), {});
  EXPECT_THAT(test::error_text(read(dir_.file("empty.safetensors"))), HasSubstr("empty"));
}

}  // namespace
}  // namespace troupe
