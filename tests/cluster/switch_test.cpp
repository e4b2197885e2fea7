// The mode of a job on real daemons is switched by commands, many times under load.
#include <random>

#include <nlohmann/json.hpp>

#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

using kind = repl_reply::kind;
using nlohmann::json;

class cluster_switch : public cluster_test {
 protected:
  void SetUp() override { make_cluster(3); }
  // Returns the step of the last switch.
  std::uint64_t switch_at_random(background& b, int times);
  void ask_about_modes();
};

const std::vector<std::string> ways = {"bsp",
                                       "ssp staleness=3",
                                       "easgd tau=4 alpha=0.3",
                                       "downpour",
                                       "ssp staleness=inf",
                                       "gossip every=2",
                                       "easgd variant=sync tau=3",
                                       "downpour n_push=3 n_fetch=2"};

std::uint64_t cluster_switch::switch_at_random(background& b, int times) {
  std::mt19937 rng(3);
  std::string last = "bsp";
  std::string so_far = "bsp, ";
  std::uint64_t step = 0;
  for (int i = 0; i < times && !HasFatalFailure(); ++i) {
    auto next = ways[rng() % ways.size()];
    if (next == last) next = next == "bsp" ? "ssp staleness=1" : "bsp";
    [&] {
      const auto r = ask(i % 2 == 0 ? "n1" : "n2", "mode " + next, true);  // options reach the coordinator from every node
      ASSERT_EQ(r.how, kind::ok) << next << ": " << r.text;
      const auto o = json::parse(r.text, nullptr, false);
      EXPECT_EQ(o["event"], "mode") << r.text;
      EXPECT_EQ(o["mode"], next.substr(0, next.find(' ')));
      if (next == "ssp staleness=inf") {
        EXPECT_EQ(o["options"]["staleness"], "inf");
      }
      EXPECT_GE(o["step"].get<std::uint64_t>(), step);
      step = o["step"].get<std::uint64_t>();
      last = next;
      so_far += next + ", ";
      ASSERT_TRUE(b.wait_event("step", 20s, step + 30)) << "no progress in mode " << next << " after " << so_far << "\n"
                                                        << ask("n1", "waits").text;
    }();
  }
  return step;
}

// Refused switches, and answers about modes and weights.
void cluster_switch::ask_about_modes() {
  const auto refused = ask("n2", "mode ssp staleness=-1");
  EXPECT_EQ(refused.how, kind::failed);
  EXPECT_NE(refused.text.find("staleness"), std::string::npos) << refused.text;
  EXPECT_NE(ask("n3", "mode sandblaster").text.find("cannot switch to or from sandblaster"), std::string::npos);
  EXPECT_EQ(ask("n1", "mode ssp staleness=2").how, kind::ok);
  EXPECT_NE(ask("n2", "set train.sync.staleness 5").text.find("staleness=5"), std::string::npos);
  const auto histogram = json::parse(ask("n2", "staleness", true).text, nullptr, false);
  EXPECT_EQ(histogram["event"], "staleness");
  EXPECT_FALSE(histogram["parameters"]["conv1.weight"].empty()) << histogram;
  EXPECT_NE(ask("n3", "layer conv1").text.find("conv1.weight"), std::string::npos) << "the coordinator's node answers";
  const auto watched = ask("n2", "watch loss 5", true).text;
  EXPECT_EQ(std::count(watched.begin(), watched.end(), '\n'), 4) << watched;
}

TEST_F(cluster_switch, a_job_trains_well_over_ten_random_mode_switches) {
  start_all();
  auto set = endless(workers(3, 2));
  set.emplace_back("train.dynamics={rule=\"sgd\",lr=0.02}");
  auto b = begin(tiny_job(), set);
  ASSERT_TRUE(b->wait_event("step", 20s, 20));
  const auto step = switch_at_random(*b, 10);
  if (HasFatalFailure()) return;
  ask_about_modes();
  EXPECT_EQ(ask("n1", "mode bsp").how, kind::ok);
  EXPECT_EQ(ask("n1", "eval").how, kind::ok);
  ASSERT_TRUE(b->wait_event("eval", 10s));
  EXPECT_EQ(ask("n1", "stop").how, kind::ok);
  const auto r = b->join();
  EXPECT_EQ(r.outcome.exit_code(), 0);
  EXPECT_TRUE(r.events.back().event.is<done_event>()) << message_of(r.events.back().event);
  EXPECT_EQ(r.count("mode"), 13u);
  EXPECT_EQ(r.count("refused"), 2u);
  double accuracy = 0;
  for (const auto& e : r.events)
    for (const auto& [name, value] : flatten(e.event).values)
      if (e.event.is<eval_event>() && name == "accuracy") accuracy = value;
  EXPECT_GE(accuracy, 0.7) << "chance is 0.25; after " << step << " steps";
}

}  // namespace
}  // namespace troupe::testing_cluster
