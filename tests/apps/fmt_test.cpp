// `troupe fmt`, and what commands do with job files that include others.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class fmt_command_test : public command_test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }
};

TEST_F(fmt_command_test, writes_a_file_once_and_keeps_its_mode) {
  write("a.toml", "[job]\nseed=1   # why\nname=\"a\"\n[data]\nsource=\"synthetic\"\n");
  ::chmod(path("a.toml").c_str(), 0600);
  const auto check = troupe({"fmt", "--check", path("a.toml")});
  EXPECT_EQ(check.code, 1);
  EXPECT_EQ(check.out, path("a.toml") + ": its layout is another; try: troupe fmt " + path("a.toml") + "\n");
  const auto first = troupe({"fmt", path("a.toml"), "--json"});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(objects(first.out).at(0)["written"], true);
  const std::string laid = "[job]\nname = \"a\"\nseed = 1 # why\n\n[data]\nsource = \"synthetic\"\n";
  EXPECT_EQ(file_text("a.toml"), laid);
  struct ::stat s {};
  ASSERT_EQ(::stat(path("a.toml").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
  const auto second = troupe({"fmt", path("a.toml"), "--json"});
  EXPECT_EQ(objects(second.out).at(0)["changed"], false);
  EXPECT_EQ(troupe({"fmt", "--check", path("a.toml")}).code, 0);
}

TEST_F(fmt_command_test, leaves_a_file_with_mistakes_as_it_is) {
  write("bad.toml", "[job\nname=1\n");
  write("good.toml", "x=1\n");
  const auto o = troupe({"fmt", path("bad.toml"), path("none.toml"), path("good.toml")});
  EXPECT_EQ(o.code, 2);
  EXPECT_NE(o.err.find("bad.toml:1:"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("none.toml: there is no such file"), std::string::npos) << o.err;
  EXPECT_EQ(file_text("bad.toml"), "[job\nname=1\n");
  EXPECT_EQ(file_text("good.toml"), "x = 1\n");
}

TEST_F(fmt_command_test, included_files_train_and_are_found_beside_the_job) {
  const std::string base =
      "[data]\nsource = \"synthetic\"\nbatch = 8\nexamples = 16\ntest_examples = 8\n[train]\nfinish = { steps = 2 }\n"
      "[[block]]\nname = \"two\"\nlayer = [ { name = \"a\", type = \"linear\", inputs = \"in\", outputs = 4 }, { name = \"b\", "
      "type = "
      "\"relu\", inputs = \"a\" } ]\n";
  write("parts/base.toml", base);
  write("job.toml",
        "include = \"parts/base.toml\"\n[[layer]]\nname = \"x\"\nblock = \"two\"\ninputs = \"data\"\nrepeat = 3\n"
        "[[layer]]\nname = \"ip\"\ntype = \"linear\"\ninputs = \"x\"\noutputs = 10\n"
        "[[layer]]\nname = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"ip\", \"label\"]\n");
  const auto o = troupe({"train", path("job.toml"), "--no-run", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(of_kind(objects(o.out), "done").back()["steps"], 2);
  const auto resolved = troupe({"check", "--resolved", path("job.toml")});
  EXPECT_NE(resolved.out.find("name = \"x_3_b\"\n"), std::string::npos) << resolved.out;
  EXPECT_EQ(resolved.out.find("\ninclude"), std::string::npos);
  write("parts/base.toml", "# a line\n" + base + "[eval]\nevry = 1\n");
  const auto wrong = troupe({"check", path("job.toml")});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("parts/base.toml:13:1: [eval]: unknown key 'evry'; did you mean 'every'?"), std::string::npos)
      << wrong.err;
}

}  // namespace
}  // namespace troupe
