// run.json, and the names of runs.
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "runtime/node/runs/run_files.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

class runs_info : public testing::Test {
 protected:
  runs_info() {
    auto name = (fs::temp_directory_path() / "troupe-runs-XXXXXX").string();
    runs = ::mkdtemp(name.data());
  }
  ~runs_info() override {
    std::error_code ec;
    fs::remove_all(runs, ec);
  }
  fs::path make(std::uint32_t number, const std::string& name, const std::string& state = "done") const {
    run_info r;
    r.number = number, r.name = name, r.state = state;
    return put(std::to_string(number) + "-" + name, run_info_text(r));
  }
  fs::path put(const std::string& folder, const std::string& text) const {
    fs::create_directories(runs / folder);
    std::ofstream(run_info_file(runs / folder)) << text;
    return runs / folder;
  }
  std::string found(const std::string& word) const {
    const auto f = find_run(runs, word);
    const auto* e = f ? nullptr : &f.error();
    return e == nullptr ? f->filename().string() : "error: " + e->message;
  }
  fs::path runs;
};

TEST_F(runs_info, run_json_keeps_every_field) {
  run_info r;
  r.number = 7, r.name = "lenet", r.state = "failed", r.job_file = "a \"b\".toml", r.overrides = {"x=1", "y=\"z\""};
  r.seed = 18446744073709551615u, r.mode = "ssp staleness=3", r.workers = 2, r.packets = 4, r.parameters = 431080, r.batch = 64;
  r.last_step = 2000, r.steps_per_epoch = 938, r.devices = {"cpu:0"}, r.started = "2026-11-26T19:26:30Z", r.seconds = 12.5;
  r.steps = 1500, r.loss = std::nan(""), r.accuracy = 0.5, r.best_accuracy = 0.75, r.best_step = 1000, r.resumed_at = {500, 700};
  r.best_loss = 0.125;
  const auto read = parse_run_info(run_info_text(r));
  ASSERT_TRUE(read) << read.error().text;
  const auto& s = *read;
  EXPECT_EQ(run_info_text(s), run_info_text(r));
  EXPECT_TRUE(std::isnan(s.loss));
  EXPECT_EQ(s.seed, r.seed);
  EXPECT_EQ(s.resumed_at, r.resumed_at);
  EXPECT_EQ(s.overrides, r.overrides);
  r.accuracy = -1;
  EXPECT_EQ(parse_run_info(run_info_text(r)).value().accuracy, -1);
}

TEST_F(runs_info, the_best_evaluation_has_an_accuracy_or_a_loss) {
  run_info r;
  EXPECT_FALSE(best_of(r));
  set_best(r, best_evaluation{60, {}, 0.25});
  EXPECT_EQ(best_of(r)->step, 60u);
  EXPECT_FALSE(best_of(r)->accuracy);
  r.number = 1;
  r.name = "a";
  r.state = "done";
  r = parse_run_info(run_info_text(r)).value();
  EXPECT_EQ(best_of(r)->loss, 0.25);
  set_best(r, best_evaluation{80, 0.5, 0.3});
  EXPECT_EQ(r.best_accuracy, 0.5);
  set_best(r, std::nullopt);
  EXPECT_FALSE(best_of(r));
  EXPECT_EQ(r.best_step, 0u);
}

TEST_F(runs_info, a_damaged_run_json_is_an_error_that_names_the_file) {
  for (const std::string text :
       {"", "{", "[]", "{}", "{\"number\":1,\"name\":\"a\"}", "{\"number\":-1,\"name\":\"a\",\"state\":\"done\"}",
        "{\"number\":1,\"name\":2,\"state\":\"done\"}", "{\"number\":1,\"name\":\"a\",\"state\":\"asleep\"}",
        "{\"number\":1,\"name\":\"a\",\"state\":\"done\",\"resumed_at\":[1,\"x\"]}"}) {
    const auto folder = put("1-a", text);
    const auto read = read_run_info(folder);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().file, run_info_file(folder).string());
    EXPECT_FALSE(read.error().message.empty());
  }
  const auto large = read_run_info(put("1-a", std::string((1u << 20) + 1, ' ')));
  EXPECT_NE(large.error().message.find("larger than 1 MiB"), std::string::npos);
}

TEST_F(runs_info, uses_a_folder_again_when_its_process_was_killed_before_it_wrote_run_json) {
  std::uint32_t number = 2;
  const auto first = new_numbered_folder(runs, "a", number).value().path;
  EXPECT_EQ(new_numbered_folder(runs, "a", number).value().path, first);
  make(2, "a");
  const auto taken = new_numbered_folder(runs, "a", number);
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().message.find("it exists"), std::string::npos) << taken.error().message;
  number = 0;
  EXPECT_EQ(new_numbered_folder(runs, "a", number).value().path.filename(), "3-a");
}

TEST_F(runs_info, a_running_run_without_a_lock_is_interrupted) {
  const auto folder = make(1, "a", "running");
  EXPECT_EQ(read_run_info(folder).value().state, "interrupted") << "there is no lock file";
  std::ofstream(run_lock_file(folder)) << "";
  EXPECT_EQ(read_run_info(folder).value().state, "interrupted");
  std::FILE* held = std::fopen(run_lock_file(folder).c_str(), "r+");
  ASSERT_EQ(::flock(::fileno(held), LOCK_EX | LOCK_NB), 0);
  EXPECT_TRUE(run_is_locked(folder));
  EXPECT_EQ(read_run_info(folder).value().state, "running");
  std::fclose(held);
  EXPECT_EQ(read_run_info(folder).value().state, "interrupted");
}

TEST_F(runs_info, lists_numbered_folders_in_the_order_of_numbers) {
  make(10, "b"), make(9, "a"), make(2, "c");
  for (const char* name : {"x-1", "0-zero", "11", "12-", "-1-a", "checkpoints"}) fs::create_directories(runs / name);
  std::ofstream(runs / "13-file") << "";
  std::vector<std::string> names;
  for (const auto& f : run_folders(runs)) names.push_back(f.filename());
  EXPECT_EQ(names, (std::vector<std::string>{"2-c", "9-a", "10-b"}));
  EXPECT_TRUE(run_folders(runs / "none").empty());
}

TEST_F(runs_info, finds_runs_by_number_folder_name_path_and_last) {
  make(1, "lenet"), make(2, "lenet"), make(3, "7");
  put("4-shown", run_info_text([] {
        run_info r;
        r.number = 4, r.name = "own name", r.state = "done";
        return r;
      }()));
  EXPECT_EQ(found("1"), "1-lenet");
  EXPECT_EQ(found("2-lenet"), "2-lenet");
  EXPECT_EQ(found("lenet"), "2-lenet") << "the newest run of the name";
  EXPECT_EQ(found("own name"), "4-shown");
  EXPECT_EQ(found("7"), "3-7");
  EXPECT_EQ(found("last"), "4-shown");
  EXPECT_EQ(found((runs / "1-lenet").string()), "1-lenet");
  EXPECT_EQ(found((runs / "1-lenet/").string()), "1-lenet");
  EXPECT_NE(found("lenett").find("there is no run 'lenett'; did you mean 'lenet'? (runs: 4-shown, 3-7, 2-lenet, 1-lenet)"),
            std::string::npos)
      << found("lenett");
  EXPECT_NE(found(runs.string()).find("no run folder"), std::string::npos);
}

TEST_F(runs_info, a_run_that_is_found_by_a_path_has_a_name_and_a_folder_of_runs) {
  const auto run = make(1, "lenet");
  const auto before = fs::current_path();
  fs::current_path(run);
  for (const std::string word : {".", "./", "../1-lenet", "../1-lenet/", "../1-lenet//"}) {
    const auto f = find_run("elsewhere", word);
    EXPECT_TRUE(f && f->filename() == "1-lenet" && fs::equivalent(f->parent_path(), runs)) << word;
  }
  fs::current_path(before);
}

TEST_F(runs_info, the_checkpoints_of_a_run_move_with_its_folder_unless_they_are_elsewhere) {
  run_info r;
  r.number = 7;
  for (const auto& [named, expected] : std::vector<std::pair<std::string, std::string>>{
           {"/old/runs/7-lenet/checkpoints", "/new/7-copy/checkpoints"},
           {"/new/7-copy/checkpoints", "/new/7-copy/checkpoints"},
           {"", "/new/7-copy/checkpoints"},
           {"/old/runs/8-lenet/checkpoints", "/old/runs/8-lenet/checkpoints"},
           {"/shared/checkpoints/lenet/3", "/shared/checkpoints/lenet/3"},
           {"/old/runs/7-lenet/own.safetensors", "/old/runs/7-lenet/own.safetensors"}}) {
    r.checkpoints = named;
    EXPECT_EQ(checkpoints_of_run("/new/7-copy", r), expected) << named;
  }
}

TEST_F(runs_info, the_default_folder_comes_from_the_environment) {
  const char* set = std::getenv("TROUPE_RUNS");
  const std::string before = set == nullptr ? "" : set;
  for (const auto& [value, folder] :
       std::vector<std::pair<std::string, std::string>>{{"", "runs"}, {"off", ""}, {"/x/y", "/x/y"}}) {
    ::setenv("TROUPE_RUNS", value.c_str(), 1);
    EXPECT_EQ(default_runs_folder(), folder);
  }
  ::unsetenv("TROUPE_RUNS");
  EXPECT_EQ(default_runs_folder(), "runs");
  if (!before.empty()) ::setenv("TROUPE_RUNS", before.c_str(), 1);
}

}  // namespace
}  // namespace troupe
