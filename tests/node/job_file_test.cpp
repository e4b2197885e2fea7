// Job files: the result of a valid one, the effect of --set, and the list of mistakes.
#include "runtime/node/config/job_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/node/config/document.hpp"
#include "runtime/node/config/table_reader.hpp"
#include "tests/node/job_fixture.hpp"

namespace troupe {
namespace {

using namespace job_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

job_spec spec_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  auto r = parse_job(text, "jobs/job.toml", *all_tables(), overrides);
  if (!r) {
    ADD_FAILURE() << shown(r.error());
    return {};
  }
  return *std::move(r);
}

TEST(job_file, a_valid_file_becomes_a_spec_with_positions) {
  const auto j = spec_of(text_of(sound_lines()));
  EXPECT_EQ(j.name, "small");
  EXPECT_EQ(j.seed, 7u);
  EXPECT_EQ(j.precision, "fp32");
  EXPECT_EQ(j.data.source, "synthetic");
  EXPECT_EQ(j.data.batch, 8);
  EXPECT_EQ(j.data.values.get<std::vector<std::int64_t>>("shape"), (std::vector<std::int64_t>{2, 8, 8}));
  EXPECT_EQ(j.data.values.integer("classes"), 10) << "the source's default";
  ASSERT_EQ(j.layers.size(), 3u);
  EXPECT_EQ(j.layers[0].values.integer("outputs"), 4);
  EXPECT_EQ(j.layers[0].values.integer("stride"), 1);
  EXPECT_EQ(j.layers[0].values.table("weight_filler").real("std"), 0.1);
  EXPECT_EQ(j.layers[0].at.to_string(), "jobs/job.toml:9:1");
  EXPECT_EQ(j.layers[0].key_at.at("weight_filler.std").to_string(), "jobs/job.toml:15:38");
  EXPECT_EQ(j.layers[2].key_at.at("inputs.1").to_string(), "jobs/job.toml:24:18");
  EXPECT_EQ(j.train.rule.kind, "momentum");
  EXPECT_EQ(j.train.rule.values.real("momentum"), 0.9);
  EXPECT_EQ(j.train.schedule.kind, "step");
  EXPECT_EQ(j.train.schedule.values.integer("every"), 100);
  EXPECT_EQ(j.train.lr, 0.01);
  EXPECT_EQ(j.train.key_at.at("dynamics.lr").line, 31);
  EXPECT_EQ(j.train.key_at.at("finish.epochs").line, 28);
  EXPECT_EQ(*j.train.finish.epochs, 1);
  EXPECT_EQ(j.train.reducer, "server");
  EXPECT_EQ(j.eval.every, 50);
  EXPECT_EQ(j.pipeline.packets, 4);
  EXPECT_EQ(j.topology.workers_per_group, 2);
  EXPECT_TRUE(j.topology.colocated);
  EXPECT_EQ(shown(mistakes_of(text_of(sound_lines()))), "");
}

TEST(job_file, the_shortest_job_uses_the_defaults) {
  const auto j = spec_of(
      "data = { source = \"synthetic\" }\n"
      "train = { finish = { time = \"1.5 min\" }, dynamics = { rule = \"sgd\", lr = 1 } }\n"
      "layer = [ { name = \"ip\", type = \"linear\", inputs = \"data\", outputs = 10 },\n"
      "  { name = \"loss\", type = \"softmax_loss\", inputs = [\"ip\", \"label\"] } ]\n");
  EXPECT_EQ(j.name, "job") << "the file's name";
  EXPECT_EQ(*j.train.finish.seconds, 90);
  EXPECT_EQ(j.train.lr, 1.0);
  EXPECT_EQ(j.train.sync.kind, "bsp");
  EXPECT_EQ(j.data.sampler.kind, "shuffle");
  EXPECT_EQ(j.train.schedule.kind, "fixed");
  EXPECT_EQ(j.layers[0].inputs, std::vector<std::string>{"data"});
}

TEST(job_file, checkpoints_are_set_by_steps_or_by_time) {
  auto lines = sound_lines();
  lines[33] = "[checkpoint]\nevery = 500\nkeep = 5\ndir = \"/shared/kept\"\nresume = \"auto\"\nmatch = \"names\"\n[eval]";
  lines[2] = "max_failures = 2";
  auto j = spec_of(text_of(lines));
  EXPECT_EQ(j.checkpoint.every_steps, 500);
  EXPECT_EQ(j.checkpoint.every_seconds, 0);
  EXPECT_EQ(j.checkpoint.keep, 5);
  EXPECT_EQ(j.checkpoint.dir, "/shared/kept");
  EXPECT_EQ(j.checkpoint.resume, "auto");
  EXPECT_EQ(j.checkpoint.match, "names");
  EXPECT_EQ(j.max_failures, 2);
  lines[33] = "[checkpoint]\nevery = \"5 min\"\n[eval]";
  lines[2] = "";
  j = spec_of(text_of(lines));
  EXPECT_EQ(j.checkpoint.every_steps, 0);
  EXPECT_EQ(j.checkpoint.every_seconds, 300);
  EXPECT_EQ(j.checkpoint.keep, 2);
  EXPECT_EQ(j.checkpoint.dir, "");
  EXPECT_EQ(j.checkpoint.resume, "never");
  EXPECT_EQ(j.checkpoint.match, "all");
  EXPECT_FALSE(j.max_failures) << "no limit";
}

TEST(job_file, all_keys_of_dynamics_are_read) {
  auto lines = sound_lines();
  lines[32] =
      "clip = { value = 5 }\nlr_scale = \"sqrt\"\nbase_batch = 2\n"
      "schedule = { kind = \"poly\", steps = 100, warmup = { steps = 10, from = 0.1 } }";
  auto j = spec_of(text_of(lines));
  EXPECT_EQ(j.train.clip.value, 5);
  EXPECT_EQ(j.train.clip.norm, 0);
  EXPECT_EQ(j.train.lr_scale, "sqrt");
  EXPECT_EQ(j.train.base_batch, 2);
  EXPECT_EQ(j.train.warmup.steps, 10);
  EXPECT_EQ(j.train.warmup.from, 0.1);
  EXPECT_FALSE(j.train.warmup.prefix);
  EXPECT_FALSE(j.train.schedule.values.has("warmup")) << "warmup is not an option of the schedule";
  const auto rate = make_rate(j, *all_tables());
  EXPECT_DOUBLE_EQ(rate->lr(1, 0), 2 * 0.1) << "sqrt of batch 8 over 2 is 2; warm-up begins at a tenth of it";
  EXPECT_DOUBLE_EQ(rate->lr(1, 50), 2 * 0.5);
  EXPECT_EQ(shown(mistakes_of(text_of(lines))), "");
  lines[32] = "schedule = { kind = \"poly\", steps = 100, warmup = { steps = 10, from = 0.1, prefix = true } }";
  EXPECT_DOUBLE_EQ(make_rate(spec_of(text_of(lines)), *all_tables())->lr(1, 60), 0.5)
      << "half of the 100 steps that begin at step 10";
  j = spec_of(text_of(sound_lines()));
  EXPECT_EQ(j.train.clip.value + j.train.clip.norm, 0);
  EXPECT_EQ(make_rate(j, *all_tables())->lr(1, 150), 0.5);
  lines[32] = "clip = { norm = 2.5 }\nlr_scale = \"none\"\nbase_batch = 64";
  j = spec_of(text_of(lines));
  EXPECT_EQ(j.train.clip.norm, 2.5);
  EXPECT_EQ(make_rate(j, *all_tables())->lr(1, 0), 1) << "a base alone changes nothing";
}

TEST(job_file, conditions_of_sync_and_finish_are_read) {
  auto lines = sound_lines();
  lines[26] = "sync = { mode = \"bsp\", when = { kind = \"schedule\", periods = [1, 10], at = [100] } }";
  lines[27] = "finish = { epochs = 100, custom = { kind = \"time\", seconds = 60 } }";
  const auto j = spec_of(text_of(lines));
  ASSERT_TRUE(j.train.when && j.train.finish.custom);
  EXPECT_EQ(j.train.sync.kind, "bsp");
  EXPECT_EQ(j.train.when->kind, "schedule");
  EXPECT_EQ(j.train.when->values.get<std::vector<std::int64_t>>("periods"), (std::vector<std::int64_t>{1, 10}));
  EXPECT_EQ(j.train.key_at.at("sync.when").line, 27);
  EXPECT_EQ(*j.train.finish.epochs, 100);
  EXPECT_EQ(j.train.finish.custom->kind, "time");
  EXPECT_EQ(j.train.finish.custom->values.real("seconds"), 60);
  EXPECT_FALSE(spec_of(text_of(sound_lines())).train.when);
}

TEST(job_file, set_overrides_any_key) {
  const auto j = spec_of(text_of(sound_lines()), {"train.finish.epochs=3", "job.name=other-name", "layer.conv1.outputs=6",
                                                  "pipeline.sub_solvers=2", "train.dynamics.schedule={ kind = \"fixed\" }",
                                                  "train.finish.time=10min", "data.batch=16", "eval.batch = 32"});
  EXPECT_EQ(*j.train.finish.epochs, 3);
  EXPECT_EQ(*j.train.finish.seconds, 600);
  EXPECT_EQ(j.name, "other-name");
  EXPECT_EQ(j.layers[0].values.integer("outputs"), 6);
  EXPECT_EQ(j.pipeline.sub_solvers, 2);
  EXPECT_EQ(j.train.schedule.kind, "fixed");
  EXPECT_EQ(j.data.batch, 16);
  EXPECT_EQ(j.eval.batch, 32);
  EXPECT_EQ(j.data.key_at.at("batch").to_string(), "--set data.batch=16");
}

TEST(job_file, eval_has_its_own_sampler_batch_and_split) {
  const auto j =
      spec_of(text_of(sound_lines()), {"eval.sampler={ kind = \"sample\", examples = 12, seed = 5 }", "eval.split=train"});
  EXPECT_EQ(j.eval.sampler.kind, "sample");
  EXPECT_EQ(j.eval.sampler.values.integer("examples"), 12);
  EXPECT_EQ(j.eval.sampler.values.integer("seed"), 5);
  EXPECT_TRUE(j.eval.on_training);
  const auto plain = spec_of(text_of(sound_lines()));
  EXPECT_EQ(plain.eval.sampler.kind, "all");
  EXPECT_FALSE(plain.eval.on_training);
}

TEST(job_file, scales_apply_to_a_layer_or_to_each_parameter) {
  auto lines = sound_lines();
  lines[13] += "\nlr_scale = [1, 2]\ndecay_scale = 250";
  const auto j = spec_of(text_of(lines));
  EXPECT_THAT(j.layers[0].lr_scales, ElementsAre(1, 2));
  EXPECT_EQ(j.layers[0].decay_scale, 250);
  lines[13] += "\n#";
  lines[19] += "\nlr_scale = [1, 2, 3]";
  const auto e = mistakes_of(text_of(lines));
  ASSERT_EQ(e.size(), 1u);
  EXPECT_EQ(e[0].to_string(), "job.toml:24:1: layer 'ip1': lr_scale lists 3 factors, but a linear layer has 2 parameters here");
}

TEST(job_file, mistakes_are_collected_in_the_order_of_the_file) {
  auto lines = sound_lines();
  lines[1] = "nmae = \"x\"";
  lines[7] = "batch = \"many\"";
  lines[13] = "kernel = 3\nstride = 0\npad = -1\ncolour = 3";
  lines[31] = "momentum = 1.5";
  const auto e = mistakes_of(text_of(lines));
  std::vector<std::string> list;
  for (const auto& d : e) list.push_back(d.to_string());
  EXPECT_THAT(list, ElementsAre("job.toml:2:1: [job]: unknown key 'nmae'; did you mean 'name'?",
                                "job.toml:8:1: [data]: 'batch' must be an integer, not a string",
                                HasSubstr("job.toml:15:1: layer 'conv1': option 'stride' must be at least 1"),
                                HasSubstr("job.toml:16:1: layer 'conv1': option 'pad' must be at least 0"),
                                HasSubstr("job.toml:17:1: layer 'conv1': unknown key 'colour'"),
                                HasSubstr("job.toml:35:1: [train.dynamics]: option 'momentum' must be at least 0 and at most 1")));
}

TEST(job_file, says_how_a_refused_plugin_differs_from_one_that_the_cluster_file_names) {
  const std::string digest(64, 'a'), other(64, 'b');
  const std::vector<std::string> only{"/srv/plugins/libswish.so", "/srv/plugins/libgate.so#sha256=" + digest};
  const auto said = [&](const std::string& name) {
    const auto r = read_plugins("plugins = [\"" + name + "\"]\n", "/home/me/job.toml", {}, &only);
    return r ? std::string() : r.error().at(0).to_string();
  };
  const std::string refused = ": this node loads only plugins that its cluster file names";
  for (const char* good : {"libswish.so", "/srv/plugins/libswish.so", "../../srv/plugins/libswish.so", "libgate.so"})
    EXPECT_EQ(said(good), "");
  EXPECT_THAT(
      said("build/libswish.so"),
      HasSubstr("plugin 'build/libswish.so'" + refused +
                "; it names 'libswish.so' in another folder: write the name alone, plugins = [\"libswish.so\"], to select it"));
  EXPECT_THAT(said("libgate.so#sha256=" + other), HasSubstr(refused + "; it names 'libgate.so' with another sha256"));
  EXPECT_THAT(said("libswish.so#sha256=" + other), HasSubstr(refused + "; it names 'libswish.so' without a sha256"));
  EXPECT_THAT(said("libswich.so"), HasSubstr(refused + "; did you mean 'libswish.so'?"));
  EXPECT_THAT(said("build/libswish.so"), testing::Not(HasSubstr("/srv/")));
}

TEST(job_file, plugins_are_resolved_against_the_file) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("troupe_plugins_" + std::to_string(::testing::UnitTest::GetInstance()->random_seed()));
  std::filesystem::create_directories(folder);
  const auto plugin = (folder / "libswish.so").string();
  std::ofstream(plugin) << "not loaded here";
  const auto file = (folder / "job.toml").string();
  auto r = read_plugins("plugins = [\"libswish.so\"]\n", file);
  ASSERT_TRUE(r);
  EXPECT_THAT(*r, ElementsAre(plugin));
  r = read_plugins("# nothing\n", file);
  EXPECT_TRUE(r->empty());
  r = read_plugins("plugins = [\"libswish.so\",\n  \"no.so\"]\n", file);
  const auto& e = r.error();
  ASSERT_EQ(e.size(), 1u);
  EXPECT_THAT(e[0].to_string(), HasSubstr("job.toml:2:3: there is no plugin 'no.so' (looked for"));
  std::filesystem::remove_all(folder);
}

TEST(job_file, missing_special_and_huge_files_are_errors) {
  const auto folder = std::filesystem::temp_directory_path() / "troupe_job_file_test";
  std::filesystem::create_directories(folder);
  const auto message = [&](const std::string& path) {
    auto r = read_job_file(path, *all_tables());
    const auto* e = r ? nullptr : &r.error();
    return e && !e->empty() ? e->front().to_string() : std::string();
  };
  EXPECT_EQ(message((folder / "no.toml").string()), (folder / "no.toml").string() + ": there is no such file");
  EXPECT_THAT(message(folder.string()), HasSubstr("this is a folder, not a regular file"));
  EXPECT_THAT(message("/dev/zero"), HasSubstr("this is a device, not a regular file"));
  const auto big = (folder / "big.toml").string();
  std::ofstream(big) << std::string(max_document_bytes + 1, '#');
  EXPECT_THAT(message(big), HasSubstr("the file is larger than 1 MiB"));
  std::filesystem::remove_all(folder);
}

TEST(job_file, times_and_sizes_are_read_with_their_units) {
  EXPECT_EQ(parse_time("200ms"), 0.2);
  EXPECT_EQ(parse_time("10min"), 600);
  EXPECT_EQ(parse_time("1.5 h"), 5400);
  EXPECT_EQ(parse_time("2d"), 172800);
  EXPECT_DOUBLE_EQ(*parse_time("30us"), 30e-6);
  for (auto bad : {"", "10", "min", "-1s", "nan s", "1e999s", "10 parsecs", "1s2"}) EXPECT_FALSE(parse_time(bad)) << bad;
  EXPECT_EQ(parse_bytes("512MiB"), 536870912);
  EXPECT_EQ(parse_bytes("2 GB"), 2e9);
  EXPECT_FALSE(parse_bytes("512"));
}

// Promise 20: no text may crash the reader. Every third prefix, every byte replaced by a few
// others.
TEST(job_file, the_rules_for_gpus_are_read) {
  EXPECT_EQ(spec_of(text_of(sound_lines())).maths, maths_rules{});
  const auto j = spec_of(text_of(sound_lines()), {"job.tf32=true", "job.conv_workspace=\"64MiB\""});
  EXPECT_EQ(j.maths, (maths_rules{.tf32 = true, .conv_workspace = std::size_t{64} << 20}));
  EXPECT_EQ(spec_of(text_of(sound_lines()), {"job.conv_workspace=0"}).maths.conv_workspace, 0u);
}

TEST(job_file, mutated_texts_are_errors_or_jobs_but_never_crashes) {
  const auto text = text_of(sound_lines());
  for (std::size_t n = 0; n < text.size(); n += 3) (void)parse_job(text.substr(0, n), "t", *all_tables());
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto t = text;
    for (char c : {'\0', '"', '[', '\xff', '='}) {
      t[i] = c;
      if (c == '\0' || c == '\xff') {
        const auto e = mistakes_of(t);
        ASSERT_FALSE(e.empty());
        EXPECT_GT(e[0].at.line, 0);
      } else {
        (void)parse_job(t, "t", *all_tables());
      }
    }
  }
}

// Letters of these ranges, in places where white space is allowed, are undefined behaviour in an
// unmodified TOML++ 3.3 (toml_document.cpp).
TEST(job_file, letters_beyond_ascii_are_read_or_refused) {
  const std::string e_acute = "\xc3\xa9";
  auto r = parse_document("\xef\xbb\xbf# " + e_acute + "\nname = \"\"\"a \\\n   " + e_acute + "t" + e_acute + "\"\"\"\n", "t");
  ASSERT_TRUE(r) << shown(r.error());
  EXPECT_EQ(std::get<std::string>((*r)[0].value.value), "a " + e_acute + "t" + e_acute);
  r = parse_document("a = 1\n" + e_acute + " = 2\n", "t");
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error()[0].at.to_string(), "t:2:1");
}

TEST(job_file, extremely_deep_and_long_texts_are_errors) {
  std::string dots = "a";
  for (int i = 0; i < 200000; ++i) dots += ".a";
  const std::string open(200000, '['), braces = [] {
    std::string s = "a = ";
    for (int i = 0; i < 100000; ++i) s += "{a=";
    return s;
  }();
  std::string keys;
  for (int i = 0; i < 60000; ++i) keys += "k" + std::to_string(i) + " = 1\n";
  for (const auto& t :
       {dots + " = 1", "[" + dots + "]", "[[" + dots + "]]", "a = {" + dots + " = 1}", "\"x\"." + dots, "a = " + open, braces, keys,
        "a = \"\"\"\\" + std::string(1000, '"'), std::string("'''"), std::string("\"\\"), std::string("a = '''x''''.a.a")}) {
    auto r = parse_job(t, "t", *all_tables());
    EXPECT_FALSE(r);
  }
}

}  // namespace
}  // namespace troupe
