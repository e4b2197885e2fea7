// What `troupe train` prints on a terminal: one line that is redrawn, fitted to the width, and the
// summary after the run.
#include <gmock/gmock.h>

#include "tests/apps/child.hpp"
#include "tests/apps/terminal.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
using testing::HasSubstr;
using testing::Not;

class progress_line : public command_test {
 protected:
  // The whole screen of a training run that takes long enough to be redrawn.
  std::string screen_of(unsigned short columns, const std::vector<std::pair<std::string, std::string>>& environment = {}) const {
    terminal t(
        {troupe_program(), "train", write("job.toml", tiny_job()), "--set", "train.finish.steps=3000", "--set", "eval.every=1000"},
        folder_, columns, environment);
    EXPECT_EQ(t.wait(), 0) << t.screen();
    return t.screen();
  }
  // Redrawn lines: the texts between a control sequence that clears the line and the next one.
  static std::vector<std::string> redrawn(const std::string& screen) {
    const std::string clear = "\r\033[K";
    std::vector<std::string> lines;
    for (auto at = screen.find(clear); at != std::string::npos;) {
      const auto begin = at + clear.size();
      at = screen.find(clear, begin);
      const auto text = screen.substr(begin, at == std::string::npos ? at : at - begin);
      if (text.find('\n') == std::string::npos && !text.empty()) lines.push_back(text);
    }
    return lines;
  }
};

TEST_F(progress_line, is_redrawn_in_place_with_all_its_numbers_and_evaluations_above) {
  const auto screen = screen_of(200);
  const auto lines = redrawn(screen);
  ASSERT_FALSE(lines.empty()) << screen;
  for (const auto& l : lines) {
    EXPECT_THAT(l, HasSubstr("epoch "));
    EXPECT_THAT(l, HasSubstr("/3,000  loss "));
    EXPECT_THAT(l, HasSubstr(" examples/s"));
    EXPECT_THAT(l, HasSubstr("  ["));
    EXPECT_LT(l.size(), 200u);
  }
  EXPECT_EQ(screen.find("examples/s\r\n"), std::string::npos) << "a progress line stays on the screen";
  EXPECT_THAT(screen, HasSubstr("step 1,000  evaluation: accuracy "));
  EXPECT_THAT(screen, HasSubstr(": 3,000 steps, "));
  EXPECT_THAT(screen, HasSubstr("lowest "));
}

TEST_F(progress_line, leaves_numbers_out_when_the_terminal_is_narrow) {
  const auto screen = screen_of(40);
  const auto lines = redrawn(screen);
  ASSERT_FALSE(lines.empty()) << screen;
  for (const auto& l : lines) {
    EXPECT_LT(l.size(), 40u) << l;
    EXPECT_THAT(l, HasSubstr("step "));
    EXPECT_THAT(l, HasSubstr("loss "));
  }
}

TEST_F(progress_line, has_colours_unless_no_color_is_set) {
  EXPECT_THAT(screen_of(120), HasSubstr("\033[32mdone\033[0m: "));
  const auto plain = screen_of(120, {{"NO_COLOR", "1"}});
  EXPECT_THAT(plain, HasSubstr("done: "));
  EXPECT_EQ(plain.find("\033[3"), std::string::npos);
  EXPECT_EQ(plain.find("\033[2m"), std::string::npos);
  EXPECT_THAT(plain, HasSubstr("\r\033[K")) << "still redrawn";
}

// The job's name comes from the file's name, and the head and the summary show paths with both.
TEST_F(progress_line, shows_control_characters_of_a_file_name_escaped) {
  auto job = tiny_job();
  const std::string line = "name = \"tiny\"\n";
  job.erase(job.find(line), line.size());
  terminal t({troupe_program(), "train", write("a\x1b[2Jb\x07.toml", job)}, folder_, 120);
  EXPECT_EQ(t.wait(), 0) << t.screen();
  EXPECT_THAT(t.screen(), HasSubstr("a\\x1b[2Jb\\x07"));
  EXPECT_THAT(t.screen(), Not(HasSubstr("\x1b[2J")));
  EXPECT_THAT(t.screen(), Not(HasSubstr("\x07")));
  const auto o = troupe({"check", write("c\x1b[2Jd.toml", "[job]\nname = \"\\u009b2J\"\n")});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("c\\x1b[2Jd.toml:2:1: [job]: bad name: the name '\\u009b2J' has the unprintable character"));
  EXPECT_EQ(o.err.find('\x1b'), std::string::npos);
}

TEST_F(progress_line, is_plain_lines_on_a_dumb_terminal_and_in_a_pipe) {
  EXPECT_EQ(screen_of(120, {{"TERM", "dumb"}}).find('\033'), std::string::npos);
  const auto o = troupe({"train", write("job.toml", tiny_job())});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out.find('\033'), std::string::npos);
  EXPECT_THAT(o.out, HasSubstr(" examples/s"));
  EXPECT_THAT(o.out, HasSubstr("\nloss        "));
  EXPECT_THAT(o.out, HasSubstr("\naccuracy    best "));
}

}  // namespace
}  // namespace troupe
