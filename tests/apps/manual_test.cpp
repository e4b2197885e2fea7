// Man pages, and the option that only parses a command line.
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
using testing::HasSubstr;
using testing::Not;

class manual_pages : public command_test {
 protected:
  // The page as a terminal shows it, and what the formatter reports about it.
  outcome formatted(const std::filesystem::path& page) const {
    child run("/usr/bin/groff", {"-man", "-ww", "-Kutf8", "-Tutf8", "-P-bcou", page.string()}, folder_);
    return run.wait();
  }
};

TEST_F(manual_pages, are_formatted_without_warnings) {
  if (::access("/usr/bin/groff", X_OK) != 0) GTEST_SKIP() << "groff is not installed";
  ASSERT_EQ(troupe({"reference", "man", "--out", path("share")}).code, 0);
  std::size_t pages = 0;
  for (const auto& f : std::filesystem::recursive_directory_iterator(folder_ / "share")) {
    if (!f.is_regular_file()) continue;
    ++pages;
    const auto o = formatted(f.path());
    EXPECT_EQ(o.code, 0) << f.path();
    EXPECT_EQ(o.err, "") << f.path();
    EXPECT_THAT(o.out, HasSubstr("SEE ALSO")) << f.path();
    EXPECT_THAT(o.out, Not(HasSubstr("`"))) << f.path();
  }
  EXPECT_GT(pages, 25u);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "share/man/man8/trouped.8"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "share/man/man5/troupe-job.5"));
}

TEST_F(manual_pages, has_every_option_of_help) {
  for (const std::string command : {"train", "sim", "certs", "repl"}) {
    const auto page = troupe({"reference", "man", command}).out;
    std::istringstream help(troupe({command, "--help"}).out);
    for (std::string line; std::getline(help, line);) {
      std::istringstream words(line);
      std::string option;
      words >> option;
      if (!option.starts_with("--")) continue;
      for (std::size_t at = 0; (at = option.find('-', at)) != std::string::npos; at += 2) option.insert(at, "\\");
      EXPECT_THAT(page, HasSubstr("\\fB" + option + "\\fR")) << command;
    }
  }
}

TEST_F(manual_pages, page_of_a_file_has_its_keys) {
  const auto job = troupe({"reference", "man", "job"});
  EXPECT_EQ(job.code, 0);
  EXPECT_THAT(job.out, HasSubstr(".TP\n\\fBsub_solvers\\fR\n"));
  EXPECT_THAT(troupe({"reference", "man", "cluster"}).out, HasSubstr(".TP\n\\fBdata_address\\fR\n"));
  const auto wrong = troupe({"reference", "man", "trian"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'train'?"));
}

using parse_only = command_test;

TEST_F(parse_only, accepts_a_command_line_without_running_it) {
  EXPECT_EQ(troupe({"--parse-only", "train", path("none.toml"), "--set", "job.seed=2"}).code, 0);
  const auto wrong = troupe({"--parse-only", "train", path("none.toml"), "--no-such"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("unknown option '--no-such'"));
}

TEST_F(parse_only, repl_check_parses_the_lines_of_a_script) {
  const auto check = [&](const std::string& commands) { return troupe({"repl", "--check", "-c", commands}); };
  EXPECT_EQ(check("nodes; jobs; set train.dynamics.lr 0.1; mode ssp staleness=3; trace stop").code, 0);
  EXPECT_EQ(check("inject delay n2 by 20ms for 30s; watch loss 5; ? set; exit").code, 0);
  for (const auto& [commands, why] :
       std::vector<std::pair<std::string, std::string>>{{"status; statsu", "did you mean 'status'?"},
                                                        {"move ip1", "'move' takes LAYER NODE [JOB], not 1 word"},
                                                        {"nodes now", "'nodes' takes no arguments"},
                                                        {"move 'ip1 n2", "quote"}}) {
    const auto o = check(commands);
    EXPECT_EQ(o.code, 2) << commands;
    EXPECT_THAT(o.err, HasSubstr(why));
  }
}

}  // namespace
}  // namespace troupe
