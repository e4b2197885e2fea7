// Which files may make a command load a plugin: a job file that the user names. A text that was
// found in another file (a run folder, a recording, a trace, a failed job, a scenario, a net file)
// loads none without --load-plugins.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using words = std::vector<std::string>;

// What a command does with the plugin that the job names.
enum class plugin_law : std::uint8_t {
  loads,    // the user named the job file
  asks,     // refuses without --load-plugins, loads with it
  ignores,  // never loads it, and needs none
};

struct plugin_case {
  plugin_law law;
  words command;
};

class plugin_sources : public command_test {
 protected:
  plugin_sources() {
    ::setenv("TROUPE_TEST_MARKER", marker_.c_str(), 1);
    const auto plugin = std::string(TROUPE_PLUGIN_DIR) + "/libtest_plugin_marker.so";
    write("job.toml", "plugins = [\"" + plugin + "\"]\n" + tiny_job());
    write("scenario.toml", "[run]\njob = \"job.toml\"\nnodes = 2\nsteps = 2\n");
    write("plain.toml", tiny_job());
    write("sets.toml", "[run]\njob = \"plain.toml\"\nnodes = 2\nsteps = 2\nset = [\"plugins=[\\\"" + plugin + "\\\"]\"]\n");
  }
  ~plugin_sources() override { ::unsetenv("TROUPE_TEST_MARKER"); }

  // Returns whether the command loaded the plugin.
  bool loads(const words& command, outcome& o) const {
    fs::remove(marker_);
    o = troupe(command);
    return fs::exists(marker_);
  }

  // A run with a recording and a trace, its weights and net file, and a failed run.
  void make_files() const {
    const auto done = [&](const words& command, int code) {
      const auto o = troupe(command);
      ASSERT_EQ(o.code, code) << o.out << o.err;
    };
    done({"train", "job.toml", "--record", "--trace", "t.pftrace", "--run-dir", "runs", "--out", "w.safetensors"}, 0);
    done({"train", "job.toml", "--run-dir", "runs", "--set", "train.dynamics.lr=1e20", "--set", "topology.workers_per_group=2",
          "--post-mortem", "failed"},
         1);
    done({"export", "job.toml", "--weights", "w.safetensors", "--out", "net.troupe"}, 0);
    for (const auto& f : fs::directory_iterator(folder_ / "failed")) fs::rename(f.path(), folder_ / "mortem");
    fs::create_directory(folder_ / "copied");
    fs::copy(folder_ / "runs/1-tiny", folder_ / "copied/1-tiny", fs::copy_options::recursive);
  }

  const std::string marker_ = path("marker");
};

// size: a row for each command
TEST_F(plugin_sources, load_plugins_only_of_job_files_that_the_user_names) {
  make_files();
  std::string zeros = "0";
  for (int i = 1; i < 64; ++i) zeros += ",0";
  write("one.csv", zeros + "\n");
  const auto cases = std::vector<plugin_case>{
      {plugin_law::loads, {"train", "job.toml", "--no-run", "--set", "train.finish.steps=1"}},
      {plugin_law::loads, {"test", "job.toml", "--weights", "w.safetensors"}},
      {plugin_law::loads, {"predict", "job.toml", "--weights", "w.safetensors", "--test"}},
      {plugin_law::loads, {"predict", "runs/1-tiny/job.toml", "--weights", "w.safetensors", "--test"}},
      {plugin_law::loads, {"plan", "job.toml"}},
      {plugin_law::loads, {"data", "job.toml"}},
      {plugin_law::loads, {"init", "job.toml", "--out", "i.safetensors"}},
      {plugin_law::loads, {"export", "job.toml", "--weights", "w.safetensors", "--out", "o.troupe"}},
      {plugin_law::loads, {"sim", "job.toml", "--nodes", "2", "--steps", "2"}},
      {plugin_law::loads, {"critical", "t.pftrace", "job.toml"}},
      {plugin_law::loads, {"repl", "-c", "submit job.toml train.finish.steps=1"}},
      {plugin_law::asks, {"check", "job.toml"}},
      {plugin_law::asks, {"check", "--resolved", "job.toml"}},
      {plugin_law::asks, {"predict", "1", "--run-dir", "runs", "--test"}},
      {plugin_law::asks, {"predict", "copied/1-tiny", "--test"}},
      {plugin_law::asks, {"data", "1", "--run-dir", "runs"}},
      {plugin_law::asks, {"test", "1", "--run-dir", "runs"}},
      {plugin_law::asks, {"train", "1", "--run-dir", "runs", "--set", "train.finish.steps=1"}},
      {plugin_law::asks, {"sim", "1", "--run-dir", "runs", "--nodes", "2", "--steps", "2"}},
      {plugin_law::asks, {"critical", "t.pftrace", "1", "--run-dir", "runs"}},
      {plugin_law::asks, {"export", "1", "--run-dir", "runs", "--out", "r.troupe"}},
      {plugin_law::asks, {"resume", "2", "--run-dir", "runs", "--set", "train.finish.steps=1", "--set", "train.dynamics.lr=0.01"}},
      {plugin_law::asks, {"replay", "1", "--run-dir", "runs"}},
      {plugin_law::asks, {"replay", "1", "--run-dir", "runs", "--to", "3"}},
      {plugin_law::asks, {"replay", "1", "--run-dir", "runs", "-c", "step 2"}},
      {plugin_law::asks, {"replay", "copied/1-tiny/recording"}},
      {plugin_law::asks, {"sim", "--replay", "mortem"}},
      {plugin_law::asks, {"sim", "scenario.toml"}},
      {plugin_law::asks, {"sim", "sets.toml"}},
      {plugin_law::asks, {"critical", "t.pftrace"}},
      {plugin_law::ignores, {"check", "scenario.toml"}},
      {plugin_law::ignores, {"predict", "net.troupe", "one.csv"}},
      {plugin_law::ignores, {"fmt", "--check", "job.toml"}},
      {plugin_law::ignores, {"runs", "show", "1", "--run-dir", "runs"}},
      {plugin_law::ignores, {"runs", "diff", "1", "2", "--run-dir", "runs"}},
      {plugin_law::ignores, {"runs", "compare", "1", "2", "--run-dir", "runs"}},
      {plugin_law::ignores, {"plot", "1", "--run-dir", "runs"}},
  };
  for (const auto& c : cases) {
    std::string shown;
    for (const auto& w : c.command) shown += w + " ";
    SCOPED_TRACE(shown);
    outcome o;
    EXPECT_EQ(loads(c.command, o), c.law == plugin_law::loads) << o.out << o.err;
    if (c.law != plugin_law::asks) {
      EXPECT_LT(o.code, 2) << o.out << o.err;
      continue;
    }
    EXPECT_EQ(o.code, 2) << o.out << o.err;
    EXPECT_THAT(o.out + o.err, HasSubstr("add --load-plugins"));
    auto allowed = c.command;
    allowed.emplace_back("--load-plugins");
    EXPECT_TRUE(loads(allowed, o)) << o.out << o.err;
    EXPECT_LT(o.code, 2) << o.out << o.err;
  }
}

}  // namespace
}  // namespace troupe
