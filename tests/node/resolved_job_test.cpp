// The resolved job file: parse_job reads it as the same job, for every file in configs/jobs.
#include "runtime/node/config/resolved_job.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/job/plan_hash.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "runtime/node/config/source_paths.hpp"
#include "runtime/node/config/toml_text.hpp"

#include "tests/node/config_jobs.hpp"
#include "tests/node/image_files.hpp"
#include "tests/node/job_fixture.hpp"
#include "tests/node/same_job.hpp"

namespace troupe {
namespace {

using namespace job_test;
using names = std::vector<std::string>;

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(resolved_job, is_read_as_the_same_job_for_every_file_of_configs) {
  const auto files = testing_configs::files_in("jobs");
  EXPECT_GT(files.size(), 20u);
  for (const auto& f : files) {
    SCOPED_TRACE(f);
    auto spec = read_job_file(f, every_table());
    ASSERT_TRUE(spec) << shown(spec.error());
    expect_round_trip(*spec);
  }
}

TEST(resolved_job, has_the_same_plan_on_the_cluster_of_the_file) {
  for (const char* name :
       {"multinode_caffe.toml", "pipeline4.toml", "two_stage.toml", "singa_hybrid.toml", "lenet_synthetic.toml"}) {
    SCOPED_TRACE(name);
    const auto j = testing_configs::job_of_file(name);
    ASSERT_TRUE(j);
    auto again = prepare_job(parsed(resolved_job_text(*j)), j->all, j->nodes, j->data);
    ASSERT_TRUE(again) << shown(again.error());
    EXPECT_EQ(plan_hash((*again)->plan), plan_hash(j->plan));
  }
}

TEST(resolved_job, names_every_key_of_the_reference_once_per_table) {
  auto text = text_of(sound_lines());
  const names set{"data.augment={ pad = 1 }",
                  "train.dynamics.clip={ norm = 2 }",
                  "train.average={ kind = \"ema\" }",
                  "train.sync={ mode = \"easgd\" }",
                  "train.sync.when={ kind = \"schedule\", periods = [1] }",
                  "train.dynamics.schedule.warmup.steps=3",
                  "train.finish.custom={ kind = \"epochs\", count = 2 }"};
  const auto resolved = expect_round_trip(parsed(text, set));
  for (const auto& t : job_tables()) {
    const auto head = t.name == "The file" ? std::string() : "\n" + t.name + "\n";
    const auto from = resolved.find(head);
    ASSERT_NE(from, std::string::npos) << t.name;
    const auto end = t.name == "[[layer]]" ? resolved.size() : resolved.find("\n[", from + head.size());
    const auto part = "\n" + resolved.substr(from, end - from);
    for (const auto& k : t.entries) {
      const bool table = k.kind == key_kind::table || k.kind == key_kind::tables;
      const bool named =
          part.find("\n" + k.name + " = ") != std::string::npos || resolved.find("\n# " + k.name + ": ") != std::string::npos;
      EXPECT_TRUE(table || named) << t.name << " " << k.name << "\n" << part;
    }
  }
}

TEST(resolved_job, contains_overrides_defaults_and_options_of_fillers) {
  const auto text = expect_round_trip(
      parsed(text_of(sound_lines()), {"train.dynamics.lr=0.5", "layer.conv1.lr_scale=[1,2.5]", "train.finish.time=10min"}));
  for (const char* line :
       {"lr = 0.5", "lr_scale = [1.0, 2.5]", "time = \"600.0s\"", "packets = 4", "seed = 7", "decay = 0.0", "algorithm = \"auto\"",
        "max_block = 268435456", "kind = \"step\"", "factor = 0.5", "# batch: the training batch"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
  EXPECT_NE(text.find("weight_filler = { kind = \"gaussian\", mean = 0.0, std = 0.1 }"), std::string::npos) << text;
}

TEST(resolved_job, leaves_out_measure_when_there_is_no_patience) {
  const auto text = text_of(sound_lines());
  const auto without = expect_round_trip(parsed(text, {"train.finish={epochs=1}"}));
  EXPECT_FALSE(has_line(without, "measure = \"auto\"")) << without;
  EXPECT_TRUE(has_line(without, "# measure: not set")) << without;
  for (const char* word : {"auto", "accuracy", "loss"}) {
    const auto set = std::string("train.finish={epochs=1,patience=2,measure=\"") + word + "\"}";
    EXPECT_TRUE(has_line(expect_round_trip(parsed(text, {set})), std::string("measure = \"") + word + "\"")) << word;
  }
}

// Run folders, nets and recordings of earlier versions have such a text.
TEST(resolved_job, of_an_earlier_version_may_have_measure_without_patience) {
  const auto filed = parsed(text_of(sound_lines()), {"train.finish={epochs=1}"});
  auto text = resolved_job_text(filed, every_table());
  const auto replace = [&](const std::string& from, const std::string& to) {
    ASSERT_NE(text.find(from), std::string::npos) << text;
    text.replace(text.find(from), from.size(), to);
  };
  replace("# measure: not set", "measure = \"auto\"");
  EXPECT_THROW(parsed(text), std::runtime_error);
  replace(text.substr(0, text.find('\n')),
          "# Every key of the job with its value. A comment names a key that is not set, and what applies then.");
  EXPECT_EQ(differences(filed, parsed(text)), names{});
  EXPECT_FALSE(has_line(expect_round_trip(parsed(text)), "measure = \"auto\"")) << "the next text is written without it";
  replace("measure = \"auto\"", "measure = \"loss\"");
  EXPECT_THROW(parsed(text), std::runtime_error);
}

// The value `auto` of `fraction`, shares, nodes of layers, and an absent `partition`, which
// means something else than "batch".
TEST(resolved_job, keeps_pairs_and_writes_equal_numbers_as_one) {
  const auto text = expect_round_trip(
      parsed(text_of(sound_lines()), {"layer.conv1.stride=[1, 2]", "layer.conv1.pad=[1, 1]", "layer.conv1.dilation=2"}));
  EXPECT_TRUE(has_line(text, "stride = [1, 2]")) << text;
  EXPECT_TRUE(has_line(text, "pad = 1")) << text;
  EXPECT_TRUE(has_line(text, "dilation = 2")) << text;
}

TEST(resolved_job, keeps_how_layers_are_placed) {
  const auto text = text_of(sound_lines());
  const auto s = parsed(text, {"layer.conv1.fraction=auto", "layer.ip1.place=[\"a\",\"b/gpu:1\"]", "layer.ip1.fraction=[0.25,0.75]",
                               "layer.ip1.partition=batch", "layer.conv1.decay_scale=0", "layer.ip1.decay_scale=[1,0]"});
  const auto resolved = expect_round_trip(s);
  EXPECT_TRUE(has_line(resolved, "fraction = \"auto\""));
  EXPECT_TRUE(has_line(resolved, "place = [\"a\", \"b/gpu:1\"]"));
  EXPECT_TRUE(has_line(resolved, "partition = \"batch\""));
  EXPECT_EQ(parsed(resolved).layers[0].key_at.count("partition"), 0u);
}

TEST(resolved_job, tells_no_checkpoints_from_no_interval) {
  const auto text = text_of(sound_lines());
  EXPECT_TRUE(has_line(expect_round_trip(parsed(text, {"checkpoint.every=never"})), "every = \"never\""));
  EXPECT_FALSE(has_line(expect_round_trip(parsed(text)), "every = \"never\""));
  EXPECT_TRUE(has_line(expect_round_trip(parsed(text, {"checkpoint.every=5min"})), "every = \"300.0s\""));
  EXPECT_EQ(parsed(text, {"checkpoint.every=5min"}).checkpoint.never, false);
}

TEST(resolved_job, of_a_prepared_job_has_the_topology_and_node_limits_of_the_file) {
  for (const names& set : {names{}, names{"job.min_nodes=1", "job.max_nodes=4", "topology.workers_per_group=4"}}) {
    const auto filed = parsed(text_of(sound_lines()), set);
    auto made = prepare_job(filed, std::make_shared<const tables>(every_table()), testing_configs::one_node());
    ASSERT_TRUE(made) << shown(made.error());
    EXPECT_EQ(differences(filed, parsed(resolved_job_text(**made))), names{});
  }
}

TEST(resolved_job, strings_survive_with_quotes_control_characters_and_unicode) {
  const std::string odd = "a \"b\" \\ 'c' \t\n\x01\x7f # é 漢 \xF0\x9F\x98\x80 = [x]";
  const std::string odd_name = "a \"b\" \\ 'c' # é 漢 \xF0\x9F\x98\x80 = [x]";
  EXPECT_EQ(toml_text(std::string("\xff"
                                  "a\xc3")),
            "\"\xEF\xBF\xBD"
            "a\xEF\xBF\xBD\"");
  auto s = parsed(text_of(sound_lines()));
  s.name = "the \"job\" \\ 'é 漢' #1";
  s.layers[0].name = odd_name;
  s.layers[1].inputs = {odd_name};
  s.checkpoint.dir = "/" + odd;
  s.data.source = "text";
  s.data.values =
      check_options(options{{{"path", "/" + odd}, {"sequence", std::int64_t{5}}}}, every_table().sources.find("text")->specs);
  expect_round_trip(s);
}

TEST(resolved_job, numbers_keep_their_bits) {
  for (const double v : {0.0, 1.0, 0.1, 1.0 / 3, 5e-324, 1.7e299, 1e19, 12345678901234567890.0, 9007199254740993.0}) {
    auto s = parsed(text_of(sound_lines()));
    s.train.lr = v;
    EXPECT_EQ(parsed(expect_round_trip(s)).train.lr, v);
  }
  auto s = parsed(text_of(sound_lines()), {"train.finish.time=100ns", "job.conv_workspace=1000001"});
  EXPECT_EQ(parsed(expect_round_trip(s)).train.finish.seconds, s.train.finish.seconds);
}

// A file in a temporary folder that is the current folder while the object lives.
class folder_with_plugin {
 public:
  folder_with_plugin() : before_(std::filesystem::current_path()) {
    std::ofstream(dir_.file("own.so")) << "not a library";
    std::filesystem::current_path(dir_.path);
  }
  ~folder_with_plugin() { std::filesystem::current_path(before_); }
  const std::string& path() const { return dir_.path; }

 private:
  test::temp_dir dir_;
  std::filesystem::path before_;
};

TEST(resolved_job, paths_become_absolute) {
  const folder_with_plugin here;
  const auto real = std::filesystem::current_path().string();
  const std::string digest(64, 'a');
  auto text = "plugins = [\"own.so\", \"./own.so#sha256=" + digest + "\"]\n" + text_of(sound_lines());
  auto s = parsed(text);
  const auto of_source = [&](const char* source, options given) {
    s.data.source = source;
    s.data.values = check_options(given, every_table().sources.find(source)->specs);
    return parsed(resolved_job_text(s, every_table())).data.values;
  };
  EXPECT_EQ(parsed(resolved_job_text(s, every_table())).plugins, (names{real + "/own.so", real + "/own.so#sha256=" + digest}));
  // Names of files below `path` stay as they are, and so do texts that are no paths.
  const auto idx = of_source("idx", {{{"path", "sets/a"}, {"train_images", "sets/a"}, {"test_labels", "x"}}});
  EXPECT_EQ(idx.text("path"), real + "/sets/a");
  EXPECT_EQ(idx.text("train_images"), "sets/a");
  EXPECT_EQ(idx.text("test_labels"), "x");
  EXPECT_EQ(idx.text("train_labels"), "");
  const auto csv = of_source("csv", {{{"path", "own.so"}, {"test_path", "../t.csv"}}});
  EXPECT_EQ(csv.text("path"), real + "/own.so");
  EXPECT_EQ(csv.text("test_path"), std::filesystem::path(real).parent_path().string() + "/t.csv");
}

TEST(resolved_job, a_source_that_does_not_list_its_files_keeps_words_that_are_no_paths) {
  const folder_with_plugin here;
  source_type own;
  own.name = "own";
  for (const char* name : {"a", "b", "c"})
    own.specs.push_back({name, option_kind::text, option_value{std::string()}, "", 0, 0, {}});
  const auto o = with_absolute_paths({{{"a", std::string("own.so")}, {"b", std::string("word")}, {"c", std::string("x/y")}}}, own);
  EXPECT_EQ(o.text("a"), std::filesystem::current_path().string() + "/own.so");
  EXPECT_EQ(o.text("b"), "word");
  EXPECT_EQ(o.text("c"), std::filesystem::current_path().string() + "/x/y");
}

}  // namespace
}  // namespace troupe
