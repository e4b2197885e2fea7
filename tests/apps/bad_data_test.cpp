// Data that a job cannot be trained on: commands report an error and an exit code, and do not
// crash.
#include <filesystem>
#include <fstream>

#include "runtime/data/packed_file.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class bad_data : public command_test {
 protected:
  static std::string with_data(const std::string& lines) {
    auto text = tiny_job();
    const auto from = text.find("source"), end = text.find("batch = 16");
    return text.replace(from, end - from, lines + "\n");
  }
  static std::string with(std::string text, const std::string& old, const std::string& now) {
    return text.replace(text.find(old), old.size(), now);
  }

  std::string csv_with_labels_of_60000() const {
    std::string rows = "label,x,y\n";
    for (int i = 0; i < 40; ++i) rows += std::string(i % 3 == 0 ? "60000" : "0") + "," + std::to_string(i) + ",1\n";
    write("rows.csv", rows);
    return "source = \"csv\"\npath = \"" + path("rows.csv") + "\"\nlabel = \"label\"\ntest_fraction = 0.2";
  }
};

TEST_F(bad_data, refuses_60001_classes_for_one_score_with_the_position) {
  auto text = with(with_data(csv_with_labels_of_60000()), "outputs = 4", "outputs = 1");
  const auto job = write("job.toml", text);
  for (const char* command : {"check", "train", "time"}) {
    const auto o = troupe({command, job});
    EXPECT_EQ(o.code, 2) << command << ": " << o.out << o.err;
    EXPECT_NE(
        o.err.find("job.toml:27:11: layer 'loss': its input 'ip2' (8x1) has 1 score an example, but the data has 60001 classes"),
        std::string::npos)
        << command << ": " << o.err;
    EXPECT_NE(o.err.find("layer 'accuracy': its input 'ip2' (8x1) has 1 score an example"), std::string::npos) << o.err;
  }
}

TEST_F(bad_data, refuses_values_where_a_loss_takes_labels) {
  const auto job = write("job.toml", with(tiny_job(), "inputs = [\"ip2\", \"label\"]", "inputs = [\"ip2\", \"relu1\"]"));
  const auto o = troupe({"train", job});
  EXPECT_EQ(o.code, 2) << o.out << o.err;
  EXPECT_NE(o.err.find("layer 'loss': input 1 of a softmax_loss layer takes ids (i32), but 'relu1' (8x16) holds values (f32)"),
            std::string::npos)
      << o.err;
}

// A job whose packed file is changed while it runs.
class packed_while_running : public bad_data {
 protected:
  template <class F>
  outcome train_and(F change) {
    EXPECT_EQ(troupe({"pack", write("tiny.toml", tiny_job()), "--out", path("data.pack")}).code, 0);
    const auto job = write("job.toml", with_data("source = \"packed\"\npath = \"" + path("data.pack") + "\""));
    child c(troupe_program(), {"train", job, "--json", "--set", "train.finish.steps=1000000000", "--set", "eval.every=0"}, folder_);
    std::string line;
    for (int i = 0; i < 60; ++i) EXPECT_TRUE(c.read_line(line)) << "no step " << i;  // three epochs: every block has been checked
    change();
    return c.wait();
  }
  static std::string message_of(const outcome& o) {
    const auto all = objects(o.out);
    return all.empty() || all.back()["event"] != "error" ? "no error" : all.back()["message"].get<std::string>();
  }
};

TEST_F(packed_while_running, a_truncated_file_ends_the_job_with_an_error_naming_it) {
  const auto o = train_and([&] { std::filesystem::resize_file(path("data.pack"), 4096); });
  EXPECT_EQ(o.code, 1) << o.err;
  EXPECT_NE(message_of(o).find(path("data.pack") + ": it has been cut short: "), std::string::npos) << message_of(o);
}

TEST_F(packed_while_running, overwritten_labels_end_the_job_with_an_error_naming_the_file) {
  const auto o = train_and([&] {
    std::fstream f(path("data.pack"), std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(4096 + 320 * 64 * 4);  // all training examples are one block, with the labels after the values
    for (int i = 0; i < 320; ++i) f.write("\x00\x00\x00\x7f", 4);
  });
  EXPECT_EQ(o.code, 1) << o.err;
  EXPECT_NE(message_of(o).find(path("data.pack") + ": training examples 0 to 319 are damaged: "), std::string::npos)
      << message_of(o);
}

}  // namespace
}  // namespace troupe
