// Promise 21, mistakes that involve more than one line: contradicting lines, job and cluster,
// overrides, whole files and the data's files. Mistakes in one line: bad_input_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/node/job_fixture.hpp"

namespace troupe {
namespace {

using namespace job_test;
using ::testing::HasSubstr;

TEST(bad_input, a_topology_that_does_not_suit_the_mode_is_an_error) {
  const auto at = [](const std::string& sync, const std::string& topology, const std::vector<node_spec>& nodes) {
    auto lines = sound_lines();
    lines[26] = sync;
    lines[38] = topology;
    auto spec = parse_job(text_of(lines), "job.toml", *all_tables(), {});
    if (!spec) return shown(spec.error());
    auto job = prepare_job(*std::move(spec), all_tables(), nodes);
    return job ? std::string() : shown(job.error());
  };
  EXPECT_THAT(at("sync = { mode = \"group_sync\" }", "worker_groups = 2", local_node()),
              HasSubstr("job.toml:38:2: group_sync gives every worker group its own server group"));
  EXPECT_THAT(at("sync = { mode = \"group_sync\" }", "worker_groups = 4\nserver_groups = 1", local_node()),
              HasSubstr("job.toml:40:1: group_sync gives every worker group its own server group"));
  EXPECT_EQ(at("sync = { mode = \"group_sync\" }", "worker_groups = 2\nserver_groups = 2", local_node()), "");
  EXPECT_THAT(at("sync = { mode = \"easgd\" }", "worker_groups = 2\nserver_groups = 2", local_node()),
              HasSubstr("job.toml:40:1: easgd has one centre"));
  auto nodes = local_node();
  nodes.push_back(nodes.front());
  nodes[0].name = "n1";
  nodes[1].name = "n2";
  const std::string hogwild = "sync = { mode = \"hogwild\" }";
  EXPECT_THAT(at(hogwild, "workers_per_group = 2", nodes), HasSubstr("job.toml:38:2: hogwild shares memory: worker1 on node 'n2'"));
  EXPECT_EQ(at(hogwild, "worker_groups = 2\nserver_groups = 2", nodes), "") << "one array per node";
  EXPECT_EQ(at(hogwild, "workers_per_group = 4", local_node()), "");
}

// Modes and reducers that do not support placed layers.
TEST(bad_input, placed_layers_are_an_error_when_the_mode_does_not_support_them) {
  const auto at = [](const std::string& sync, const std::string& topology) {
    auto lines = sound_lines();
    lines[19] = "outputs = 10\nplace = \"local\"";
    lines[26] = sync;
    lines[38] = topology;
    return shown(mistakes_of(text_of(lines)));
  };
  const std::string two = "workers_per_group = 2", bsp = "sync = { mode = \"bsp\" }";
  EXPECT_EQ(at(bsp, two), "");
  for (const char* mode : {"ssp", "downpour", "easgd", "gossip", "hogwild", "sandblaster"})
    EXPECT_THAT(at(std::string("sync = { mode = \"") + mode + "\" }", two),
                HasSubstr(std::string("job.toml:28:10: mode '") + mode +
                          "' needs every layer on the node of every worker, but this job places or "
                          "splits some (modes that can: bsp)"));
  EXPECT_THAT(
      at(bsp + "\nexchange = { reducer = \"tree\" }", two),
      HasSubstr(
          "job.toml:29:14: reducer \"tree\" needs every layer on the node of every worker; use \"server\" with placed layers"));
  EXPECT_THAT(at("sync = { mode = \"downpour\" }", "workers_per_group = 1\nworker_groups = 2"),
              HasSubstr("job.toml:41:1: layers that are placed or split by feature support one worker group, not 2"));
}

TEST(bad_input, a_node_over_its_memory_limit_is_an_error) {
  auto lines = sound_lines();
  lines[19] = "outputs = 10\nplace = \"fc\"";
  auto spec = parse_job(text_of(lines), "job.toml", *all_tables(), {});
  auto nodes = local_node();
  nodes.push_back(nodes.front());
  nodes[1].name = "fc";
  nodes[1].at = {"cluster.toml", 9, 3};
  nodes[1].memory_limit = 1 << 20;
  EXPECT_TRUE(prepare_job(*spec, all_tables(), nodes).has_value());
  nodes[1].memory_limit = 1000;
  const auto job = prepare_job(*spec, all_tables(), nodes);
  const auto* e = job ? nullptr : &job.error();
  ASSERT_TRUE(e);
  EXPECT_THAT(shown(*e), HasSubstr("cluster.toml:9:3: over budget: node 'fc' would hold about "));
}

struct override_case {
  const char* what;
  std::string text;
  const char* message;
};
const override_case override_cases[] = {
    {"no value", "train.finish.epochs", "an override is written key=value"},
    {"no key", "=3", "an override is written key=value"},
    {"empty part", "train..epochs=3", "bad key 'train..epochs'"},
    {"unknown key", "train.finish.epoch=1", "unknown key 'epoch'; did you mean 'epochs'?"},
    {"unknown table", "trian.finish.epochs=1", "unknown key 'trian'; did you mean 'train'?"},
    {"wrong value", "train.finish.epochs=-3", "'epochs' must be between 1 and"},
    {"wrong type", "data.batch=[1, 2]", "'batch' must be an integer, not a list"},
    {"bad value", "data.batch=[1, 2", "bad value '[1, 2'"},
    {"two values", "data.batch=1\nseed=2", "bad value '1\\x0aseed=2'"},
    {"through a value", "data.batch.size=1", "'batch' is an integer, not a table"},
    {"unknown layer", "layer.conv9.outputs=3", "there is no layer called 'conv9'"},
    {"not finite", "train.dynamics.lr=nan", "'lr' must be finite and at least 0, not nan"},
};

TEST(bad_input, every_error_in_an_override_names_the_override) {
  for (const auto& r : override_cases) {
    SCOPED_TRACE(r.what);
    const auto e = mistakes_of(text_of(sound_lines()), {r.text});
    ASSERT_FALSE(e.empty());
    EXPECT_EQ(e.front().to_string().rfind("--set ", 0), 0u) << shown(e);
    EXPECT_THAT(e.front().to_string(), HasSubstr(r.message));
  }
}

TEST(bad_input, a_finish_condition_without_its_evaluations_is_an_error) {
  auto lines = sound_lines();
  lines[27] = "finish = { custom = { kind = \"patience\", evaluations = 3 } }";
  EXPECT_EQ(shown(mistakes_of(text_of(lines))), "");
  lines[34] = "every = 0";
  EXPECT_EQ(shown(mistakes_of(text_of(lines))),
            "job.toml:28:23: [train.finish.custom]: 'patience' needs evaluations: set [eval] every\n");
}

TEST(bad_input, empty_and_binary_files_are_errors_at_the_first_line) {
  const auto first = [](const std::string& text) {
    const auto e = mistakes_of(text);
    return e.empty() ? std::string("no error") : e.front().to_string();
  };
  EXPECT_EQ(first(""), "job.toml:1:1: there is no [data] table");
  EXPECT_EQ(mistakes_of("").size(), 3u) << "data, layers, train";
  EXPECT_EQ(first("\xff\xfe"), "job.toml:1:1: a byte that is not UTF-8");
  EXPECT_EQ(first("= 3\n").rfind("job.toml:1:1: ", 0), 0u);
}

// Errors in data files are reported at the key that names the file.
TEST(bad_input, errors_in_data_files_point_at_the_key) {
  const auto folder = std::filesystem::temp_directory_path() / "troupe_bad_input_test";
  std::filesystem::create_directories(folder);
  auto lines = sound_lines();
  lines[5] = "source = \"idx\"";
  lines[6] = "path = \"" + folder.string() + "\"";
  auto e = mistakes_of(text_of(lines));
  ASSERT_EQ(e.size(), 1u);
  EXPECT_EQ(e[0].to_string().rfind("job.toml:7:1: ", 0), 0u) << shown(e);
  EXPECT_THAT(e[0].message, HasSubstr("train-images-idx3-ubyte"));
  const std::string header("\0\0\x08\x03\0\0\0\x0a\0\0\0\x08\0\0\0\x08", 16);
  std::ofstream(folder / "train-images-idx3-ubyte", std::ios::binary) << header << std::string(100, 'x');
  e = mistakes_of(text_of(lines));
  ASSERT_EQ(e.size(), 1u);
  EXPECT_EQ(e[0].to_string().rfind("job.toml:7:1: ", 0), 0u) << shown(e);
  lines[6] += "\ntrain_labels = 5";
  EXPECT_THAT(shown(mistakes_of(text_of(lines))), HasSubstr("job.toml:8:1: [data]: option 'train_labels' must be a text"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace troupe
