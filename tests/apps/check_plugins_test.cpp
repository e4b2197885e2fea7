// Plugins that commands load because a file names them: none when a file is only checked, and only
// libraries with the expected SHA-256.
#include "runtime/node/config/plugin.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class check_plugins : public command_test {
 protected:
  std::string job_with(const std::string& plugin) const {
    auto text = tiny_job();
    text.replace(text.find("\"relu\""), 6, "\"twice\"");
    return write("job.toml", "plugins = [\"" + std::string(TROUPE_PLUGIN_DIR) + "/libtest_plugin_" + plugin + ".so\"]\n" + text);
  }
};

// A plugin that cannot be loaded shows whether the command tried to load it.
TEST_F(check_plugins, loads_plugins_only_when_asked_to) {
  const auto job = job_with("wrong_abi");
  const auto plain = troupe({"check", job});
  EXPECT_EQ(plain.code, 2);
  EXPECT_NE(plain.err.find("the job loads plugins, which are code"), std::string::npos) << plain.err;
  EXPECT_EQ(plain.err.find("ABI"), std::string::npos) << plain.err;
  EXPECT_NE(troupe({"check", job, "--load-plugins"}).err.find("built for ABI"), std::string::npos);
  const auto by_word = troupe({"check", write("none.toml", tiny_job()), "--set",
                               "plugins=[\"" + std::string(TROUPE_PLUGIN_DIR) + "/libtest_plugin_wrong_abi.so\"]"});
  EXPECT_NE(by_word.err.find("the job loads plugins, which are code"), std::string::npos) << by_word.err;
  EXPECT_EQ(troupe({"check", job_with("good"), "--load-plugins"}).code, 0);
}

TEST_F(check_plugins, refuses_a_plugin_with_another_sha256) {
  const auto file = std::string(TROUPE_PLUGIN_DIR) + "/libtest_plugin_good.so";
  const auto digest = plugin_sha256(file);
  EXPECT_EQ(troupe({"layers", "twice", "--plugin", file + "#sha256=" + digest}).code, 0);
  const auto other = troupe({"layers", "twice", "--plugin", file + "#sha256=" + std::string(64, 'a')});
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("its sha256 is " + digest + ", but the allowed one is aaaa"), std::string::npos) << other.err;
}

}  // namespace
}  // namespace troupe
