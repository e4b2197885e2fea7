// The algorithms that are chosen for the convolutions of a measured job, and the file of times.
#include "runtime/node/convolution_times.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ops/device.hpp"
#include "tests/node/job_fixture.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using enum conv_algorithm;

class convolution_times : public testing::Test {
 protected:
  convolution_times() {
    std::string name = (fs::temp_directory_path() / "troupe-conv-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~convolution_times() override { fs::remove_all(folder_); }

  static std::shared_ptr<prepared_job> job(std::vector<std::string> set = {"job.convolution=measured"}) {
    auto lines = job_test::sound_lines();
    auto spec = parse_job(job_test::text_of(lines), "job.toml", *job_test::all_tables(), set);
    auto made = prepare_job(*std::move(spec), job_test::all_tables(), job_test::local_node());
    return *made;
  }
  static conv_times all_of(const conv_geometry& g, double ms) {
    conv_times t;
    for (const auto& name : conv_algorithm_names())
      if (const auto a = conv_algorithm_named(name); a != automatic && why_not(a, g).empty()) t[a] = ms;
    return t;
  }
  std::string file() const { return (folder_ / "troupe" / "convolutions.json").string(); }
  std::string text() const {
    std::ifstream f(file());
    std::stringstream s;
    s << f.rdbuf();
    return s.str();
  }
  void write(const std::string& text) const {
    fs::create_directories(fs::path(file()).parent_path());
    std::ofstream(file()) << text;
  }
  resolved_convolutions release(const std::shared_ptr<prepared_job>& j) const {
    auto s = resolve_convolutions(j, *dev_, file());
    return *std::move(s);
  }
  static conv_choice choice(const prepared_job& j) {
    const auto& l = j.graph.layers[0];
    return choice_of(dynamic_cast<const convolving&>(*l.maths).geometry(l.in[0]));
  }

  fs::path folder_;
  std::shared_ptr<device> dev_ = make_cpu_device();
};

TEST_F(convolution_times, the_rule_stays_unless_another_is_clearly_faster) {
  EXPECT_EQ(fastest({{lowering1, 1.0}, {direct, 0.98}}, lowering1), lowering1);
  EXPECT_EQ(fastest({{lowering1, 1.0}, {direct, 0.9}}, lowering1), direct);
  EXPECT_EQ(fastest({{lowering1, 1.0}, {direct, 0.9}, {winograd, 0.8}}, direct), winograd);
  EXPECT_EQ(fastest({}, direct), direct);
}

TEST_F(convolution_times, only_measured_jobs_leave_passes_open) {
  EXPECT_TRUE(open_conv_tasks(*job({})).empty());
  EXPECT_TRUE(open_conv_tasks(*job({"job.convolution=measured", "job.precision=f64"})).empty());
  const auto passes = [](const std::vector<conv_task>& list) {
    std::string s;
    for (const auto& t : list) s += t.name + "." + name_of(t.pass) + " ";
    return s;
  };
  // No layer needs the gradient of the data.
  EXPECT_EQ(passes(open_conv_tasks(*job())), "conv1.forward conv1.weights ");
  EXPECT_EQ(passes(open_conv_tasks(*job({"job.convolution=measured", "layer.conv1.algorithm_weights=lowering2"}))),
            "conv1.forward ");
  EXPECT_EQ(passes(open_conv_tasks(*job({"job.convolution=measured", "layer.conv1.algorithm=direct"}))), "");
  EXPECT_EQ(open_conv_tasks(*job())[0].geometry.batch, 2) << "of one packet";
}

TEST_F(convolution_times, a_choice_round_trips_as_text) {
  const conv_table t{{"conv1", {direct, lowering1, winograd}}, {"b/c=d", {automatic, onednn, lowering3}}};
  EXPECT_EQ(to_text({{"conv1", {direct, lowering1, winograd}}}), "conv1=direct/lowering1/winograd");
  EXPECT_EQ(conv_table_from(to_text(t)), t);
  EXPECT_EQ(conv_table_from(""), conv_table());
  for (const char* bad : {"conv1", "conv1=direct", "conv1=direct/direct/fast", "=direct/direct/direct",
                          "a=direct/direct/direct/direct", "a=direct/direct/direct a=direct/direct/direct"})
    EXPECT_FALSE(conv_table_from(bad)) << bad;
}

// The overrides that are sent to other nodes make the same job as the table that is applied here.
TEST_F(convolution_times, overrides_and_the_table_make_the_same_job) {
  const conv_table t{{"conv1", {lowering3, automatic, lowering2}}};
  auto set = overrides_of(t);
  set.push_back("job.convolution=measured");
  const auto by_text = job(set);
  auto made = with_convolutions(*job(), t);
  const auto by_table = *made;
  EXPECT_EQ(choice(*by_text), (conv_choice{lowering3, automatic, lowering2}));
  EXPECT_EQ(choice(*by_table), choice(*by_text));
  EXPECT_EQ(convolutions_to_keep(*by_text), convolutions_to_keep(*by_table));
  EXPECT_EQ(kept_convolutions(convolutions_to_keep(*by_text)), "conv1=lowering3/auto/lowering2");
  EXPECT_TRUE(convolutions_to_keep(*job({})).empty());
  EXPECT_TRUE(open_conv_tasks(*by_text).empty()) << "no pass is left to measure";
}

TEST_F(convolution_times, a_choice_for_a_layer_that_is_no_convolution_is_refused) {
  for (const char* name : {"ip1", "conv9"}) {
    auto made = with_convolutions(*job(), {{name, {lowering1, lowering1, lowering1}}});
    ASSERT_FALSE(made);
    EXPECT_NE(made.error()[0].message.find(name), std::string::npos);
  }
}

TEST_F(convolution_times, every_supported_algorithm_is_timed) {
  conv_geometry g{
      .batch = 3, .channels = 2, .height = 9, .width = 8, .outputs = 5, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  for (const auto p : conv_passes_all) {
    const auto t = time_convolution(*dev_, g, p);
    EXPECT_EQ(t.size(), all_of(g, 1).size());
    for (const auto& [a, ms] : t) EXPECT_GT(ms, 0) << name_of(a);
  }
  g.stride_h = 2;
  EXPECT_EQ(time_convolution(*dev_, g, conv_pass::forward).count(winograd), 0u);
}

TEST_F(convolution_times, saved_times_decide_the_choice) {
  const auto tasks = open_conv_tasks(*job());
  convolution_cache cache(file(), machine_words(*dev_));
  for (const auto& t : tasks) {
    auto times = all_of(t.geometry, 5);
    times[t.pass == conv_pass::forward ? lowering3 : lowering2] = 0.5;
    cache.put(t.geometry, t.pass, times);
  }
  cache.save();
  EXPECT_TRUE(cache.warnings().empty());
  const auto s = release(job());
  EXPECT_TRUE(s.warnings.empty());
  EXPECT_EQ(choice(*s.job), (conv_choice{lowering3, automatic, lowering2}));
  ASSERT_EQ(s.times.size(), 2u);
  EXPECT_EQ(s.times[0].ms.at(lowering3), 0.5);
}

TEST_F(convolution_times, a_job_without_saved_times_is_timed_and_the_next_chooses_the_same) {
  const auto a = release(job());
  ASSERT_FALSE(text().empty());
  const auto b = release(job());
  EXPECT_EQ(a.chosen, b.chosen);
  for (std::size_t i = 0; i < a.times.size(); ++i)
    for (const auto& [algorithm, ms] : a.times[i].ms) EXPECT_NEAR(b.times[i].ms.at(algorithm), ms, 1e-5);
  EXPECT_TRUE(open_conv_tasks(*a.job).empty());
  for (const auto& e : fs::directory_iterator(fs::path(file()).parent_path()))
    EXPECT_EQ(e.path().string(), file()) << "a temporary file is left";
}

TEST_F(convolution_times, times_of_other_machines_stay_in_the_file_and_are_not_used) {
  const auto task = open_conv_tasks(*job())[0];
  auto times = all_of(task.geometry, 5);
  times[lowering3] = 0.001;
  convolution_cache other(file(), "another machine");
  other.put(task.geometry, task.pass, times);
  other.save();
  convolution_cache mine(file(), "mine");
  EXPECT_EQ(mine.find(task.geometry, task.pass), nullptr);
  mine.put(task.geometry, task.pass, all_of(task.geometry, 2));
  mine.save();
  const convolution_cache again(file(), "another machine");
  ASSERT_NE(again.find(task.geometry, task.pass), nullptr);
  EXPECT_EQ(again.find(task.geometry, task.pass)->at(lowering3), 0.001);
}

// Times of another build that lacks an algorithm: the pass is timed again.
TEST_F(convolution_times, times_that_lack_an_algorithm_are_not_used) {
  const auto task = open_conv_tasks(*job())[0];
  auto times = all_of(task.geometry, 5);
  times.erase(lowering2);
  convolution_cache c("", "mine");
  c.put(task.geometry, task.pass, times);
  EXPECT_EQ(c.find(task.geometry, task.pass), nullptr);
}

TEST_F(convolution_times, an_invalid_file_is_ignored_with_a_warning_and_replaced) {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  const std::string start = R"({"format":1,"machines":{"m":)";
  for (const std::string& bad :
       {std::string(), std::string("no json"), std::string("[]"), std::string("null"), std::string(R"({"format":2,"machines":{}})"),
        std::string(R"({"format":1})"), std::string(R"({"format":1,"machines":[]})"), start + "3}}", start + R"({"s":{}}}})",
        start + R"({"s":{"fast":1}}}})", start + R"({"s":{"direct":-1}}}})", start + R"({"s":{"direct":"1"}}}})",
        start + R"({"s":{"direct":1e999}}}})", start + R"({"s":{"direct":)" + deep + "}}}}", deep,
        R"({"format":)" + deep + R"(,"machines":{}})", std::string(max_cache_bytes + 1, ' ')}) {
    SCOPED_TRACE(bad.substr(0, 60));
    write(bad);
    convolution_cache c(file(), "m");
    ASSERT_EQ(c.warnings().size(), 1u);
    EXPECT_NE(c.warnings()[0].find(file()), std::string::npos);
    const auto task = open_conv_tasks(*job())[0];
    c.put(task.geometry, task.pass, all_of(task.geometry, 1));
    c.save();
    const convolution_cache again(file(), "m");
    EXPECT_TRUE(again.warnings().empty());
    EXPECT_NE(again.find(task.geometry, task.pass), nullptr);
  }
}

TEST_F(convolution_times, a_path_that_cannot_be_written_is_a_warning) {
  write("x");
  const auto task = open_conv_tasks(*job())[0];
  convolution_cache c(file() + "/below/a/file.json", "m");
  c.put(task.geometry, task.pass, all_of(task.geometry, 1));
  c.save();
  ASSERT_EQ(c.warnings().size(), 1u);
  EXPECT_NE(c.warnings()[0].find("cannot be saved"), std::string::npos);
}

TEST_F(convolution_times, the_file_is_in_the_users_cache_folder) {
  const auto with = [](const char* xdg, const char* home) {
    xdg ? setenv("XDG_CACHE_HOME", xdg, 1) : unsetenv("XDG_CACHE_HOME");
    home ? setenv("HOME", home, 1) : unsetenv("HOME");
    return convolution_cache_file();
  };
  const char* xdg = getenv("XDG_CACHE_HOME");
  const char* home = getenv("HOME");
  const std::string xdg_before = xdg ? xdg : "", home_before = home ? home : "";
  EXPECT_EQ(with("/a", "/b"), "/a/troupe/convolutions.json");
  EXPECT_EQ(with("relative", "/b"), "/b/.cache/troupe/convolutions.json");
  EXPECT_EQ(with(nullptr, "/b"), "/b/.cache/troupe/convolutions.json");
  EXPECT_EQ(with(nullptr, nullptr), "");
  with(xdg ? xdg_before.c_str() : nullptr, home ? home_before.c_str() : nullptr);
}

}  // namespace
}  // namespace troupe
