// `troupe check-layer`: a correct layer of a plugin, and wrong ones.
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class check_layer_command : public command_test {
 protected:
  outcome check(const std::string& plugin, const std::vector<std::string>& words) const {
    std::vector<std::string> all{"check-layer", std::string(TROUPE_PLUGIN_DIR) + "/libtest_plugin_" + plugin + ".so"};
    all.insert(all.end(), words.begin(), words.end());
    return troupe(all);
  }
};

TEST_F(check_layer_command, accepts_the_example_layer) {
  const auto o = check("swish", {"swish"});
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_NE(o.out.find("swish: 0 of 5 cases failed"), std::string::npos) << o.out;
  const auto j = check("swish", {"swish", "--json"});
  EXPECT_EQ(j.code, 0);
  EXPECT_EQ(j.err, "");
  const auto all = objects(j.out);
  ASSERT_EQ(all.size(), 7u) << j.out;
  EXPECT_EQ(of_kind(all, "case").size(), 5u);
  EXPECT_EQ(all.back()["event"], "done");
  EXPECT_EQ(all.back()["ok"], true);
}

TEST_F(check_layer_command, finds_a_wrong_gradient_in_exactly_the_cases_that_have_it) {
  const auto o = check("crooked", {"crooked"});
  EXPECT_EQ(o.code, 1) << o.out << o.err;
  EXPECT_NE(o.out.find("gradient"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("crooked: 2 of 6 cases failed"), std::string::npos) << o.out;
  const auto all = objects(check("crooked", {"crooked", "--json"}).out);
  for (const auto& e : of_kind(all, "case")) {
    const bool planted = e["case"].get<std::string>().rfind("steep", 0) == 0;
    EXPECT_EQ(e["ok"].get<bool>(), !planted) << e;
    EXPECT_EQ(e["findings"].empty(), !planted) << e;
  }
  EXPECT_EQ(all.back()["wrong"], 2);
}

TEST_F(check_layer_command, reports_compared_elements_and_the_range_of_inputs) {
  const auto o = check("swish", {"swish"});
  EXPECT_NE(o.out.find("gradients: "), std::string::npos) << o.out;
  EXPECT_NE(o.out.find(" draws of values, inputs from -"), std::string::npos) << o.out;
  const auto coverage = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all{"swish", "--json"};
    all.insert(all.end(), words.begin(), words.end());
    return objects(check("swish", all).out);
  };
  const auto usual = coverage({});
  const auto total = usual.back()["coverage"];
  std::int64_t compared = 0;
  for (const auto& e : of_kind(usual, "case")) compared += e["coverage"]["compared"].get<std::int64_t>();
  EXPECT_EQ(total["compared"], compared);
  EXPECT_LT(total["low"], -8);
  EXPECT_GT(total["high"], 8);
  EXPECT_LT(coverage({"--samples", "5"}).back()["coverage"]["compared"], compared);
  EXPECT_EQ(coverage({}).back()["coverage"], total) << "differs in a second run";
  EXPECT_NE(coverage({"--seed", "5"}).back()["coverage"]["low"], total["low"]);
  for (const char* wrong : {"0", "-1", "many"}) EXPECT_EQ(check("swish", {"swish", "--samples", wrong}).code, 2) << wrong;
}

TEST_F(check_layer_command, reports_exceptions_and_missing_cases) {
  const auto o = check("crooked", {"thrower"});
  EXPECT_EQ(o.code, 1);
  EXPECT_NE(o.out.find("exception: not today"), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("fewer than five cases"), std::string::npos) << o.out;
}

TEST_F(check_layer_command, exits_with_2_when_plugin_or_layer_does_not_exist) {
  const auto name = check("swish", {"swich"});
  EXPECT_EQ(name.code, 2);
  EXPECT_NE(name.err.find("did you mean 'swish'?"), std::string::npos) << name.err;
  EXPECT_EQ(check("swish", {"relu"}).code, 2) << "stock layers are not layers of the plugin";
  EXPECT_EQ(check("not_one", {"swish"}).code, 2);
  EXPECT_EQ(check("swish", {}).code, 2);
  EXPECT_NE(check("fading", {"any"}).err.find("it has no layers"), std::string::npos);
}

}  // namespace
}  // namespace troupe
