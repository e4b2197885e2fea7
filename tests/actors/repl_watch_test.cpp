// Tests of `watch`: its series, its intervals, and the line that a terminal redraws.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/actors/repl_fake.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

class repl_watch_test : public testing::Test {
 protected:
  // The job makes a step after each request. Returns the texts of all replies.
  std::vector<std::string> run(const std::string& line, int polls, bool as_json = false) {
    const auto lines = [&](const std::string& l, const std::string*) {
      auto r = repl_session(backend_, as_json).run(l);
      step();
      return r;
    };
    std::vector<std::string> all;
    last_ = run_line(
        lines, line, nullptr, [&](const repl_reply& r) { all.push_back(r.text); }, [&] { return polls-- > 0; });
    return all;
  }
  void step() {
    ++step_;
    backend_.said.put(2, {step_, step_event{.loss = 1.0 / static_cast<double>(step_), .lr = 0.1, .examples_per_s = 100}});
  }
  std::string usage(const std::string& line) {
    const auto r = repl_session(backend_, false).run(line);
    EXPECT_EQ(r.how, kind::usage) << line;
    return r.text;
  }
  fake_backend backend_;
  std::uint64_t step_ = 3;
  repl_reply last_;
};

TEST_F(repl_watch_test, prints_a_line_for_each_value_and_stops_after_its_lines) {
  step();  // before `watch`, ignored
  const auto all = run("watch loss 2", 10);
  EXPECT_EQ(all, (std::vector<std::string>{"step 5  loss 0.2", "step 6  loss 0.166667"}));
  EXPECT_TRUE(last_.next.empty());
  EXPECT_EQ(run("watch lr 1", 10), (std::vector<std::string>{"step 8  lr 0.1"}));
  EXPECT_EQ(run("watch lr 1", 10, true).at(0).substr(0, 26), "{\"event\":\"step\",\"step\":10,");
}

TEST_F(repl_watch_test, ends_with_the_job) {
  run("watch loss", 3);
  EXPECT_FALSE(last_.next.empty());
  backend_.v.jobs[1].state = job_state::done;
  const auto r = repl_session(backend_, false).run(last_.next);
  EXPECT_EQ(r.how, kind::ok);
  EXPECT_TRUE(r.next.empty());
  EXPECT_FALSE(r.text.empty()) << "the values that were left";
}

TEST_F(repl_watch_test, an_evaluation_is_a_series_too) {
  auto r = repl_session(backend_, false).run("watch accuracy");
  step();
  backend_.said.put(2, {20, eval_event{.accuracy = 0.75, .loss = 0.5}});
  EXPECT_EQ(repl_session(backend_, false).run(r.next).text, "step 20  accuracy 0.75");
  r = repl_session(backend_, false).run("watch eval_loss");
  backend_.said.put(2, {21, eval_event{.accuracy = 0.75, .loss = 0.5}});
  EXPECT_EQ(repl_session(backend_, false).run(r.next).text, "step 21  eval_loss 0.5");
}

TEST_F(repl_watch_test, staleness_is_requested_at_intervals) {
  const event_effect e{9, staleness_event{{{"a", {{0, 1}, {2, 3}}}}}};
  backend_.on_command = [&](const command& c) {
    EXPECT_TRUE(c.is<staleness_command>());
    backend_.said.put(2, e);
  };
  EXPECT_EQ(run("watch staleness 1", 5), (std::vector<std::string>{"step 9  staleness 1.5"}));
  EXPECT_EQ(backend_.announced.size(), 1u);
}

TEST_F(repl_watch_test, an_interval_is_one_line_with_last_value_and_mean) {
  auto r = repl_session(backend_, false).run("watch loss every=1h");
  EXPECT_EQ(r.how, kind::usage) << "hours are no unit";
  r = repl_session(backend_, false).run("watch loss every=10min");
  for (int i = 0; i < 4; ++i) step();
  auto next = repl_session(backend_, false).run(r.next);
  EXPECT_EQ(next.text, "") << "not due for ten minutes";
  const auto due_now = next.next.substr(0, next.next.rfind(' ')) + " 0";
  next = repl_session(backend_, false).run(due_now);
  EXPECT_EQ(next.text, "steps 4-7  loss 0.142857  mean 0.189881");
  step();
  const auto o = nlohmann::json::parse(repl_session(backend_, true).run(next.next.substr(0, next.next.rfind(' ')) + " 0").text);
  EXPECT_EQ(o["watch"], "loss");
  EXPECT_EQ(o["step"], 8);
  EXPECT_EQ(o["values"], 1);
}

TEST_F(repl_watch_test, a_terminal_gets_one_line_that_fits_its_width) {
  for (int i = 0; i < 300; ++i) step();
  for (const std::size_t width : {20u, 60u, 80u, 200u}) {
    const auto all = run("watch loss width=" + std::to_string(width) + " draw=ascii", 3);
    ASSERT_FALSE(all.empty());
    EXPECT_LE(all.back().size(), width) << all.back();
    EXPECT_EQ(all.back().find('\n'), std::string::npos);
  }
  const auto line = run("watch loss width=100 draw=ascii", 2).back();
  EXPECT_EQ(line.substr(0, 6), "loss #") << line;
  EXPECT_NE(line.find("__________  "), std::string::npos) << line;
  EXPECT_NE(line.find("  mean "), std::string::npos) << line;
  const auto drawn = run("watch loss width=100", 2).back();
  EXPECT_EQ(drawn.find("loss █"), 0u) << drawn;
  EXPECT_NE(drawn.find("▁▁▁▁  "), std::string::npos) << drawn;
  EXPECT_EQ(run("watch loss 1 width=100", 3).back().substr(0, 5), "step ") << "a number of lines means plain lines";
}

TEST_F(repl_watch_test, refuses_unknown_series_and_arguments) {
  EXPECT_NE(usage("watch los").find("did you mean 'loss'"), std::string::npos);
  for (const char* bad :
       {"watch", "watch loss 0", "watch loss many", "watch loss every=0s", "watch loss every=soon", "watch loss width=x",
        "watch loss hue=3", "_watch", "_watch 2 0 0 none 0 0 ascii 0", "_watch 2 0 0 loss 0 99999999999 ascii 0"})
    usage(bad);
  EXPECT_EQ(repl_session(backend_, false).run("watch loss 1 77").how, kind::failed);
}

}  // namespace
}  // namespace troupe
