// Errors of command lines and files and how they are reported; and commands that run no job.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class usage : public command_test {};

TEST_F(usage, wrong_command_lines_are_exit_2_with_a_hint_on_stderr) {
  const std::vector<std::vector<std::string>> lines{
      {}, {"trian", "job.toml"}, {"train"}, {"train", "a.toml", "--no-such-flag"}, {"test"}, {"time", "a.toml", "--steps", "many"}};
  for (const auto& words : lines) {
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_EQ(o.out, "");
    EXPECT_NE(o.err.find("try: troupe"), std::string::npos) << o.err;
  }
}

TEST_F(usage, a_wrong_command_line_is_an_error_event_with_json) {
  const auto o = troupe({"train", "--json"});
  EXPECT_EQ(o.code, 2);
  EXPECT_EQ(o.err, "");
  const auto all = objects(o.out);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["event"], "error");
  EXPECT_EQ(all[0]["where"], "command line");
}

TEST_F(usage, help_exits_with_0_and_shows_examples) {
  for (const char* name : {"train", "attach", "test",        "predict", "time",  "init",      "pack",         "plan",
                           "sim",   "check",  "check-layer", "layers",  "modes", "reference", "init-cluster", "device_query",
                           "runs",  "plot",   "sql",         "resume",  "fetch", "jobs",      "doctor"}) {
    const auto o = troupe({name, "--help"});
    EXPECT_EQ(o.code, 0);
    EXPECT_EQ(o.err, "");
    for (const auto& part : {std::string("troupe ") + name, std::string("--json")}) EXPECT_NE(o.out.find(part), std::string::npos);
  }
  EXPECT_NE(troupe({"--help"}).out.find("init-cluster"), std::string::npos);
}

TEST_F(usage, reports_all_errors_of_a_file_with_their_positions) {
  auto text = tiny_job("[pipline]\nx = 1\n");
  text.replace(text.find("outputs = 16"), 12, "outputz = 16");
  const auto job = write("job.toml", text);
  const auto o = troupe({"train", job});
  EXPECT_EQ(o.code, 2);
  EXPECT_EQ(o.out, "");
  EXPECT_NE(o.err.find(job + ":15:1: "), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("did you mean 'outputs'?"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("did you mean 'pipeline'?"), std::string::npos) << o.err;
  const auto j = troupe({"check", job, "--json"});
  EXPECT_EQ(j.code, 2);
  EXPECT_EQ(j.err, "");
  const auto errors = of_kind(objects(j.out), "error");
  EXPECT_GE(errors.size(), 2u);
  for (const auto& e : errors) EXPECT_EQ(e["where"].get<std::string>().rfind(job + ":", 0), 0u) << e;
}

TEST_F(usage, suggests_a_key_when_an_override_has_an_unknown_one) {
  const auto job = write("job.toml", tiny_job());
  const auto o = troupe({"train", job, "--set", "train.dynamics.momentun=0.5"});
  EXPECT_EQ(o.code, 2);
  EXPECT_NE(o.err.find("--set"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("did you mean 'momentum'?"), std::string::npos) << o.err;
}

TEST_F(usage, hostile_files_are_errors_and_not_crashes) {
  const std::vector<std::string> texts{"",     std::string("a\0b = 1", 7), "x = \"\xff\xfe\"",
                                       "[[[[", std::string(1 << 21, '#'),  "a = " + std::string(5000, '[')};
  for (const auto& text : texts) {
    const auto o = troupe({"check", write("bad.toml", text)});
    EXPECT_EQ(o.code, 2);
    EXPECT_NE(o.err, "");
  }
  EXPECT_EQ(troupe({"check", path("missing.toml")}).code, 2);
  EXPECT_EQ(troupe({"check", folder_.string()}).code, 2);
}

TEST_F(usage, check_takes_jobs_and_clusters_and_returns_the_worst_exit_code) {
  const auto job = write("job.toml", tiny_job());
  const auto cluster = write("cluster.toml",
                             "[cluster]\nname = \"lab\"\n[cluster.tls]\ndir = \"certs\"\n[[node]]\nname = \"n1\"\n"
                             "address = \"127.0.0.1:7701\"\n[[node]]\nname = \"n2\"\naddress = \"127.0.0.1:7702\"\n");
  const auto good = troupe({"check", job, cluster});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_NE(good.out.find("cluster lab of 2 nodes"), std::string::npos) << good.out;
  EXPECT_EQ(troupe({"check", job, write("bad.toml", "x = 1")}).code, 2);

  const auto made = troupe({"init-cluster", "--cluster", cluster});
  EXPECT_EQ(made.code, 0) << made.err;
  // Each machine's folder has only the files that it needs. The CA's key is in none of them.
  std::set<std::string> files;
  for (const auto& e : std::filesystem::recursive_directory_iterator(folder_ / "certs"))
    if (!e.is_directory()) files.insert(std::filesystem::relative(e.path(), folder_ / "certs").string());
  EXPECT_EQ(files, (std::set<std::string>{"ca/ca.key", "ca/ca.pem", "client/ca.pem", "client/client.key", "client/client.pem",
                                          "n1/ca.pem", "n1/n1.key", "n1/n1.pem", "n2/ca.pem", "n2/n2.key", "n2/n2.pem"}));
  EXPECT_EQ(troupe({"init-cluster", "--cluster", cluster}).code, 2);
  EXPECT_EQ(troupe({"init-cluster", "--cluster", cluster, "--overwrite"}).code, 0);

  const auto plan = troupe({"plan", job, "--cluster", cluster, "--set", "topology.workers_per_group=2", "--json"});
  ASSERT_EQ(plan.code, 0) << plan.out;
  const auto p = objects(plan.out).at(0);
  EXPECT_EQ(p["event"], "plan");
  EXPECT_GT(p["bytes_per_step"]["n2"].get<double>(), 0);
  EXPECT_GT(p["memory"]["n1"].get<double>(), 0);
  EXPECT_GT(p["placement"].size(), 8u);
  EXPECT_GT(p["routes"].size(), 8u);
}

TEST_F(usage, plan_of_an_embedded_job_sends_nothing) {
  const auto o = troupe({"plan", write("job.toml", tiny_job()), "--json"});
  ASSERT_EQ(o.code, 0) << o.out;
  EXPECT_EQ(objects(o.out).at(0)["bytes_per_step"]["local"], 0);
  const auto text = troupe({"plan", path("job.toml")});
  EXPECT_NE(text.out.find("worker0/ip1"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("parameters   gradients      states   activations"), std::string::npos) << text.out;
  const auto peak = objects(o.out).at(0)["peak"];
  double parameters = 0;
  for (const auto& r : peak["roles"]) parameters += r["parameters"].get<double>();
  ASSERT_EQ(peak["nodes"].size(), 1u);
  EXPECT_EQ(peak["nodes"][0]["parameters"], parameters);
  EXPECT_EQ(peak["nodes"][0]["total"], objects(o.out).at(0)["memory"]["local"]);
  const auto sized = [&](const char* set) {
    return objects(troupe({"plan", path("job.toml"), "--json", "--set", set}).out).at(0)["peak"]["nodes"][0]["total"].get<double>();
  };
  EXPECT_GT(sized("pipeline.sub_solvers=2"), peak["nodes"][0]["total"].get<double>());
}

TEST_F(usage, plan_shows_weight_delays_addends_and_wire_formats) {
  const auto configs = std::string(TROUPE_SOURCE_DIR) + "/configs/";
  const auto plan = [&](std::vector<std::string> set, bool json) {
    std::vector<std::string> words{"plan", configs + "jobs/pipeline4.toml", "--cluster", configs + "clusters/pipeline4.toml"};
    for (auto& s : set) words.insert(words.end(), {"--set", s});
    words.emplace_back(json ? "--json" : "--routes");
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.out;
  };
  const std::vector<std::string> stash{"pipeline.weights=stash", "pipeline.packets=4"};
  EXPECT_NE(plan(stash, false).find("steps behind  packets at once  versions"), std::string::npos);
  std::map<std::string, std::vector<int>> got;
  const auto lagging = objects(plan(stash, true));
  for (const auto& r : lagging.at(0)["placement"])
    if (r.contains("versions"))
      got[r["node"].get<std::string>()] = {r["delay"].get<int>(), r["in_flight"].get<int>(), r["versions"].get<int>()};
  EXPECT_EQ(got["n1"], (std::vector<int>{1, 8, 2}));
  EXPECT_EQ(got["n4"], (std::vector<int>{0, 4, 1}));
  EXPECT_EQ(plan({}, false).find("steps behind"), std::string::npos);

  const std::vector<std::string> added{"layer.ip2.partition=input", R"(layer.ip2.place=["n2", "n3"])", "layer.ip2.wire=bf16"};
  const auto text = plan(added, false);
  EXPECT_NE(text.find("returned, addend\n"), std::string::npos) << text;
  EXPECT_NE(text.find("returned, addend, bf16\n"), std::string::npos) << text;
  int addends = 0;
  const auto cast = objects(plan(added, true));
  for (const auto& r : cast.at(0)["routes"]) {
    if (!r.contains("addend")) continue;
    ++addends;
    EXPECT_EQ(r["bytes_per_packet"], r.contains("wire") ? 4 * 512 * 2 : 4 * 512 * 4);
  }
  EXPECT_EQ(addends, 2);
}

TEST_F(usage, plan_suggests_keys_that_the_job_file_takes) {
  const auto job = std::string(TROUPE_SOURCE_DIR) + "/configs/jobs/alexnet.toml";
  const std::vector<std::string> words{
      "plan", job, "--suggest", "--set", "topology.workers_per_group=4", "--set", "pipeline.packets=4"};
  const auto text = troupe(words);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("fc6    partition = \"feature\""), std::string::npos) << text.out;
  auto more = words;
  more.emplace_back("--json");
  const auto s = objects(troupe(more).out).at(0);
  EXPECT_EQ(s["event"], "suggestion");
  EXPECT_LT(s["suggested"]["seconds"], s["by_batch"]["seconds"]);
  ASSERT_EQ(s["layers"].size(), 8u);
  EXPECT_EQ(s["layers"][0]["partition"], "batch");
  EXPECT_EQ(s["layers"][5]["layer"], "fc6");
  EXPECT_EQ(s["layers"][5]["partition"], "feature");
  more.insert(more.end(), {"--gbit", "0"});
  EXPECT_EQ(troupe(more).code, 2);
}

TEST_F(usage, reports_a_mode_that_does_not_suit_the_job_with_its_position) {
  const auto job = write("job.toml", tiny_job("[topology]\nworker_groups = 2\n"));
  for (const char* command : {"train", "check", "plan"}) {
    const auto o = troupe({command, job});
    EXPECT_EQ(o.code, 2) << command;
    EXPECT_EQ(o.err.rfind(job + ":", 0), 0u) << o.err;
    EXPECT_NE(o.err.find("worker_groups must be 1"), std::string::npos) << o.err;
  }
  const auto set = troupe({"train", job, "--set", "train.sync={mode=\"easgd\",alpha=1.5}"});
  EXPECT_EQ(set.code, 2);
  EXPECT_NE(set.err.find("alpha must be at least 0 and less than 1"), std::string::npos) << set.err;
  EXPECT_EQ(set.err.rfind("--set ", 0), 0u) << set.err;
}

TEST_F(usage, plan_counts_the_parameters_of_every_server_group) {
  const auto job = write("job.toml", tiny_job());
  const auto o = troupe({"plan", job, "--json", "--set", "train.sync={mode=\"group_sync\"}", "--set", "topology.worker_groups=2",
                         "--set", "topology.server_groups=2", "--set", "topology.servers_per_group=2"});
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto p = objects(o.out).at(0);
  std::map<int, std::int64_t> held;
  std::set<std::string> kinds;
  for (const auto& r : p["placement"]) {
    kinds.insert(r["kind"].get<std::string>());
    if (r["kind"] == "shard") held[r["server_group"].get<int>()] += r["parameters"].get<std::int64_t>();
  }
  const std::int64_t all = 64 * 16 + 16 + 16 * 4 + 4;
  EXPECT_EQ(held, (std::map<int, std::int64_t>{{0, all}, {1, all}}));
  EXPECT_TRUE(kinds.contains("tester")) << p["placement"];
  std::set<std::pair<std::string, std::string>> ways;
  for (const auto& r : p["routes"])
    if (r.contains("parameter")) ways.emplace(r["from"], r["to"]);
  for (const auto& way : {std::pair<std::string, std::string>{"worker0", "shard0"},
                          {"worker1", "shard2"},
                          {"shard3", "shard1"},
                          {"shard0", "tester"}})
    EXPECT_TRUE(ways.contains(way)) << way.first << " -> " << way.second;
  EXPECT_FALSE(ways.contains({"worker0", "shard2"}));
  const auto tree = troupe({"plan", job, "--set", "topology.workers_per_group=2", "--set", "train.exchange={reducer=\"tree\"}"});
  EXPECT_EQ(tree.code, 0) << tree.err;
  EXPECT_NE(tree.out.find("sums for worker0/reducer"), std::string::npos) << tree.out;
  EXPECT_NE(tree.out.find("reducer tree arity=2"), std::string::npos) << tree.out;
}

TEST_F(usage, mode_page_has_the_properties_of_the_mode) {
  const auto ssp = objects(troupe({"modes", "ssp", "--json"}).out).at(0);
  for (const char* fact : {"lockstep", "portions", "by_groups", "takes_when"}) EXPECT_TRUE(ssp[fact].is_boolean()) << fact;
  EXPECT_EQ(ssp["lockstep"], false);
  EXPECT_EQ(ssp["options"][0]["default"], 1);
  EXPECT_EQ(objects(troupe({"modes", "easgd", "--json"}).out).at(0)["takes_when"], true);
  EXPECT_EQ(objects(troupe({"modes", "sandblaster", "--json"}).out).at(0)["portions"], true);
  EXPECT_EQ(objects(troupe({"modes", "hogwild", "--json"}).out).at(0)["by_groups"], true);
  const auto page = troupe({"modes", "ssp"}).out;
  EXPECT_NE(page.find("at least 0, or \"inf\""), std::string::npos) << page;
  const auto list = troupe({"modes"}).out;
  for (const char* line : {"sync = { mode = \"ssp\", staleness = 1 }", "sync = { mode = \"bsp\" }"})
    EXPECT_NE(list.find(line), std::string::npos) << list;
  EXPECT_NE(troupe({"modes", "spp"}).err.find("did you mean 'ssp'?"), std::string::npos);
}

TEST_F(usage, staleness_is_printed_as_json_and_as_text) {
  const auto job = write("job.toml", tiny_job());
  const std::vector<std::string> more{"--set", "train.sync={mode=\"ssp\",staleness=2}", "--set", "topology.workers_per_group=2"};
  std::vector<std::string> words{"train", job, "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const auto o = troupe(words);
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto announced = of_kind(objects(o.out), "staleness");
  ASSERT_EQ(announced.size(), 1u) << o.out;
  std::uint64_t reads = 0;
  for (const auto& [clocks, times] : announced[0]["parameters"]["ip1.weight"].items()) {
    EXPECT_LE(std::stoi(clocks), 2);
    reads += times.get<std::uint64_t>();
  }
  EXPECT_GT(reads, 0u) << announced[0];
  words.erase(words.begin() + 2);
  EXPECT_NE(troupe(words).out.find("clocks old on average"), std::string::npos);
}

TEST_F(usage, every_layer_and_mode_has_documentation) {
  for (const char* list : {"layers", "modes"}) {
    const auto all = objects(troupe({list, "--json"}).out);
    ASSERT_FALSE(all.empty());
    for (const auto& o : all) {
      EXPECT_FALSE(o["doc"].get<std::string>().empty()) << o;
      for (const auto& option : o["options"]) EXPECT_FALSE(option["doc"].get<std::string>().empty()) << o["name"] << " " << option;
      const auto page = troupe({list, o["name"].get<std::string>()});
      EXPECT_EQ(page.code, 0);
      EXPECT_NE(page.out.find(o["doc"].get<std::string>().substr(0, 30)), std::string::npos)
          << page.out;  // the rest may be wrapped
    }
  }
  const auto o = troupe({"layers", "convolutoin"});
  EXPECT_EQ(o.code, 2);
  EXPECT_NE(o.err.find("did you mean 'convolution'?"), std::string::npos) << o.err;
  EXPECT_NE(troupe({"layers", "convolution"}).out.find("->"), std::string::npos);
}

TEST_F(usage, layer_page_names_parameters_without_decay) {
  EXPECT_NE(troupe({"layers", "prelu"}).out.find("\nparameters: slope (decays only with decay_scale)\n"), std::string::npos)
      << troupe({"layers", "prelu"}).out;
  const auto rbm = objects(troupe({"layers", "rbm", "--json"}).out).at(0)["parameters"];
  ASSERT_EQ(rbm.size(), 3u);
  EXPECT_EQ(rbm[0]["name"], "weight");
  EXPECT_EQ(rbm[0]["decay"], 1);
  EXPECT_EQ(rbm[1]["decay"], 0);
  EXPECT_EQ(rbm[2]["decay"], 0);
  EXPECT_EQ(objects(troupe({"layers", "relu", "--json"}).out).at(0)["parameters"].size(), 0u);
}

TEST_F(usage, time_reports_plain_loop_actors_and_every_layer) {
  const auto o = troupe({"time", write("job.toml", tiny_job()), "--steps", "10", "--json"});
  ASSERT_EQ(o.code, 0) << o.out;
  const auto all = objects(o.out);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["event"], "time");
  EXPECT_GT(all[0]["plain_ms"], 0);
  EXPECT_GT(all[0]["actors_ms"], 0);
  ASSERT_EQ(all[0]["layers"].size(), 4u) << "fused layers are timed together";
  const auto apart =
      objects(troupe({"time", path("job.toml"), "--steps", "10", "--json", "--set", "pipeline.fuse_layers=false"}).out);
  EXPECT_EQ(apart.at(0)["layers"].size(), 5u);
  for (const auto& l : all[0]["layers"]) EXPECT_TRUE(l["forward_ms"].is_number() && l["backward_ms"].is_number()) << l;
}

TEST_F(usage, init_writes_the_initial_weights_of_training) {
  const auto job = write("job.toml", tiny_job());
  const auto o = troupe({"init", job, "--out", path("i.safetensors"), "--json"});
  ASSERT_EQ(o.code, 0) << o.out;
  const auto made = objects(o.out).at(0);
  EXPECT_EQ(made["parameters"], 64 * 16 + 16 + 16 * 4 + 4);
  const auto tested = objects(troupe({"test", job, "--weights", path("i.safetensors"), "--json"}).out);
  EXPECT_EQ(tested.back()["weights_sha256"], made["weights_sha256"]);
}

class plugins : public command_test {
 protected:
  std::string job_with(const std::string& plugin) const {
    auto text = tiny_job();
    text.replace(text.find("\"relu\""), 6, "\"twice\"");
    return write("job.toml", "plugins = [\"" + std::string(TROUPE_PLUGIN_DIR) + "/libtest_plugin_" + plugin + ".so\"]\n" + text);
  }
};

TEST_F(plugins, trains_with_a_layer_of_a_plugin) {
  const auto o = troupe({"train", job_with("good"), "--json"});
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  const auto page = troupe({"layers", "twice", "--plugin", std::string(TROUPE_PLUGIN_DIR) + "/libtest_plugin_good.so"});
  EXPECT_NE(page.out.find("y = 2 x"), std::string::npos) << page.out << page.err;
}

TEST_F(plugins, the_data_server_serves_a_sampler_of_a_plugin) {
  const auto job = job_with("good");
  const std::string chosen = "train.sampler={ kind = \"backwards\" }";
  const auto with = troupe({"train", job, "--set", chosen, "--json"});
  ASSERT_EQ(with.code, 0) << with.out << with.err;
  const auto without = troupe({"train", job, "--json"});
  EXPECT_NE(objects(with.out).back()["weights_sha256"], objects(without.out).back()["weights_sha256"]);
  const auto plan = objects(troupe({"plan", job, "--set", chosen, "--json"}).out).at(0);
  const auto& placed = plan["placement"];
  EXPECT_TRUE(std::any_of(placed.begin(), placed.end(), [](const auto& r) { return r["kind"] == "data_server"; })) << placed;
  const auto wrong = troupe({"train", job, "--set", "train.sampler={ kind = \"backward\" }"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("did you mean 'backwards'?"), std::string::npos) << wrong.err;
}

TEST_F(plugins, a_mode_of_a_plugin_is_listed_trained_and_simulated) {
  const auto plugin = std::string(TROUPE_PLUGIN_DIR) + "/libtest_plugin_fading.so";
  const auto page = objects(troupe({"modes", "fading", "--json", "--plugin", plugin}).out).at(0);
  EXPECT_EQ(page["options"].size(), 3u);
  EXPECT_EQ(page["takes_when"], true);
  EXPECT_NE(troupe({"modes", "--plugin", plugin}).out.find("fade = 100"), std::string::npos);
  const auto job = write("job.toml", "plugins = [\"" + plugin + "\"]\n" + tiny_job());
  const std::vector<std::string> set{"--set", "train.sync={mode=\"fading\",tau=2}", "--set", "topology.workers_per_group=2",
                                     "--set", "topology.servers_per_group=3",       "--json"};
  std::vector<std::string> train{"train", job};
  train.insert(train.end(), set.begin(), set.end());
  const auto o = troupe(train);
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_EQ(of_kind(objects(o.out), "staleness").size(), 1u);
  std::vector<std::string> simulated{"sim", job, "--nodes", "2"};
  simulated.insert(simulated.end(), set.begin(), set.end());
  const auto s = troupe(simulated);
  ASSERT_EQ(s.code, 0) << s.out << s.err;
  const auto last = objects(s.out).back();
  EXPECT_EQ(last["event"], "done") << last;
  EXPECT_EQ(objects(troupe(simulated).out).back()["trace_sha256"], last["trace_sha256"]) << "the trace differs in a second run";
  const auto bad = troupe({"train", job, "--set", "train.sync={mode=\"fading\",tau=0}"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("'tau' must be at least 1"), std::string::npos) << bad.err;
}

TEST_F(plugins, refuses_bad_plugins_by_name) {
  const std::vector<std::pair<std::string, std::string>> bad{
      {"wrong_abi", "built for ABI 4000000000"}, {"not_one", "does not export"}, {"missing", "there is no plugin"}};
  for (const auto& [name, why] : bad) {
    const auto o = troupe({"train", job_with(name)});
    EXPECT_EQ(o.code, 2);
    EXPECT_NE(o.err.find(why), std::string::npos) << o.err;
    EXPECT_NE(o.err.find("libtest_plugin_" + name + ".so"), std::string::npos) << o.err;
  }
}

}  // namespace
}  // namespace troupe
