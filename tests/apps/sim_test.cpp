// `troupe sim` on the command line.
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/apps/child.hpp"
#include "tests/trace_reader.hpp"

namespace troupe {
namespace {

using namespace testing_apps;

class sim_command : public command_test {
 protected:
  static std::string config(const std::string& name) { return std::string(TROUPE_SOURCE_DIR) + "/configs/" + name; }
  // The events of a run that must succeed.
  std::vector<nlohmann::json> run(std::vector<std::string> words) const {
    words.insert(words.begin(), "sim");
    words.push_back("--json");
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 0) << o.out << o.err;
    return objects(o.out);
  }
  nlohmann::json done(std::vector<std::string> words) const {
    const auto all = run(std::move(words));
    if (all.empty() || all.back()["event"] != "done") {
      ADD_FAILURE() << "no done event";
      return {};
    }
    return all.back();
  }
};

TEST_F(sim_command, a_cluster_with_faults_gives_the_weights_of_an_embedded_run) {
  const auto job = write("job.toml", tiny_job());
  const auto trained = of_kind(objects(troupe({"train", job, "--json", "--set", "pipeline.packets=4"}).out), "done").at(0);
  const std::vector<std::string> nodes{job, "--nodes", "4"};
  const auto quiet = done(nodes);
  EXPECT_EQ(quiet["weights_sha256"], trained["weights_sha256"]);
  EXPECT_EQ(quiet["nodes"], 4);
  EXPECT_EQ(quiet["faults"]["dropped"], 0);
  auto words = nodes;
  words.insert(words.end(), {"--faults", config("faults/everything.toml"), "--network", config("sim/ethernet.toml")});
  const auto stormy = done(words);
  EXPECT_EQ(stormy["weights_sha256"], trained["weights_sha256"]);
  for (const char* kind :
       {"delayed", "reordered", "duplicated_on_wire", "duplicated_above", "dropped", "resent", "wire_duplicates", "held"})
    EXPECT_GT(stormy["faults"][kind].get<int>(), 0) << kind;
  EXPECT_GT(stormy["virtual_seconds"].get<double>(), quiet["virtual_seconds"].get<double>());
}

TEST_F(sim_command, text_and_json_give_the_hash_of_the_trace_the_same_name) {
  const auto job = write("job.toml", tiny_job());
  const auto hash = done({job, "--nodes", "2"})["trace_sha256"].get<std::string>();
  const auto text = troupe({"sim", job, "--nodes", "2"}).out;
  EXPECT_NE(text.find("; trace_sha256 " + hash + "\n"), std::string::npos) << text;
}

TEST_F(sim_command, explains_how_a_batch_became_too_large_and_what_to_set) {
  const std::vector<std::string> words{"sim", config("jobs/lenet_synthetic.toml"), "--nodes", "1000", "--maths", "none", "--steps",
                                       "1"};
  const auto o = troupe(words);
  EXPECT_EQ(o.code, 2);
  EXPECT_NE(
      o.err.find("batch 1000 is larger than the training split of 512 examples; the job has batch 16, and sim rounds it up to a "
                 "multiple of its 1000 packets, at least one for each of 1000 workers: set more examples (--set "
                 "data.examples=1000) or fewer nodes"),
      std::string::npos)
      << o.err;
  auto more = words;
  more.insert(more.end(), {"--set", "data.examples=1000"});
  EXPECT_EQ(troupe(more).code, 0);
  auto own = words;  // a batch that sim has not changed is reported without the explanation
  own[3] = "4";
  own.insert(own.end(), {"--set", "data.batch=1024"});
  const auto asked = troupe(own);
  EXPECT_EQ(asked.code, 2);
  EXPECT_EQ(asked.err.find("sim rounds"), std::string::npos) << asked.err;
}

TEST_F(sim_command, the_same_seed_gives_the_same_trace_and_another_seed_does_not) {
  const auto job = write("job.toml", tiny_job());
  const auto trace = [&](const char* seed, const char* maths) {
    return done({job, "--nodes", "3", "--seed", seed, "--maths", maths, "--faults", config("faults/lossy.toml"), "--network",
                 config("sim/racks.toml")})["trace_sha256"]
        .get<std::string>();
  };
  EXPECT_EQ(trace("5", "real").size(), 64u);
  EXPECT_EQ(trace("5", "real"), trace("5", "real"));
  EXPECT_EQ(trace("5", "none"), trace("5", "none"));
  EXPECT_NE(trace("5", "none"), trace("6", "none"));
}

TEST_F(sim_command, reports_time_loss_and_bytes) {
  const auto job = write("job.toml", tiny_job());
  const auto all = run({job, "--nodes", "4", "--steps", "6"});
  const auto steps = of_kind(all, "step");
  ASSERT_EQ(steps.size(), 6u);
  double before = 0;
  for (const auto& s : steps) {
    EXPECT_TRUE(s.contains("loss"));
    EXPECT_GT(s["virtual_seconds"].get<double>(), before);
    before = s["virtual_seconds"].get<double>();
  }
  const auto links = of_kind(all, "links").at(0)["links"];
  ASSERT_FALSE(links.empty());
  EXPECT_GT(links[0]["bytes"].get<double>(), 0);
  const auto& last = all.back();
  EXPECT_GE(last["step_seconds_p99"].get<double>(), last["step_seconds_median"].get<double>());
  const auto out = troupe({"sim", job, "--nodes", "2", "--steps", "2", "--json"}).out;
  const auto line = nlohmann::ordered_json::parse(out.substr(out.rfind("{\"event\":\"done\"")));
  auto item = line.end();
  EXPECT_EQ((--item).key(), "virtual_seconds");
  EXPECT_EQ((--item).key(), "trace_sha256");
}

TEST_F(sim_command, simulates_a_thousand_nodes_without_maths) {
  const auto all = run({config("jobs/googlenet.toml"), "--nodes", "1000", "--maths", "none", "--steps", "5", "--buckets", "2"});
  const auto& d = all.back();
  EXPECT_EQ(d["parameters"], 13378280);
  EXPECT_EQ(d["packets"], 1000);
  EXPECT_EQ(d["batch"], 2000);  // 1024 rounded up to a multiple of the packets
  EXPECT_FALSE(d.contains("weights_sha256"));
  EXPECT_FALSE(of_kind(all, "step").at(0).contains("loss"));
  // Every worker except the one on the shard's node sends all gradients and receives all weights.
  EXPECT_NEAR(d["bytes_per_step"].get<double>(), 2.0 * 999 * 4 * 13378280, 0.3 * 2 * 999 * 4 * 13378280);
}

// FireCaffe's arithmetic: on one link for both directions, 128 workers push and fetch 53.5 MB each.
TEST_F(sim_command, the_time_of_a_parameter_server_matches_firecaffe) {
  const auto d = done({config("sim/firecaffe_googlenet_128_server.toml")});
  EXPECT_NEAR(d["step_seconds_median"].get<double>(), 2 * 128 * 53.513120e6 / 2.8e9, 0.05);
}

// FireCaffe, section 4: T = B / (p rate) + 2 W log2 p / BW for a binomial tree, one message a step,
// no overlap.
TEST_F(sim_command, five_tree_reductions_are_within_5_percent_of_firecaffes_formula) {
  struct row {
    const char* file;
    double parameters, nodes, batch, rate;
  };
  for (const auto& r :
       {row{"firecaffe_nin_32_256", 7595176, 32, 256, 120.2}, row{"firecaffe_nin_32_1024", 7595176, 32, 1024, 120.2},
        row{"firecaffe_nin_128", 7595176, 128, 1024, 120.2}, row{"firecaffe_googlenet_32", 13378280, 32, 1024, 45.2},
        row{"firecaffe_googlenet_128", 13378280, 128, 1024, 45.2}}) {
    SCOPED_TRACE(r.file);
    const auto d = done({config(std::string("sim/") + r.file + ".toml")});
    EXPECT_EQ(d["parameters"], r.parameters);
    EXPECT_EQ(d["nodes"], r.nodes);
    EXPECT_EQ(d["batch"], r.batch);
    const double formula = r.batch / (r.nodes * r.rate) + 2 * 4 * r.parameters * std::log2(r.nodes) / 2.8e9;
    EXPECT_NEAR(d["step_seconds_median"].get<double>(), formula, 0.05 * formula);
  }
}

TEST_F(sim_command, tree_and_server_give_the_same_weights) {
  const auto job = write("job.toml", tiny_job());
  const auto server = done({job, "--nodes", "8"}), tree = done({job, "--nodes", "8", "--set", "train.exchange.reducer=tree"});
  EXPECT_EQ(server["weights_sha256"], tree["weights_sha256"]);
  EXPECT_NE(server["trace_sha256"], tree["trace_sha256"]);
}

const char* const three_crashes =
    "[[fault]]\nkind = \"crash\"\nfrom = \"1ms\"\nuntil = \"4ms\"\ntimes = 3\nrestart_after = \"1ms\"\n";

TEST_F(sim_command, crashed_and_restarted_nodes_change_no_bit) {
  const auto job = write("job.toml", tiny_job());
  const std::vector<std::vector<std::string>> jobs{{"--nodes", "4"}, {"--nodes", "8", "--set", "train.exchange.reducer=tree"}};
  for (const auto& more : jobs) {
    std::vector<std::string> words{job};
    words.insert(words.end(), more.begin(), more.end());
    const auto quiet = done(words);
    std::uint64_t recoveries = 0;
    words.insert(words.end(),
                 {"--network", config("sim/ethernet.toml"), "--faults", write("crash.toml", three_crashes), "--seed", "1"});
    for (const char* seed : {"1", "2", "3", "4", "5"}) {
      words.back() = seed;
      const auto d = done(words);
      EXPECT_EQ(d["weights_sha256"], quiet["weights_sha256"]) << "seed " << seed;
      recoveries += d["recoveries"].get<std::uint64_t>();
    }
    EXPECT_GT(recoveries, 3u);
  }
}

// The shard has the only copy of its parameters and the job has no checkpoint, so it begins again,
// as on a cluster.
TEST_F(sim_command, a_killed_shard_without_a_replica_sets_the_job_back) {
  const auto job = write("job.toml", tiny_job());
  const auto faults = write("shard.toml", "[[fault]]\nkind = \"kill\"\nfrom = \"2ms\"\nnodes = [2]\nrestart_after = \"1s\"\n");
  const std::vector<std::string> words{
      job, "--nodes", "3", "--set", "topology.servers_per_group=2", "--network", config("sim/ethernet.toml")};
  const auto quiet = done(words);
  auto hit = words;
  hit.insert(hit.begin(), "sim");
  hit.insert(hit.end(), {"--json", "--faults", faults});
  const auto o = troupe(hit);
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto events = objects(o.out);
  ASSERT_EQ(of_kind(events, "fault").size(), 1u) << o.out;
  EXPECT_EQ(of_kind(events, "fault")[0]["kind"], "kill");
  const auto recovered = of_kind(events, "recovered");
  ASSERT_EQ(recovered.size(), 1u) << o.out;
  EXPECT_EQ(recovered[0]["live"], 0);
  EXPECT_EQ(recovered[0]["step"], 0);
  EXPECT_GT(recovered[0]["steps_again"].get<int>(), 0);
  for (const char* phase : {"noticed", "planned", "ready", "loaded", "replaced", "first step"})
    EXPECT_GE(recovered[0]["phases"][phase].get<double>(), 0) << phase;
  EXPECT_EQ(of_kind(events, "done").at(0)["weights_sha256"], quiet["weights_sha256"]);
}

TEST_F(sim_command, a_simulation_without_maths_returns_to_its_checkpoint) {
  for (const char* node : {"1", "2"})  // the coordinator's, and one with a shard
    for (const char* buckets : {"0", "2"}) {
      SCOPED_TRACE(std::string(node) + " " + buckets);
      const auto faults = write("kill.toml", std::string("[[fault]]\nkind = \"kill\"\nfrom = \"130ms\"\nnodes = [") + node +
                                                 "]\nrestart_after = \"10ms\"\n");
      const auto o = troupe({"sim",
                             config("jobs/lenet_synthetic.toml"),
                             "--nodes",
                             "3",
                             "--steps",
                             "6000",
                             "--maths",
                             "none",
                             "--buckets",
                             buckets,
                             "--network",
                             config("sim/ethernet.toml"),
                             "--json",
                             "--faults",
                             faults,
                             "--set",
                             "topology.servers_per_group=2",
                             "--set",
                             "checkpoint.every=100",
                             "--set",
                             "data.batch=48"});
      ASSERT_EQ(o.code, 0) << o.out.substr(o.out.size() > 900 ? o.out.size() - 900 : 0) << o.err;
      const auto recovered = of_kind(objects(o.out), "recovered");
      ASSERT_EQ(recovered.size(), node[0] == '2' ? 1u : 0u) << "the coordinator's daemon resumes the job";
      for (const auto& e : recovered) {
        EXPECT_EQ(e["live"], 0);
        EXPECT_GT(e["step"].get<int>(), 0);
      }
    }
}

// Stages without maths declare the state that they carry, so that a checkpoint has it.
TEST_F(sim_command, a_simulation_without_maths_returns_to_a_checkpoint_with_the_state_of_sequences) {
  std::string text;
  for (int i = 0; i < 400'000; ++i) text += static_cast<char>('a' + i % 23);
  const auto path = write("text.txt", text);
  const auto faults = write("kill.toml", "[[fault]]\nkind = \"kill\"\nfrom = \"3s\"\nnodes = [2]\nrestart_after = \"10ms\"\n");
  for (const char* buckets : {"0", "2"}) {
    SCOPED_TRACE(buckets);
    const auto o = troupe({"sim", config("jobs/char_rnn_lstm.toml"), "--nodes", "2", "--steps", "60", "--maths", "none",
                           "--buckets", buckets, "--json", "--faults", faults, "--set", "data.path=" + path, "--set",
                           "checkpoint.every=7", "--set", "topology.servers_per_group=2"});
    ASSERT_EQ(o.code, 0) << o.out.substr(o.out.size() > 900 ? o.out.size() - 900 : 0) << o.err;
    const auto recovered = of_kind(objects(o.out), "recovered");
    ASSERT_EQ(recovered.size(), 1u);
    EXPECT_EQ(recovered[0]["live"], 0);
    EXPECT_GT(recovered[0]["step"].get<int>(), 0);
  }
}

TEST_F(sim_command, seeds_run_with_other_faults_each_and_report_what_they_did) {
  const auto job = write("job.toml", tiny_job());
  const auto o = troupe({"sim", job, "--nodes", "4", "--seeds", "1..12", "--json"});
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto d = of_kind(objects(o.out), "seeds").at(0);
  EXPECT_EQ(d["runs"], 12);
  EXPECT_EQ(d["done"].get<int>() + d["failed"].get<int>(), 12);
  EXPECT_GT(d["recoveries"].get<int>(), 0);
  for (const char* wrong : {"9..1", "1..", "x", "1..2..3"}) {
    const auto bad = troupe({"sim", job, "--nodes", "4", "--seeds", wrong});
    EXPECT_EQ(bad.code, 2) << wrong;
  }
}

TEST_F(sim_command, the_repl_of_a_simulation_steps_through_time_and_faults) {
  const auto job = write("job.toml", tiny_job());
  const auto o = troupe({"sim", job, "--nodes", "3", "-c", "until 1.4; nodes; step 3; inject kill n2; run; time"});
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  for (const char* part : {"1.4", "n3", "injected at n2: kill", "the job is over"})
    EXPECT_NE(o.out.find(part), std::string::npos) << part << "\n" << o.out;
  EXPECT_EQ(troupe({"sim", job, "--nodes", "3", "-c", "until soon"}).code, 2);
  EXPECT_EQ(troupe({"sim", job, "--nodes", "3", "-c", "lose n9"}).code, 2);
}

TEST_F(sim_command, a_role_that_would_crash_without_its_node_is_refused) {
  const auto faults = write("stage.toml", "[[fault]]\nkind = \"crash\"\nfrom = \"1ms\"\nroles = [\"host1/ip2+relu2\"]\n");
  const auto o = troupe({"sim", config("jobs/pipeline4.toml"), "--cluster", config("clusters/pipeline4.toml"), "--faults", faults});
  EXPECT_EQ(o.code, 2) << o.out << o.err;
  EXPECT_NE(o.err.find("stage.toml:4:1: a fault of kind crash: a role does not crash without its node"), std::string::npos)
      << o.err;
}

TEST_F(sim_command, faults_name_nodes_of_the_cluster_file) {
  const auto faults = [&](const std::string& node) {
    return write("slow.toml", "[[fault]]\nkind = \"slow\"\nfactor = 20\nnodes = [\"" + node + "\"]\n");
  };
  std::vector<std::string> words{"sim",          config("jobs/alexnet_fc.toml"),
                                 "--cluster",    config("clusters/alexnet_fc.toml"),
                                 "--maths",      "none",
                                 "--steps",      "2",
                                 "--json",       "--faults",
                                 faults("conv1")};
  const auto o = troupe(words);
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_GT(of_kind(objects(o.out), "done").at(0)["faults"]["slowed"].get<std::uint64_t>(), 0u);
  words.back() = faults("conv9");
  const auto wrong = troupe(words);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE((wrong.out + wrong.err).find("there is no node 'conv9' in the cluster"), std::string::npos) << wrong.out << wrong.err;
}

TEST_F(sim_command, writes_a_trace_of_all_roles_and_links) {
  const auto job = write("job.toml", tiny_job());
  done({job, "--nodes", "2", "--steps", "3", "--trace", path("run.pftrace")});
  const auto t = testing_trace::trace_reader::read(path("run.pftrace"));
  EXPECT_GT(t.named("forward").size(), 5u);
  EXPECT_GT(t.named("backward").size(), 5u);
  std::size_t on_links = 0;
  for (const auto& s : t.slices) on_links += s.track.starts_with("links/") ? 1 : 0;
  EXPECT_GT(on_links, 5u);
  EXPECT_GT(t.instants.size(), 20u);
  EXPECT_FALSE(t.counters.empty());
}

// Bytes on the wire of a run are those that `troupe plan` prints: AlexNet with convolutions by
// batch on three nodes and fc6 on one FC node or two. The difference of two runs excludes the bytes
// of start and end (initial weights, evaluation, collection).
TEST_F(sim_command, alexnets_conv_nodes_move_the_bytes_of_the_plan) {
  const std::vector<std::string> where{config("jobs/alexnet_fc.toml"), "--cluster", config("clusters/alexnet_fc.toml"), "--json"};
  const auto with = [&](const char* command, const std::vector<std::string>& more) {
    std::vector<std::string> words{command};
    words.insert(words.end(), where.begin(), where.end());
    words.insert(words.end(), more.begin(), more.end());
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 0) << o.out << o.err;
    return objects(o.out);
  };
  for (const double megabytes : {56.4, 37.5}) {
    std::vector<std::string> set;
    if (megabytes < 50) set = {"--set", "layer.fc6.partition=none", "--set", "layer.fc6.place=fc1"};
    const auto moved = [&](const char* steps) {
      auto more = set;
      more.insert(more.end(), {"--maths", "none", "--steps", steps});
      std::map<std::string, double> by;  // node -> in and out
      const auto announced = of_kind(with("sim", more), "links").at(0);
      for (const auto& l : announced["links"]) {
        const auto name = l["link"].get<std::string>();
        by[name.substr(0, name.find(' '))] += l["bytes"].get<double>();
      }
      return by;
    };
    auto few = moved("2"), many = moved("6");
    const auto plan = with("plan", set).at(0);
    for (const auto& [link, node] : {std::pair{"n4", "conv1"}, {"n5", "conv2"}, {"n6", "conv3"}, {"n2", "fc1"}, {"n1", "ps"}}) {
      const double said = plan["bytes_per_step"][node].get<double>() + plan["bytes_received_per_step"][node].get<double>();
      EXPECT_NEAR((many[link] - few[link]) / 4, said, 0.01 * said) << node;
      if (std::string(node).starts_with("conv")) {
        EXPECT_NEAR(said, 1e6 * megabytes, 1e4 * megabytes);
      }
    }
  }
}

TEST_F(sim_command, adds_nodes_for_placed_layers) {
  auto text = tiny_job();
  text.replace(text.find("outputs = 16"), 12, "outputs = 16\nplace = \"fc\"");
  const auto job = write("job.toml", text);
  const auto d = done({job, "--nodes", "2"});
  EXPECT_EQ(d["nodes"], 3);
  EXPECT_EQ(d["weights_sha256"], done({write("plain.toml", tiny_job()), "--nodes", "2"})["weights_sha256"]);
  EXPECT_GT(d["bytes_per_step"].get<double>(), 0);
  EXPECT_EQ(done({job, "--nodes", "2", "--maths", "none"})["nodes"], 3) << "placed layers were replaced by buckets";
  for (const auto& any : {job, path("plain.toml")}) {
    const auto o = troupe({"sim", any, "--nodes", "2", "--maths", "none", "--json"});
    EXPECT_TRUE(of_kind(objects(o.out), "eval").empty()) << "evaluated without maths: " << any;
  }
  const auto coarse = troupe({"sim", job, "--nodes", "2", "--maths", "none", "--buckets", "2"});
  EXPECT_EQ(coarse.code, 2);
  EXPECT_NE(coarse.err.find("--buckets 0"), std::string::npos) << coarse.err;
  const auto both = troupe({"sim", job, "--nodes", "2", "--cluster", config("clusters/local2.toml")});
  EXPECT_EQ(both.code, 2);
  const auto elsewhere = troupe({"sim", job, "--cluster", config("clusters/local2.toml")});
  EXPECT_EQ(elsewhere.code, 2);
  EXPECT_NE(elsewhere.err.find("unknown node 'fc'"), std::string::npos) << elsewhere.err;
}

TEST_F(sim_command, errors_exit_with_2_and_name_the_position) {
  const auto job = write("job.toml", tiny_job());
  const auto expect = [&](std::vector<std::string> words, const std::string& where, const std::string& message) {
    words.insert(words.begin(), "sim");
    const auto o = troupe(words);
    EXPECT_EQ(o.code, 2) << o.out << o.err;
    EXPECT_NE(o.err.find(where), std::string::npos) << o.err;
    EXPECT_NE(o.err.find(message), std::string::npos) << o.err;
  };
  expect({job}, "command line", "--nodes N is required");
  expect({job, "--nodes", "0"}, "command line", "--nodes");
  expect({job, "--nodes", "2", "--maths", "some"}, "command line", "--maths");
  expect({job, "--nodes", "2", "--buckets", "2"}, "command line", "--buckets requires --maths none");
  expect({path("none.toml"), "--nodes", "2"}, "none.toml", "");
  const auto bad = write("bad.toml", "[network]\nfabric = \"star\"\nlatency = \"5\"\n");
  expect({job, "--nodes", "2", "--network", bad}, bad + ":3:1: ", "a time with a unit");
  const auto far = write("far.toml", "[[fault]]\nkind = \"partition\"\nnodes = [3]\nuntil = \"1s\"\n");
  expect({job, "--nodes", "2", "--faults", far}, far + ":3:10: ", "there is no node 3: the cluster has 2");
  expect({job, "--nodes", "2", "--faults", bad}, bad + ":3:1: ", "unit");
  const auto quiet = write("quiet.toml", "[network]\nfabric = \"star\"\n");
  expect({job, "--nodes", "2", "--faults", quiet}, quiet + ":1:1: ", "the file has no [[fault]] table");
  expect({job, "--nodes", "2", "--trace", path("no/such/folder.json")}, "folder.json", "no folder");
  const auto j = troupe({"sim", job, "--nodes", "2", "--network", bad, "--json"});
  EXPECT_EQ(j.code, 2);
  EXPECT_EQ(j.err, "");
  EXPECT_EQ(of_kind(objects(j.out), "error").size(), 1u);
}

TEST_F(sim_command, check_accepts_simulation_files) {
  const auto o =
      troupe({"check", config("faults/lossy.toml"), config("sim/racks.toml"), config("sim/firecaffe_nin_128.toml"), "--json"});
  EXPECT_EQ(o.code, 0) << o.out;
  for (const auto& e : objects(o.out)) EXPECT_EQ(e["kind"], "simulation");
}

}  // namespace
}  // namespace troupe
