// The folders from which jobs with limits may read data: every path of every source, links, and
// sources that do not declare their files.
#include "runtime/node/config/data_folders.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ops/option_specs.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/record/job_owner.hpp"
#include "tests/node/net_support.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class data_folders : public testing::Test {
 protected:
  data_folders() : all_(node_tables()) {
    fs::create_directories(in("set/train/cat"));
    fs::create_directories(root() / "elsewhere");
    std::ofstream(in("rows.csv")) << "1\n";
    std::ofstream(root() / "elsewhere/secret") << "1\n";
  }
  fs::path root() const { return folder_.path(); }
  fs::path in(const std::string& name) const { return root() / "data" / name; }
  std::string secret() const { return (root() / "elsewhere/secret").string(); }

  // The key that the error names; empty if all paths are inside the folders.
  std::string blamed(const source_type& type, const std::map<std::string, std::string>& texts) const {
    data_spec d;
    d.source = type.name;
    d.at = {"job.toml", 1, 1};
    options given;
    for (const auto& [key, text] : texts) {
      given.values[key] = text;
      d.key_at[key] = {key, 2, 3};
    }
    for (const auto& s : type.specs)  // other required options
      if (!s.fallback && !given.has(s.name)) {
        if (s.kind == option_kind::text) given.values[s.name] = in("set").string();
        if (s.kind == option_kind::integer) given.values[s.name] = std::int64_t{1};
      }
    d.values = check_options(given, type.specs);
    const auto allowed = check_folders(d, type, {in("").string()}, withheld_);
    if (allowed) return "";
    EXPECT_THAT(allowed.error().message, HasSubstr("this node reads data only under the folders"));
    return allowed.error().at.file;
  }
  std::string blamed(const char* source, const std::map<std::string, std::string>& texts) const {
    return blamed(*all_.sources.find(source), texts);
  }

  std::vector<std::string> withheld_;
  net::testing::temporary_directory folder_;
  tables all_;
};

// Fails for a new source with a path until that path is checked and counted here.
TEST_F(data_folders, every_path_of_every_source_is_checked) {
  int paths = 0;
  for (const auto& name : all_.sources.names()) {
    const auto& type = *all_.sources.find(name);
    for (const auto& s : type.specs) {
      if (s.kind != option_kind::text || !s.choices.empty() || s.name == "label" || s.name == "separator") continue;
      if (name == "numpy" && s.name != "path") continue;                          // names of arrays, which have no folder
      if (name == "hdf5" && s.name != "path" && s.name != "test_path") continue;  // names of datasets
      SCOPED_TRACE(name + " " + s.name);
      ++paths;
      EXPECT_EQ(blamed(type, {{s.name, secret()}}), s.name);
      EXPECT_EQ(blamed(type, {{s.name, in("").string() + "../elsewhere/secret"}}), s.name);
      EXPECT_EQ(blamed(type, {{s.name, in("rows.csv").string()}}), "");
    }
  }
  EXPECT_EQ(paths, 17) << "csv 2, hdf5 2, idx 5, images 3, lmdb 2, numpy 1, packed 1, text 1";
  EXPECT_EQ(blamed(*all_.sources.find("idx"), {{"path", in("set").string()}, {"test_labels", "../../elsewhere/secret"}}),
            "test_labels");
}

TEST_F(data_folders, links_count_as_their_targets) {
  fs::create_symlink(secret(), in("out.csv"));
  fs::create_symlink(in("rows.csv"), in("back.csv"));
  fs::create_directory_symlink(root() / "elsewhere", in("away"));
  EXPECT_EQ(blamed("csv", {{"path", in("out.csv").string()}}), "path");
  EXPECT_EQ(blamed("csv", {{"path", in("back.csv").string()}}), "");
  EXPECT_EQ(blamed("csv", {{"path", in("away/secret").string()}}), "path");
  EXPECT_EQ(blamed("csv", {{"path", in("away/not_there").string()}}), "path");
  EXPECT_EQ(blamed("csv", {{"path", root().string() + "/data-of-others/x"}}), "path") << "a folder whose name has the same prefix";
  // idx appends its file names to path.
  fs::create_symlink(secret(), in("set/train-labels-idx1-ubyte"));
  EXPECT_EQ(blamed("idx", {{"path", in("set").string()}}), "path");
}

TEST_F(data_folders, image_folders_may_not_have_links_to_outside) {
  const auto images = [&] { return blamed("images", {{"path", in("set").string()}}); };
  fs::create_directories(in("more"));
  EXPECT_EQ(images(), "");
  fs::create_directory_symlink(in("more"), in("set/train/dog"));
  fs::create_directory_symlink(in("set"), in("more/up"));  // a circle
  EXPECT_EQ(images(), "");
  fs::create_symlink(secret(), in("more/x.png"));
  EXPECT_EQ(images(), "path") << "behind a link to inside";
  fs::remove(in("more/x.png"));
  fs::create_symlink(secret(), in("set/train/cat/x.png"));
  EXPECT_EQ(images(), "path");
}

TEST_F(data_folders, folders_of_arrays_and_databases_may_not_have_links_to_outside) {
  for (const char* source : {"numpy", "lmdb"}) {
    const auto folder = in(source);
    fs::create_directories(folder);
    EXPECT_EQ(blamed(source, {{"path", folder.string()}}), "");
    fs::create_symlink(secret(), folder / "x_train.npy");
    EXPECT_EQ(blamed(source, {{"path", folder.string()}}), "path");
  }
}

// A client must not train on the bytes of a checkpoint of another client.
TEST_F(data_folders, nothing_that_is_kept_for_a_job_is_read_as_data) {
  const auto kept = in("checkpoints/tiny/lab-1-7");
  fs::create_directories(kept);
  std::ofstream(kept / "checkpoint-000001-step-1.safetensors") << "1\n";
  const auto file = (kept / "checkpoint-000001-step-1.safetensors").string();
  EXPECT_EQ(blamed("text", {{"path", file}}), "") << "no daemon keeps it for a job";
  ASSERT_TRUE(set_owner(kept, "alice"));
  for (const char* source : {"text", "csv", "packed"}) EXPECT_EQ(blamed(source, {{"path", file}}), "path") << source;
  fs::create_symlink(file, in("link.txt"));
  EXPECT_EQ(blamed("text", {{"path", in("link.txt").string()}}), "path");
  EXPECT_EQ(blamed("text", {{"path", in("rows.csv").string()}}), "");
}

TEST_F(data_folders, withheld_folders_are_not_read_although_they_are_inside) {
  fs::create_directories(in("state/given"));
  std::ofstream(in("state/given/1.safetensors")) << "1\n";
  const auto file = in("state/given/1.safetensors").string();
  EXPECT_EQ(blamed("text", {{"path", file}}), "");
  withheld_ = {in("state").string()};
  EXPECT_EQ(blamed("text", {{"path", file}}), "path");
  EXPECT_EQ(blamed("text", {{"path", in("set/../state/given/1.safetensors").string()}}), "path");
  EXPECT_EQ(blamed("text", {{"path", in("rows.csv").string()}}), "");
}

TEST_F(data_folders, hdf5_files_of_a_list_are_checked) {
  std::ofstream(in("list.txt")) << "rows.csv\n" << in("rows.csv").string() << "\n";
  EXPECT_EQ(blamed("hdf5", {{"path", in("list.txt").string()}}), "");
  std::ofstream(in("list.txt")) << "rows.csv\n" << secret() << "\n";
  EXPECT_EQ(blamed("hdf5", {{"path", in("list.txt").string()}}), "path");
  EXPECT_EQ(blamed("hdf5", {{"path", in("rows.csv").string()}, {"test_path", in("list.txt").string()}}), "test_path");
}

TEST_F(data_folders, every_text_is_a_path_in_a_source_that_declares_no_files) {
  source_type type;
  type.name = "mine";
  type.specs = {option_of("from", option_kind::text, std::nullopt, "a file"),
                option_of("title", option_kind::text, option_value{std::string("plain words")}, "no file")};
  EXPECT_EQ(blamed(type, {{"from", secret()}}), "from");
  EXPECT_EQ(blamed(type, {{"from", "no/such/file"}}), "from");
  EXPECT_EQ(blamed(type, {{"from", in("rows.csv").string()}}), "");
}

// A job without limits, such as a user's local job, reads all that the user may read.
TEST_F(data_folders, only_jobs_with_limits_are_restricted) {
  const std::string text =
      "[data]\nsource = \"csv\"\npath = \"" + secret() +
      "\"\nheader = false\nbatch = 1\n[[layer]]\nname = \"ip\"\ntype = \"linear\"\ninputs = [\"data\"]\noutputs = 1\n"
      "[[layer]]\nname = \"loss\"\ntype = \"softmax_loss\"\ninputs = [\"ip\", \"label\"]\n[train]\nfinish = { steps = 1 }\n";
  const auto all = std::make_shared<const tables>(all_);
  const auto said = [&](std::optional<job_limits> limits) {
    const auto r = prepare_text({text, "job.toml", {}, std::move(limits)}, all);
    return r ? "nothing" : r.error().front().to_string();
  };
  EXPECT_EQ(said(job_limits{{}, {in("").string()}}).rfind("job.toml:3:1: [data]: 'path' is outside the allowed folders", 0), 0u);
  EXPECT_EQ(said(job_limits{{}, {}}).rfind("job.toml:3:1: [data]: 'path' is outside the allowed folders", 0), 0u);
  EXPECT_THAT(said(std::nullopt), testing::Not(HasSubstr("outside the allowed folders")));
  EXPECT_EQ(said(job_limits{{}, {(root() / "elsewhere").string()}}), said(std::nullopt));
}

}  // namespace
}  // namespace troupe
