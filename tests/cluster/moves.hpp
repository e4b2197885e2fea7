// Jobs whose placement changes while they train, compared with the same jobs undisturbed.
#pragma once

#include <csignal>

#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {

class move_test : public cluster_test {
 protected:
  // Stops the job, trains an undisturbed one to the same step, and compares their weights.
  void expect_as_untouched(background& b, const std::string& text, std::vector<std::string> set) {
    ASSERT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
    const auto touched = b.join();
    ASSERT_FALSE(touched.events.empty());
    ASSERT_TRUE(touched.events.back().event.is<done_event>()) << message_of(touched.events.back().event);
    std::uint64_t last = 0;
    for (const auto& e : touched.events) {
      if (!e.event.is<step_event>()) continue;
      EXPECT_GT(e.event.step, last) << "a step was reported twice";
      last = e.event.step;
    }
    const auto steps = static_cast<std::uint64_t>(touched.value("steps"));
    EXPECT_EQ(last, steps);
    set.push_back("train.finish.steps=" + std::to_string(steps));
    set.emplace_back("eval.every=0");
    const auto still = run(text, set);
    EXPECT_TRUE(still.events.back().event.is<done_event>());
    EXPECT_EQ(touched.text("weights_sha256"), still.text("weights_sha256")) << "after " << steps << " steps";
  }

  // Runs the commands one after the other, a few steps apart, while the job trains. Returns how
  // long training paused for each, in ms.
  std::vector<double> train_with(const std::string& text, const std::vector<std::string>& set,
                                 const std::vector<std::string>& lines) {
    auto b = begin(text, endless(set));
    std::uint64_t step = 5;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      EXPECT_TRUE(b->wait_event("step", 30s, step)) << "after " << i << " lines\n" << ask("n1", "waits").text;
      const auto r = ask(i % 3 == 2 ? "n2" : "n1", lines[i]);
      EXPECT_EQ(r.how, repl_reply::kind::ok) << lines[i] << ": " << r.text;
      const auto at = r.text.find(" at step ");
      if (at == std::string::npos) return {};
      step = std::stoull(r.text.substr(at + 9)) + 5;
      paused_seconds_.push_back(std::stod(r.text.substr(r.text.rfind(" in ") + 4)));
    }
    EXPECT_TRUE(b->wait_event("step", 30s, step));
    expect_as_untouched(*b, text, set);
    return paused_seconds_;
  }

  std::vector<double> paused_seconds_;
};

}  // namespace troupe::testing_cluster
