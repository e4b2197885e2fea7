// Job files whose layers would use ids out of range, or values as ids: each error has its position.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/node/job_fixture.hpp"

namespace troupe {
namespace {

using namespace job_test;

TEST(edge_types, one_score_for_ten_classes_is_an_error_of_the_loss) {
  auto lines = sound_lines();
  lines[19] = "outputs = 1";
  EXPECT_EQ(shown(mistakes_of(text_of(lines))),
            "job.toml:24:11: layer 'loss': its input 'ip1' (2x1) has 1 score an example, but the data has 10 classes; "
            "set outputs = 10 in layer 'ip1' (job.toml:20:1), or correct the data: `troupe data` shows what the data holds\n");
  lines[22] = "type = \"hinge\"";
  EXPECT_EQ(shown(mistakes_of(text_of(lines))), "");
}

TEST(edge_types, a_top_k_above_the_number_of_classes_is_an_error) {
  auto lines = sound_lines();
  lines[23] += "\n[[layer]]\nname = \"top\"\ntype = \"accuracy\"\ninputs = [\"ip1\", \"label\"]\ntop_k = 11\nphase = \"test\"";
  EXPECT_EQ(shown(mistakes_of(text_of(lines))), "job.toml:25:1: layer 'top': expects at least top_k = 11 classes, got 2x10, 2\n");
}

TEST(edge_types, values_as_labels_are_an_error_of_losses_that_take_ids) {
  auto lines = sound_lines();
  lines[22] = "type = \"hinge\"";
  lines[23] = "inputs = [\"ip1\", \"ip1\"]";
  const auto announced = shown(mistakes_of(text_of(lines)));
  EXPECT_EQ(announced,
            "job.toml:24:18: layer 'loss': input 1 of a hinge layer takes ids (i32), but 'ip1' (2x10) holds values (f32)\n");
  EXPECT_EQ(shown(mistakes_of(text_of(lines), {"job.precision=\"bf16\""})),
            "job.toml:24:18: layer 'loss': input 1 of a hinge layer takes ids (i32), but 'ip1' (2x10) holds values (bf16)\n");
  lines[22] = "type = \"euclidean\"";
  EXPECT_EQ(shown(mistakes_of(text_of(lines))), "");
  lines[22] = "type = \"sigmoid_cross_entropy\"";
  EXPECT_EQ(shown(mistakes_of(text_of(lines))), "");
}

TEST(edge_types, embeddings_and_losses_take_ids_within_their_range) {
  const auto file = std::filesystem::temp_directory_path() / "troupe_edge_types_test.txt";
  std::ofstream(file) << std::string(200, 'a') + std::string(200, 'b');
  auto lines = sound_lines();
  lines[5] = "source = \"text\"\nsequence = 4";
  lines[6] = "path = \"" + file.string() + "\"";
  lines[10] = "type = \"embedding\"";
  lines[12] = "outputs = 3";
  lines[13] = "vocabulary = 2";
  lines[17] = "type = \"lstm\"";
  lines[19] = "units = 10";
  EXPECT_EQ(shown(mistakes_of(text_of(lines))), "");
  lines[13] = "vocabulary = 1";
  EXPECT_EQ(shown(mistakes_of(text_of(lines))),
            "job.toml:15:1: layer 'conv1': a vocabulary of 1, but the data has 2 different ids\n");
  lines[13] = "vocabulary = 2";
  lines[23] = "inputs = [\"ip1\", \"conv1\"]";
  EXPECT_EQ(shown(mistakes_of(text_of(lines)))
                .rfind("job.toml:25:18: layer 'loss': input 1 of a softmax_loss layer takes ids (i32), but "
                       "'conv1' (2x4x3) holds values (f32)",
                       0),
            0u)
      << shown(mistakes_of(text_of(lines)));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace troupe
