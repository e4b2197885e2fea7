// Files that commands read and write: which kinds of files are accepted, and the errors if stdout
// or a file cannot be written.
#include <sys/stat.h>

#include <fstream>
#include <functional>

#include "runtime/record/safetensors.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class files : public command_test {
 protected:
  outcome shell(const std::string& line) const {
    child c("/bin/sh", {"-c", line}, folder_);
    return c.wait();
  }
  static bool is_fifo(const std::string& file) {
    struct stat st {};
    return ::lstat(file.c_str(), &st) == 0 && S_ISFIFO(st.st_mode);
  }
};

TEST_F(files, a_full_stdout_fails_and_is_reported_on_stderr) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const auto job = write("job.toml", tiny_job("[topology]\nworkers_per_group = 1\n"));
  for (const std::string words : {"--version", "--help", "layers", "reference job", "check job.toml", "plan job.toml",
                                  "plan job.toml --json", "train job.toml --json --out w.safetensors", "repl -c help"}) {
    const auto o = shell(troupe_program() + " " + words + " > /dev/full");
    EXPECT_EQ(o.code, 1) << words;
    EXPECT_NE(o.err.find("stdout: cannot write"), std::string::npos) << words << ": " << o.err;
    EXPECT_EQ(o.err.find("stdout: cannot write"), o.err.rfind("stdout: cannot write")) << words << ": reported twice";
  }
  EXPECT_TRUE(read_safetensors(path("w.safetensors")).has_value()) << "the weights were not written";
  EXPECT_EQ(shell(troupe_program() + " check no.toml > /dev/full").code, 2) << "another error keeps its exit code";
}

// OpenBLAS would spin before main(); the program reports the limit instead. A sufficient limit is
// not reported.
TEST_F(files, a_too_small_address_space_limit_is_reported_at_once) {
  for (const char* limit : {"200000", "262144"}) {
    const auto o = shell("ulimit -v " + std::string(limit) + " && exec timeout -s KILL 20 " + troupe_program() + " --version");
    if (std::string(limit) == "262144" && o.code == 0) continue;  // a machine with one processor
    EXPECT_EQ(o.code, 1) << limit << o.out;
    EXPECT_NE(o.err.find("the limit on address space (ulimit -v) is too small"), std::string::npos) << o.err;
  }
  EXPECT_EQ(shell("ulimit -v 64000000 && exec " + troupe_program() + " --version").code, 0);
}

TEST_F(files, refuses_to_write_to_special_files_before_training) {
  const auto job = write("job.toml", tiny_job());
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/null", path("null"));
  std::filesystem::create_symlink("nowhere", path("lost"));
  std::filesystem::create_directory(path("folder"));
  const std::vector<std::pair<std::string, std::string>> bad{{"fifo", "it is a FIFO, and only regular files are written"},
                                                             {"null", "it is a symbolic link, and it is a device"},
                                                             {"lost", "it is a symbolic link that cannot be resolved"},
                                                             {"folder", "it is a folder"}};
  for (const auto& [name, why] : bad)
    for (const auto& words : std::vector<std::vector<std::string>>{{"train", job, "--json", "--out"},
                                                                   {"train", job, "--json", "--checkpoint"},
                                                                   {"init", job, "--json", "--out"},
                                                                   {"pack", job, "--json", "--out"},
                                                                   {"sim", job, "--json", "--nodes", "2", "--trace"}}) {
      auto all = words;
      all.push_back(path(name));
      const auto o = troupe(all);
      EXPECT_EQ(o.code, 2) << words[0] << " " << name << ": " << o.out << o.err;
      const auto events = objects(o.out);
      ASSERT_EQ(events.size(), 1u) << o.out;
      EXPECT_EQ(events[0]["where"], path(name));
      EXPECT_NE(events[0]["message"].get<std::string>().find(why), std::string::npos) << events[0];
    }
  EXPECT_TRUE(is_fifo(path("fifo")));
  EXPECT_TRUE(std::filesystem::is_symlink(path("null")) && std::filesystem::is_symlink(path("lost")));
}

// All commands use the same reader: `troupe` fails at once, without allocating memory for the file.
TEST_F(files, every_command_reads_only_regular_files_of_at_most_1_mib) {
  const auto job = write("job.toml", tiny_job());
  const auto scenario = write("scenario.toml", "[[fault]]\nkind = \"crash\"\ntrace = \"bad\"\n");
  const std::vector<std::pair<std::string, std::function<void()>>> bad{
      {"this is a FIFO, not a regular file", [&] { ASSERT_EQ(::mkfifo(path("bad").c_str(), 0600), 0); }},
      {"this is a device, not a regular file", [&] { std::filesystem::create_symlink("/dev/zero", path("bad")); }},
      {"this is a folder, not a regular file", [&] { std::filesystem::create_directory(path("bad")); }},
      {"the file is larger than 1 MiB", [&] {
         std::ofstream(path("bad")) << "x";
         std::filesystem::resize_file(path("bad"), std::uintmax_t{1} << 30);
       }}};
  const auto file = path("bad");
  for (const auto& [why, make] : bad) {
    std::filesystem::remove_all(file);
    make();
    for (const auto& words : std::vector<std::vector<std::string>>{{"repl", "-c", "submit " + file},
                                                                   {"repl", "--cluster", file, "-c", "status"},
                                                                   {"check", file},
                                                                   {"check", scenario},
                                                                   {"train", file},
                                                                   {"train", job, "--cluster", file},
                                                                   {"plan", file},
                                                                   {"plan", job, "--cluster", file},
                                                                   {"sim", file, "--nodes", "2"},
                                                                   {"sim", job, "--nodes", "2", "--faults", file},
                                                                   {"sim", job, "--nodes", "2", "--network", file},
                                                                   {"init", file, "--out", path("w")},
                                                                   {"time", file},
                                                                   {"pack", file, "--out", path("p")},
                                                                   {"init-cluster", "--cluster", file},
                                                                   {"certs", "list", "--cluster", file}}) {
      const auto o = troupe(words);
      EXPECT_EQ(o.code, words[0] == "repl" && words[1] == "-c" ? 1 : 2) << words[0] << " " << words[1] << ": " << o.out << o.err;
      EXPECT_NE((o.out + o.err).find(file + ": " + why), std::string::npos)
          << words[0] << " " << words[1] << ": " << o.out << o.err;
    }
  }
}

TEST_F(files, replaces_the_target_of_a_symbolic_link) {
  const auto job = write("job.toml", tiny_job());
  std::filesystem::create_directory(path("far"));
  std::ofstream(path("far/w")) << "old";
  std::filesystem::create_symlink("far/w", path("w.safetensors"));
  ASSERT_EQ(troupe({"train", job, "--out", path("w.safetensors")}).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(path("w.safetensors")));
  EXPECT_TRUE(read_safetensors(path("far/w")).has_value());
}

// After one step whose loss is finite and whose update is not, no weights are written, and the
// existing file stays.
TEST_F(files, does_not_write_nonfinite_weights) {
  const auto job = write("job.toml", tiny_job());
  ASSERT_EQ(troupe({"train", job, "--out", path("w.safetensors")}).code, 0);
  const auto before = file_text("w.safetensors");
  const auto o = troupe({"train", job, "--json", "--out", path("w.safetensors"), "--set", "train.dynamics.lr=1e300", "--set",
                         "train.finish.steps=1"});
  EXPECT_EQ(o.code, 1) << o.out;
  const auto errors = of_kind(objects(o.out), "error");
  ASSERT_EQ(errors.size(), 1u) << o.out;
  EXPECT_TRUE(errors[0]["message"].get<std::string>().starts_with(
      "'ip1.weight' is not finite at step 1: nothing is stored; training diverges: "))
      << errors[0];
  EXPECT_TRUE(of_kind(objects(o.out), "done").empty());
  EXPECT_EQ(file_text("w.safetensors"), before);
}

}  // namespace
}  // namespace troupe
