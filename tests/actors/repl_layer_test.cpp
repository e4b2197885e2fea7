// Tests of `layer NAME` with the histograms of its weights and gradients.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/messages/value_histogram.hpp"
#include "tests/actors/repl_fake.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;
using nlohmann::json;

class repl_layer_test : public testing::Test {
 protected:
  // The job answers the command `histograms`.
  void answers() {
    backend_.on_command = [this](const command& c) {
      EXPECT_TRUE(c.is<histograms_command>());
      for (const char* name : {"conv0.weight", "conv1.weight", "conv1.bias", "ip.weight"})
        for (const double gradient : {0.0, 1.0}) {
          value_histogram h;
          h.count = 100;
          h.zeros = 10;
          h.not_finite = gradient != 0 ? 2 : 0;
          h.min = -1;
          h.max = 1;
          h.sum = 5;
          h.sum_squares = 25;
          h.buckets = {{static_cast<std::uint16_t>(bucket_of(-0.99)), 30}, {static_cast<std::uint16_t>(bucket_of(0.5)), 68}};
          const event_effect e{40, histogram_event{gradient != 0, name, h}};
          if (std::string(name) == "ip.weight" && gradient != 0)
            backend_.answers(c, e);
          else
            backend_.said.put(2, e);
        }
    };
  }
  repl_reply run(const std::string& line, bool as_json, int polls) {
    std::string all;
    auto r = run_line([&](const std::string& l, const std::string*) { return repl_session(backend_, as_json).run(l); }, line,
                      nullptr, [&](const repl_reply& part) { all += part.text + "\n"; }, [&] { return polls-- > 0; });
    r.text = all;
    return r;
  }
  fake_backend backend_;
};

TEST_F(repl_layer_test, shows_histograms_of_weights_and_gradients) {
  answers();
  const auto r = run("layer conv1", false, 5);
  EXPECT_EQ(r.how, kind::ok);
  EXPECT_TRUE(r.next.empty());
  for (const char* part : {"conv1.weight, step 40\n  range -1 |", "| 1  mean 0.05  std 0.497  zeros 10 %\n",
                           "conv1.weight, gradient, step 40", "conv1.bias, gradient, step 40", "not finite 2 (2 %)"})
    EXPECT_NE(r.text.find(part), std::string::npos) << part << " in " << r.text;
  EXPECT_EQ(r.text.find("conv0"), std::string::npos) << "another layer";
  EXPECT_EQ(r.text.find("ip."), std::string::npos);
  const auto o = json::parse(run("layer conv1", true, 5).text);
  ASSERT_EQ(o["histograms"].size(), 4u);
  EXPECT_EQ(o["histograms"][1]["of"], "gradient");
  EXPECT_EQ(o["histograms"][1]["not_finite"], 2);
  EXPECT_EQ(o["histograms"][0]["step"], 40);
  EXPECT_EQ(o["histograms"][0]["buckets"].size(), 2u);
}

TEST_F(repl_layer_test, shows_the_layer_alone_when_no_histogram_arrives) {
  const auto r = run("layer conv1", false, 10000);
  EXPECT_EQ(r.how, kind::ok);
  EXPECT_NE(r.text.find("conv1: convolution of data"), std::string::npos) << r.text;
  EXPECT_NE(r.text.find("no histograms: job 2 has not executed"), std::string::npos) << r.text;
  backend_.on_command = [this](const command& c) { backend_.answers(c, {9, refused_event{"layers are being moved"}}); };
  EXPECT_NE(run("layer conv1", false, 5).text.find("\nlayers are being moved"), std::string::npos);
}

// The histogram of a parameter with one element is its value.
TEST_F(repl_layer_test, shows_no_histograms_to_clients_that_may_not_read_weights) {
  answers();
  backend_.unreadable = job_route::histograms;
  const auto r = run("layer conv1", false, 5);
  EXPECT_EQ(r.how, kind::ok);
  EXPECT_NE(r.text.find("conv1: convolution of data"), std::string::npos) << r.text;
  EXPECT_NE(r.text.find("no histograms: job 2 is not yours"), std::string::npos) << r.text;
  EXPECT_TRUE(backend_.announced.empty()) << "the job is not asked";
  backend_.on_command(command{histograms_command{}});  // another client has asked for them
  const auto followed = run("_follow layer 2 0 5 conv1 1", true, 5);
  EXPECT_EQ(json::parse(followed.text)["histograms"].size(), 0u) << followed.text;
  EXPECT_EQ(followed.text.find("buckets"), std::string::npos);
}

TEST_F(repl_layer_test, asks_for_no_histograms_of_a_layer_without_parameters_or_a_finished_job) {
  EXPECT_NE(run("layer relu1", false, 5).text.find("no parameters"), std::string::npos);
  backend_.v.jobs[1].state = job_state::done;
  EXPECT_NE(run("layer conv1 2", false, 5).text.find("conv1.bias"), std::string::npos);
  EXPECT_TRUE(backend_.announced.empty());
  const command c{histograms_command{}, backend_.said.next_command()};
  for (const std::string bad : {"_follow layer 2 0 5", "_follow layer 2 0 5 conv1"}) {
    backend_.answers(c, {1, histogram_event{false, "conv1.bias"}});
    EXPECT_NE(repl_session(backend_, false).run(bad).how, kind::ok) << bad;
    EXPECT_NE(repl_session(backend_, false).run(bad + " " + std::to_string(c.id)).how, kind::ok) << bad;
  }
}

}  // namespace
}  // namespace troupe
