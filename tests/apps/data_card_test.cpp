// `troupe data`: counts, values, repeated examples and the hash, of data that is known.
#include <gmock/gmock.h>

#include <cmath>

#include "runtime/record/checkpoint.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
using testing::HasSubstr;
using testing::Not;

class data_command_test : public command_test {
 protected:
  std::string job(const std::string& data, const std::string& name = "job.toml") {
    auto text = tiny_job();
    const auto from = text.find("source"), end = text.find("batch = 16");
    return write(name, text.replace(from, end - from, data + "\n"));
  }
  // 20 training rows of 1x2x2 and four test rows; row k has label k % 4.
  std::string csv(const std::string& train_more = {}, const std::string& test_more = {}) {
    std::string train = "a,b,c,d,l\n", test = train;
    for (int k = 0; k < 20; ++k) train += std::to_string(k) + ",0,-1,2.5," + std::to_string(k % 4) + "\n";
    for (int k = 0; k < 4; ++k) test += std::to_string(100 + k) + ",0,-1,2.5," + std::to_string(k % 4) + "\n";
    write("train.csv", train + train_more);
    write("test.csv", test + test_more);
    return "source = \"csv\"\npath = \"" + path("train.csv") + "\"\ntest_path = \"" + path("test.csv") +
           "\"\nlabel = \"l\"\nshape = [1, 2, 2]";
  }
};

TEST_F(data_command_test, counts_classes_and_sums_values) {
  const auto o = troupe({"data", job(csv()), "--json"});
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto card = objects(o.out).back();
  EXPECT_EQ(card["event"], "data");
  EXPECT_EQ(card["shape"], nlohmann::json({1, 2, 2}));
  EXPECT_EQ(card["train"]["examples"], 20);
  EXPECT_EQ(card["train"]["classes"], nlohmann::json({5, 5, 5, 5}));
  EXPECT_EQ(card["test"]["classes"], nlohmann::json({1, 1, 1, 1}));
  const auto values = card["train"]["channels"][0];
  // The columns: 0 to 19, 0, -1, 2.5.
  EXPECT_NEAR(values["mean"].get<double>(), (190.0 + 20 * 1.5) / 80, 1e-12);
  EXPECT_NEAR(values["deviation"].get<double>(), std::sqrt((2470 + 20 * (1 + 6.25)) / 80 - std::pow(220.0 / 80, 2)), 1e-12);
  EXPECT_EQ(values["min"], -1);
  EXPECT_EQ(values["max"], 19);
  EXPECT_EQ(card["train"]["repeated"], 0);
  EXPECT_EQ(card["shared"], 0);
}

// The lines that are printed are keys of [data], and with them nothing is left to change.
TEST_F(data_command_test, prints_the_scaling_to_mean_0_and_deviation_1) {
  std::string rows = "a,b,l\n";
  for (int k = 0; k < 40; ++k) rows += std::to_string(100 + k) + "," + std::to_string(-k % 5) + "," + std::to_string(k % 4) + "\n";
  write("rows.csv", rows);
  const auto source = "source = \"csv\"\npath = \"" + path("rows.csv") + "\"\nlabel = \"l\"\ntest_fraction = 0.2\n";
  const std::string title = "\nfor values of mean 0 and deviation 1, in [data]:\n";
  for (const char* before : {"", "scale = [0.5, 2]\nmean = [3]\n"}) {
    const auto o = troupe({"data", job(source + before)});
    ASSERT_EQ(o.code, 0) << o.err;
    const auto at = o.out.find(title);
    ASSERT_NE(at, std::string::npos) << o.out;
    const auto pasted = o.out.substr(at + title.size());
    EXPECT_THAT(pasted, HasSubstr("scale = ["));
    const auto again = troupe({"data", job(source + pasted)});
    EXPECT_THAT(again.out, Not(HasSubstr(title))) << pasted;
    const auto card = objects(troupe({"data", path("job.toml"), "--json"}).out).back();
    for (const auto& c : card["train"]["channels"]) {
      EXPECT_NEAR(c["mean"].get<double>(), 0, 1e-3);
      EXPECT_NEAR(c["deviation"].get<double>(), 1, 1e-3);
    }
  }
}

// The mean that is printed belongs to the scale that is printed, and has enough digits.
TEST_F(data_command_test, prints_a_scaling_that_fits_values_far_from_0) {
  std::string rows = "a,l\n";
  for (int k = 0; k < 40; ++k) rows += std::to_string(1000000 + 3 * (k % 7)) + "," + std::to_string(k % 4) + "\n";
  write("rows.csv", rows);
  const auto source = "source = \"csv\"\npath = \"" + path("rows.csv") + "\"\nlabel = \"l\"\n";
  const std::string title = "\nfor values of mean 0 and deviation 1, in [data]:\n";
  const auto o = troupe({"data", job(source)});
  const auto at = o.out.find(title);
  ASSERT_NE(at, std::string::npos) << o.out << o.err;
  const auto card = objects(troupe({"data", job(source + o.out.substr(at + title.size())), "--json"}).out).back();
  EXPECT_NEAR(card["train"]["channels"][0]["mean"].get<double>(), 0, 1e-3);
  EXPECT_NEAR(card["train"]["channels"][0]["deviation"].get<double>(), 1, 1e-3);
}

TEST_F(data_command_test, has_one_hash_for_equal_data_in_other_files) {
  const auto own = objects(troupe({"data", job(csv()), "--json"}).out).back();
  ASSERT_EQ(troupe({"pack", path("job.toml"), "--out", path("data.pack")}).code, 0);
  const auto packed =
      objects(troupe({"data", job("source = \"packed\"\npath = \"" + path("data.pack") + "\""), "--json"}).out).back();
  EXPECT_EQ(packed["train"]["sha256"], own["train"]["sha256"]);
  EXPECT_EQ(packed["test"]["sha256"], own["test"]["sha256"]);
  EXPECT_NE(own["train"]["sha256"], own["test"]["sha256"]);
  const auto other = objects(troupe({"data", job(csv("7,0,-1,2.5,2\n")), "--json"}).out).back();
  EXPECT_NE(other["train"]["sha256"], own["train"]["sha256"]);
}

TEST_F(data_command_test, prints_the_hash_that_a_run_folder_stores) {
  const std::string synthetic =
      "source = \"synthetic\"\nshape = [1, 8, 8]\nclasses = 4\nexamples = 320\ntest_examples = 50\nvalidation = 0.1";
  int run = 0;
  for (const auto& data : {csv(), synthetic}) {
    const auto file = job(data);
    const auto card = objects(troupe({"data", file, "--json"}).out).back();
    const auto trained = troupe({"train", file, "--run-dir", path("runs"), "--set", "train.finish.steps=2"});
    ASSERT_EQ(trained.code, 0) << trained.out << trained.err;
    const auto files = checkpoint_files(path("runs/" + std::to_string(++run) + "-tiny/checkpoints"));
    ASSERT_FALSE(files.empty());
    const auto made_with = load_checkpoint(files.front()).value().made_with;
    ASSERT_TRUE(made_with.contains("the training examples"));
    EXPECT_EQ(made_with.at("the training examples"), "sha256 " + card["train"]["sha256"].get<std::string>()) << data;
  }
}

TEST_F(data_command_test, says_that_examples_are_repeated_or_in_both_splits) {
  const auto clean = troupe({"data", job(csv())});
  EXPECT_THAT(clean.out, HasSubstr("20 training and 4 test examples of 1x2x2"));
  EXPECT_THAT(clean.out, Not(HasSubstr("equal to an earlier one")));
  // Equal values with another label are another example.
  const auto o = troupe({"data", job(csv("7,0,-1,2.5,3\n7,0,-1,2.5,3\n7,0,-1,2.5,1\n", "8,0,-1,2.5,0\n"))});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("training: 2 examples are equal to an earlier one\n"));
  EXPECT_THAT(o.out, HasSubstr("1 test examples are training examples, too"));
}

TEST_F(data_command_test, is_wrong_usage_when_the_job_or_its_data_is) {
  EXPECT_EQ(troupe({"data", path("none.toml")}).code, 2);
  const auto o = troupe({"data", job("source = \"csv\"\npath = \"" + path("none.csv") + "\"")});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("none.csv"));
}

}  // namespace
}  // namespace troupe
