// Tests of how lines are split: quotes, remarks, and the commands of -c.
#include "actors/repl/words.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "actors/repl/complete.hpp"
#include "actors/repl/signals.hpp"
#include "tests/actors/repl_fake.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;
using words = std::vector<std::string>;

words words_of(const std::string& line) {
  const auto w = repl_read_words(line);
  EXPECT_EQ(w.error, "") << line;
  return w.list;
}
words commands_of(const std::string& text) {
  const auto all = repl_read_commands(text);
  EXPECT_EQ(test::error_text(all), "") << text;
  return *all;
}

TEST(repl_words, blanks_separate_words_except_in_quotes) {
  EXPECT_EQ(words_of("  a  b\tc\r\n"), (words{"a", "b", "c"}));
  EXPECT_EQ(words_of(""), words{});
  EXPECT_EQ(words_of("move \"conv 1\" 'n 2'"), (words{"move", "conv 1", "n 2"}));
  EXPECT_EQ(words_of("\"\" ''"), (words{"", ""}));
  EXPECT_EQ(words_of("'a \"b\" c'"), (words{"a \"b\" c"}));
}

TEST(repl_words, quotes_after_the_first_character_of_a_word_stay) {
  EXPECT_EQ(words_of("submit F plugins=[\"libswish.so\"]"), (words{"submit", "F", "plugins=[\"libswish.so\"]"}));
  EXPECT_EQ(words_of("job.name=\"two words\" x"), (words{"job.name=\"two words\"", "x"}));
  EXPECT_EQ(words_of("plugins=[\"a b.so\", 'c d']"), (words{"plugins=[\"a b.so\",", "c d]"})) << "a blank outside quotes separates";
  EXPECT_EQ(words_of("plugins=[\"a b.so\",'c d']"), (words{"plugins=[\"a b.so\",'c d']"}));
  EXPECT_EQ(words_of("\"job.name=two words\""), (words{"job.name=two words"}));
  EXPECT_EQ(words_of("\"a b\"c\"d e\""), (words{"a bc\"d e\""}));
}

TEST(repl_words, a_backslash_protects_a_quote_in_double_quotes) {
  EXPECT_EQ(words_of(R"("a \" b \\ c \d")"), (words{R"(a " b \ c \d)"}));
  EXPECT_EQ(words_of(R"(name="a \" b")"), (words{R"(name="a \" b")"})) << "the TOML parser reads it";
  EXPECT_EQ(words_of(R"('a \')"), (words{R"(a \)"})) << "single quotes are literal";
}

TEST(repl_words, a_quote_that_is_not_closed_is_named) {
  EXPECT_EQ(repl_read_words("submit F a=\"b c").error, "the quote \" in column 12 is not closed");
  EXPECT_EQ(repl_read_words("it's").error, "the quote ' in column 3 is not closed");
  EXPECT_EQ(repl_read_words("a \"b").list, (words{"a", "b"}));
  EXPECT_EQ(repl_read_words("ab cd").last_at, 3u);
  EXPECT_EQ(repl_read_words("ab \"c d").last_at, 3u);
  EXPECT_EQ(repl_read_words("ab ").last_at, 3u);
}

TEST(repl_words, commands_are_split_at_semicolons_outside_quotes) {
  EXPECT_EQ(commands_of("a; b"), (words{"a", " b"}));
  EXPECT_EQ(commands_of("submit F a=\"x;y\";b"), (words{"submit F a=\"x;y\"", "b"}));
  EXPECT_EQ(commands_of("# it's a remark; a"), (words{"# it's a remark", " a"}));
  EXPECT_EQ(test::error_text(repl_read_commands("status; set a \"b;c")), "the quote \" in column 15 is not closed");
}

TEST(repl_words, an_open_quote_is_a_usage_error_and_nothing_is_executed) {
  fake_backend b;
  EXPECT_EQ(repl_session(b, false).run("pause \"2").how, kind::usage);
  EXPECT_EQ(nlohmann::json::parse(repl_session(b, true).run("pause \"2").text)["message"],
            "the quote \" in column 7 is not closed");
  EXPECT_TRUE(b.announced.empty());
  repl_signals signals;
  repl_options o;
  o.has_commands = true;
  o.commands = "pause; submit \"F";
  EXPECT_EQ(run_repl([&](const std::string& l, const std::string*) { return repl_session(b, false).run(l); }, o, signals), 2);
  EXPECT_TRUE(b.announced.empty());
}

TEST(repl_words, values_of_submit_keep_their_quotes) {
  fake_backend b;
  const std::string text = "[job]\n";
  EXPECT_EQ(repl_session(b, false).run("submit F plugins=[\"libswish.so\"] job.name=\"two words\"", &text).how, kind::ok);
  EXPECT_EQ(b.submitted.at(0).overrides, (words{"plugins=[\"libswish.so\"]", "job.name=\"two words\""}));
}

TEST(repl_words, a_question_mark_is_help) {
  fake_backend b;
  EXPECT_EQ(repl_session(b, false).run("?").text, repl_session(b, false).run("help").text);
  const auto t = repl_session(b, false).run("? set").text;
  EXPECT_EQ(t, repl_session(b, false).run("help set").text);
  for (const char* part :
       {"set KEY VALUE [JOB]", "arguments\n  KEY    train.dynamics.lr", "examples\n  set train.dynamics.lr 0.001"})
    EXPECT_NE(t.find(part), std::string::npos) << part << " in " << t;
  const auto o = nlohmann::json::parse(repl_session(b, true).run("help set").text);
  EXPECT_EQ(o["commands"][0]["examples"][0]["line"], "set train.dynamics.lr 0.001");
  EXPECT_TRUE(o["commands"][0]["meanings"].contains("VALUE"));
}

// --- completion of file names

class repl_file_completion : public testing::Test {
 protected:
  repl_file_completion() {
    for (const char* name : {"lenet.toml", "lenet2.toml", "a b.toml", ".hidden"}) std::ofstream(at(name)) << "x";
    std::filesystem::create_directories(at("sub"));
    std::ofstream(at("sub/job.toml")) << "x";
  }
  std::string at(const std::string& name) const { return here_.file(name); }
  repl_tab tab(const std::string& typed) {
    auto f = repl_complete_file(typed);
    EXPECT_TRUE(f) << typed;
    return f ? repl_press_tab(typed, f->fits, f->replaces) : repl_tab{};
  }
  test::temp_dir here_;
};

TEST_F(repl_file_completion, completes_the_file_of_submit) {
  EXPECT_EQ(tab("submit " + at("le")).insert, "net");
  EXPECT_EQ(tab("submit " + at("lenet")).show, (words{at("lenet.toml"), at("lenet2.toml")}));
  EXPECT_EQ(tab("submit " + at("lenet2")).insert, ".toml ");
  EXPECT_EQ(tab("submit " + at("su")).insert, "b/") << "no blank: the name goes on";
  EXPECT_EQ(tab("submit " + at("sub/")).insert, "job.toml ");
  EXPECT_EQ(tab("submit " + at(".h")).insert, "idden ");
  EXPECT_EQ(tab("submit " + at("none")).insert, "");
}

TEST_F(repl_file_completion, puts_a_name_with_blanks_into_quotes) {
  const auto t = tab("submit " + at("a"));
  EXPECT_EQ(t.erase, at("a").size());
  EXPECT_EQ(t.insert, "\"" + at("a b.toml") + "\" ");
  EXPECT_EQ(tab("submit \"" + at("a ")).insert, "\"" + at("a b.toml") + "\" ");
}

TEST_F(repl_file_completion, completes_files_in_values) {
  EXPECT_EQ(tab("submit F train.weights=" + at("lenet2")).insert, ".toml ");
  EXPECT_EQ(tab("submit F plugins=[\"" + at("lenet2")).insert, ".toml") << "the quote is still open";
  EXPECT_FALSE(repl_complete_file("submit F train")) << "a key, not a file";
  EXPECT_FALSE(repl_complete_file("pause " + at("le")));
  EXPECT_FALSE(repl_complete_file("sub"));
}

}  // namespace
}  // namespace troupe
