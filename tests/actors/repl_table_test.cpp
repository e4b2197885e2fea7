// Tests of the table of commands, and of completion, from the text before the cursor to the effect
// of a tab.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "actors/repl/command.hpp"
#include "actors/repl/complete.hpp"
#include "tests/actors/repl_fake.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;
using words = std::vector<std::string>;

TEST(repl_table, every_entry_is_complete) {
  std::set<std::string> names;
  for (const auto& row : repl_table()) {
    const auto& [name, arguments, doc, meanings, examples] = row.help;
    EXPECT_TRUE(names.insert(name).second) << name << " has two entries";
    EXPECT_FALSE(name.empty() || name[0] == '_' || name.find(' ') != std::string::npos) << name;
    EXPECT_FALSE(doc.empty()) << name;
    ASSERT_TRUE(row.run) << name;
    EXPECT_LE(row.completes.size(), repl_split(arguments).size()) << name << ": it completes arguments that it does not have";
    EXPECT_EQ(arguments.empty(), meanings.empty()) << name;
    for (const auto& [argument, meaning] : meanings) {
      EXPECT_NE(arguments.find(argument), std::string::npos) << name << " has no argument " << argument;
      EXPECT_FALSE(meaning.empty()) << name << " " << argument;
    }
    EXPECT_TRUE(!examples.empty() && examples.size() <= 3) << name;
    for (const auto& [line, effect] : examples) {
      const auto split_line = repl_split(line);
      EXPECT_TRUE(split_line.front() == name || split_line.front() == "?") << line;
      EXPECT_FALSE(effect.empty()) << line;
      EXPECT_EQ(repl_checked(line, false).how, kind::ok) << line;
    }
    EXPECT_FALSE(row.takes_file && arguments.find("FILE") == std::string::npos) << name;
    if (!row.follow) continue;
    EXPECT_TRUE(row.follow->handle_event) << name;
    EXPECT_EQ(find_repl_following(row.follow->name), row.follow) << name << ": two entries follow events by one name";
    EXPECT_GT(row.follow->patience, 0u) << name << ": it would give up at once";
  }
}

// In an empty cluster nothing is offered; an optional name is still completed by its argument.
TEST(repl_table, completes_every_argument_without_errors_in_an_empty_cluster) {
  for (const auto& row : repl_table())
    for (std::size_t i = 0; i <= row.completes.size() + 1; ++i) {
      std::string line = row.help.name + " ";
      for (std::size_t k = 0; k < i; ++k) line += "x ";
      for (const auto& fit : repl_complete(line, {})) EXPECT_TRUE(fit.empty() || fit[0] != '_') << line;
    }
}

// The kind of an argument in the help text agrees with its completions.
TEST(repl_table, arguments_complete_to_the_kind_that_help_names) {
  const fake_backend b;
  const std::vector<std::pair<std::string, words>> kinds = {
      {"JOB", {"2"}}, {"NODE", {"n1", "n2"}}, {"LAYER", {"conv1", "relu1"}}, {"COMMAND", repl_choice::commands({{}, b.v})}};
  for (const auto& row : repl_table()) {
    std::string before = row.help.name;
    for (auto argument : repl_split(row.help.arguments)) {
      const bool rest = argument.find("...") != std::string::npos;
      std::erase_if(argument, [](char c) { return c == '[' || c == ']'; });
      for (auto [name, fits] : kinds) {
        std::sort(fits.begin(), fits.end());
        if (argument != name) continue;
        EXPECT_EQ(repl_complete(before + " ", b.v), fits) << before << " " << name;
      }
      if (rest) break;  // an argument after `...` has no fixed position
      before += " x";
    }
  }
}

TEST(repl_table, a_followed_event_is_polled_by_its_name) {
  fake_backend b;
  const auto id = std::to_string(b.said.next_command());
  for (const auto& row : repl_table()) {
    if (!row.follow) continue;
    const auto line = std::string("_follow ") + row.follow->name + " 2 0 3 " + id;
    const auto r = repl_session(b, false).run(line);
    EXPECT_EQ(r.how, kind::ok) << line << ": " << r.text;
    EXPECT_TRUE(r.next.starts_with(std::string("_follow ") + row.follow->name + " 2 ")) << r.next;
  }
  EXPECT_EQ(repl_session(b, false).run("_follow nothing 2 0 3 " + id).how, kind::usage);
  EXPECT_EQ(repl_session(b, false).run("_follow mode 2 0 0 " + id).how, kind::usage) << "no patience is left";
}

class repl_completion : public testing::Test {
 protected:
  words fits(const std::string& typed) { return repl_complete(typed, backend_.v); }
  fake_backend backend_;
};

TEST_F(repl_completion, offers_commands_modes_options_keys_layers_nodes_and_jobs) {
  EXPECT_EQ(fits("mo"), (words{"mode", "move"}));
  EXPECT_EQ(fits("help sta"), (words{"staleness", "status"}));
  EXPECT_EQ(fits("mode "), (words{"bsp", "mine", "ssp"})) << "the job's modes, including those of plugins";
  EXPECT_EQ(fits("mode mine p"), (words{"pull="}));
  EXPECT_EQ(fits("mode ssp staleness=3 "), (words{"2", "staleness="}));
  EXPECT_EQ(fits("layer c"), (words{"conv1"}));
  EXPECT_EQ(fits("move conv1 "), (words{"n1", "n2"}));
  EXPECT_EQ(fits("set train.sync."), (words{"train.sync.pull", "train.sync.staleness"}));
  EXPECT_EQ(fits("set train.dynamics.lr 0.1 "), (words{"2"}));
  EXPECT_EQ(fits("set train.dynamics.lr "), words{});
  EXPECT_EQ(fits("roles "), (words{"n1", "n2"}));
  EXPECT_EQ(fits("watch l"), (words{"loss", "lr"}));
  EXPECT_EQ(fits("? sta"), (words{"staleness", "status"}));
  EXPECT_EQ(fits("submit job.toml train.finish.st"), (words{"train.finish.steps="}));
  EXPECT_EQ(fits("nonsense x"), words{});
  const auto all = fits("");
  EXPECT_EQ(all.size(), repl_table().size()) << "no hidden ones";
}

TEST_F(repl_completion, offers_only_jobs_that_are_not_over) {
  EXPECT_EQ(fits("pause "), (words{"2"})) << "job 1 is over";
  repl_job waits;
  waits.id = 12;
  waits.state = job_state::queued;
  backend_.v.jobs.push_back(waits);
  EXPECT_EQ(fits("stop "), (words{"12", "2"}));
  EXPECT_EQ(fits("stop 1"), (words{"12"}));
}

TEST_F(repl_completion, offers_the_modes_of_this_build_without_a_job) {
  backend_.v.jobs[1].about = nullptr;
  const auto modes = fits("mode ");
  EXPECT_TRUE(std::count(modes.begin(), modes.end(), "sandblaster")) << testing::PrintToString(modes);
  EXPECT_EQ(fits("layer "), words{});
}

// A terminal requests completions by a line that users do not type.
TEST_F(repl_completion, is_requested_by_a_line) {
  const auto text = [&](const std::string& line) { return repl_session(backend_, false).run(line).text; };
  EXPECT_EQ(text("_complete mo"), "mode\nmove");
  EXPECT_EQ(text("_complete layer c"), "conv1");
  EXPECT_EQ(text("_complete nonsense x"), "");
  EXPECT_NE(text("_complete ").find("waits\nwatch"), std::string::npos);
  EXPECT_EQ(text("_complete ").find("_follow"), std::string::npos);
}

TEST(repl_tab, inserts_the_common_prefix_or_shows_all_candidates) {
  const auto insert = [](const std::string& typed, const words& fits) { return repl_press_tab(typed, fits).insert; };
  EXPECT_EQ(insert("lay", {"layer"}), "er ") << "the only candidate, and a blank";
  EXPECT_EQ(insert("mode mine p", {"pull="}), "ull=") << "its value comes next";
  EXPECT_EQ(insert("mode mine pull=", {"pull="}), "");
  EXPECT_EQ(insert("s", {"set", "status", "stop"}), "");
  EXPECT_EQ(repl_press_tab("s", {"set", "status", "stop"}).show, (words{"set", "status", "stop"}));
  EXPECT_EQ(insert("st", {"staleness", "status"}), "a");
  EXPECT_TRUE(repl_press_tab("st", {"staleness", "status"}).show.empty());
  EXPECT_EQ(insert("set train.sync.", {"train.sync.pull", "train.dynamics.lr"}), "pull ")
      << "an answer that does not fit is left out";
  EXPECT_TRUE(repl_press_tab("xyz", {}).show.empty() && insert("xyz", {}).empty());
}

}  // namespace
}  // namespace troupe
