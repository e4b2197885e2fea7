// Tests of `inject`: its syntax, the resulting command, the required rights and its refusals.
#include <gtest/gtest.h>

#include "actors/repl/command.hpp"
#include "actors/repl/complete.hpp"
#include "runtime/cluster/view/injection.hpp"
#include "tests/actors/repl_fake.hpp"
#include "tests/error_text.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;
using namespace std::chrono_literals;

class repl_inject : public testing::Test {
 protected:
  repl_reply say(const std::string& line, bool json = false) { return repl_session(backend_, json).run(line); }
  // Returns the injection that the line sent, as text; else the answer.
  std::string announced(const std::string& line) {
    backend_.injected.clear();
    const auto r = say(line);
    if (r.how != kind::ok || backend_.injected.size() != 1) return r.text;
    return backend_.injected[0].node + ": " + text_of(backend_.injected[0]);
  }
  fake_backend backend_;
};

TEST_F(repl_inject, parses_fault_node_amount_and_duration) {
  EXPECT_EQ(announced("inject kill n2"), "n2: kill");
  EXPECT_EQ(announced("inject stop n2"), "n2: stop for 10 s");
  EXPECT_EQ(announced("inject stop n2 for 8s"), "n2: stop for 8 s");
  EXPECT_EQ(announced("inject drop n1 for 1.5s"), "n1: drop for 1500 ms");
  EXPECT_EQ(announced("inject delay n2"), "n2: delay by 50 ms for 10 s");
  EXPECT_EQ(announced("inject delay n2 by 5ms for 2min"), "n2: delay by 5 ms for 2 min");
  EXPECT_EQ(announced("inject slow-disk n2 for 1ms by 10s"), "n2: slow-disk by 10 s for 1 ms");
  EXPECT_EQ(announced("inject slow-disk n2"), "n2: slow-disk by 200 ms for 10 s");
}

TEST_F(repl_inject, names_the_mistake_and_sends_nothing_when_a_line_is_wrong) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"inject", "inject kill|stop|drop|delay|slow-disk NODE [by TIME] [for TIME]"},
      {"inject kill", "NODE [by TIME]"},
      {"inject stp n2", "'stp' is not a fault; did you mean 'stop'? (available: kill, "},
      {"inject delay 50ms n2", "'n2' is neither 'by' nor 'for'"},
      {"inject kill n2 for 10s", "kill takes no 'for'"},
      {"inject stop n2 by 10s", "stop takes no 'by'"},
      {"inject stop n2 for", "'for' needs a time"},
      {"inject stop n2 for 10", "'10' is not a time"},
      {"inject stop n2 for 10h", "'10h' is not a time"},
      {"inject stop n2 for -1s", "'-1s' is not a time"},
      {"inject stop n2 for 1e9s", "'1e9s' is not a time"},
      {"inject stop n2 for 99999999999999999999s", "is not a time"},
      {"inject stop n2 for 1s for 2s", "'for' is given twice"},
      {"inject stop n2 for 0s", "stop for 0 ms: the time must be 1 ms to 10 min"},
      {"inject drop n2 for 0.4ms", "drop for 0 ms: the time must be 1 ms to 10 min"},
      {"inject drop n2 for 601s", "drop for 601 s: the time must be 1 ms to 10 min"},
      {"inject drop n2 for 11min", "drop for 11 min: the time must be 1 ms to 10 min"},
      {"inject delay n2 by 11s", "delay by 11 s: the time must be 1 ms to 10 s"},
      {"inject slow-disk n2 by 0ms", "slow-disk by 0 ms: the time must be 1 ms to 10 s"}};
  for (const auto& [line, why] : wrong) {
    const auto r = say(line);
    EXPECT_EQ(r.how, kind::usage) << line;
    EXPECT_NE(r.text.find(why), std::string::npos) << line << ": " << r.text;
  }
  EXPECT_TRUE(backend_.injected.empty());
}

TEST_F(repl_inject, returns_the_refusal_as_the_answer) {
  backend_.refusal = "inject: the cluster file of lab does not allow it";
  const auto r = say("inject kill n2");
  EXPECT_EQ(r.how, kind::failed);
  EXPECT_EQ(r.text, backend_.refusal);
}

TEST_F(repl_inject, fails_without_a_cluster) {
  backend_.v.cluster.clear();
  EXPECT_EQ(say("inject kill n2").how, kind::failed);
  EXPECT_TRUE(backend_.injected.empty());
}

TEST_F(repl_inject, answers_in_json) {
  EXPECT_EQ(say("inject delay n2 for 3s", true).text,
            R"({"command":"inject","fault":"delay","node":"n2","lasts_ms":3000,"by_ms":50})");
}

TEST_F(repl_inject, completes_faults_nodes_and_keywords) {
  EXPECT_EQ(repl_complete("inject s", backend_.v), (std::vector<std::string>{"slow-disk", "stop"}));
  EXPECT_EQ(repl_complete("inject stop ", backend_.v), (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(repl_complete("inject stop n2 ", backend_.v), (std::vector<std::string>{"by", "for"}));
}

TEST(injection, is_allowed_for_admin_on_known_nodes_if_the_cluster_file_allows_it) {
  cluster_spec c;
  c.name = "lab";
  for (const char* name : {"n1", "n2"}) {
    node_spec n;
    n.name = name;
    c.nodes.push_back(n);
  }
  const injection sound{fault_kind::drop, "n2", 8s, 0ms};
  const person root{"root", certificate_role::admin};
  EXPECT_TRUE(check_injection(root, true, c, sound));
  for (const auto role : {certificate_role::node, certificate_role::submit, certificate_role::exchange, certificate_role::watch})
    EXPECT_NE(test::error_text(check_injection({"bob", role}, true, c, sound)).find("admin may"), std::string::npos)
        << text_of(role);
  EXPECT_NE(test::error_text(check_injection(root, false, c, sound)).find("[cluster] inject = true"), std::string::npos);
  auto elsewhere = sound;
  elsewhere.node = "n3";
  EXPECT_NE(test::error_text(check_injection(root, true, c, elsewhere)).find("there is no node 'n3'"), std::string::npos);
  EXPECT_NE(test::error_text(check_injection(root, true, c, elsewhere)).find("(available: n1, n2)"), std::string::npos);
  auto too_long = sound;
  too_long.lasts = 601s;
  EXPECT_NE(test::error_text(check_injection(root, true, c, too_long)).find("the time must be 1 ms to 10 min"), std::string::npos);
}

TEST(injection, prints_a_time_in_the_largest_unit_that_divides_it) {
  EXPECT_EQ(fault_time_text(0ms), "0 ms");
  EXPECT_EQ(fault_time_text(1500ms), "1500 ms");
  EXPECT_EQ(fault_time_text(59s), "59 s");
  EXPECT_EQ(fault_time_text(60s), "1 min");
  EXPECT_EQ(fault_time_text(90s), "90 s");
  EXPECT_EQ(fault_time_text(600s), "10 min");
}

}  // namespace
}  // namespace troupe
