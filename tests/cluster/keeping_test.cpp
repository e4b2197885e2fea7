// Checkpoints of daemons: folders that jobs name, automatic resume from the newest checkpoint, and
// weights of which only a part matches.
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/record/checkpoint.hpp"
#include "runtime/record/checkpoint_home.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

namespace fs = std::filesystem;
using strings = std::vector<std::string>;

class cluster_keeping : public cluster_test {
 protected:
  static strings with(strings a, const strings& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  static const job_event* first(const run_result& r, const std::string& kind) {
    for (const auto& e : r.events)
      if (name_of(e.event).name == kind) return &e;
    return nullptr;
  }
  static std::string hash_of(const run_result& r) { return r.events.empty() ? "none" : r.text("weights_sha256"); }
  // Adds the folder to the ones that the cluster file allows for checkpoints.
  void allow(const std::string& folder) {
    std::ifstream in(path("cluster.toml"));
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto at = text.find("[cluster.tls]");
    ASSERT_NE(at, std::string::npos);
    text.insert(at, "checkpoints = [\"" + folder + "\"]\n");
    write("cluster.toml", text);
  }
  // Trains past step `after`, then stops the job. Returns the checkpoint that it wrote.
  std::string stopped(const strings& set, std::uint64_t after) {
    auto b = begin(tiny_job(), set);
    EXPECT_TRUE(b->wait_event("step", 20s, after));
    EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
    const auto r = b->join();
    std::string file;
    for (const auto& e : r.events)
      if (const auto* c = e.event.as<checkpoint_event>()) file = c->file;
    EXPECT_NE(file, "") << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
    return file;
  }
};

TEST_F(cluster_keeping, resume_auto_continues_a_job_from_its_newest_checkpoint) {
  make_cluster(2);
  const auto dir = path("shared");
  fs::create_directories(dir);
  allow(dir);
  start_all();
  const strings set{"train.finish.steps=2500", "eval.every=0"};
  const auto unbroken = hash_of(run(tiny_job(), with(workers(2, 1), set)));
  // Its last checkpoint would be the newest of the job of this name.
  for (const auto& f : fs::directory_iterator(path("state/n1")))
    if (f.path().filename().string().starts_with("job-")) fs::remove_all(f.path());
  for (const strings& where : {strings{}, strings{"checkpoint.dir=\"" + dir + "\""}}) {
    const auto automatic = with(with(set, where), {"checkpoint.resume=auto"});
    const auto file = stopped(with(workers(2, 1), automatic), 30);  // there is no checkpoint: the job starts at step 0
    if (!where.empty()) {
      EXPECT_EQ(file.rfind(dir + "/tiny/lab-", 0), 0u) << file;
    }
    const auto read = load_checkpoint(file);
    ASSERT_TRUE(read) << read.error().to_string();
    const auto step = read->step;
    const auto on = run(tiny_job(), with(workers(1, 2), automatic));
    ASSERT_EQ(on.outcome.exit_code(), 0);
    const auto* begins = first(on, "begins");
    ASSERT_TRUE(begins) << "there was no event with the checkpoint that the job begins with";
    EXPECT_EQ(begins->event.step, step);
    EXPECT_EQ(hash_of(on), unbroken);
    if (where.empty()) fs::remove_all(fs::path(file).parent_path());
  }
  const auto given = folder_ / "state" / "n1" / "given";  // the job executor removes the file after the last event
  const auto none = [&] { return !fs::exists(given) || fs::is_empty(given); };
  for (const auto begun = clock::now(); !none() && since(begun) < 5s;) ask("n1", "jobs");
  EXPECT_TRUE(none());
}

TEST_F(cluster_keeping, the_number_of_kept_checkpoints_holds_over_coordinator_restarts) {
  make_cluster(2);
  fs::create_directories(path("shared"));
  allow(path("shared"));
  start_all();
  const auto all_in = [](const std::string& folder) {
    std::vector<fs::path> files;
    for (const auto& f : fs::recursive_directory_iterator(folder)) {
      const auto name = f.path().filename().string();
      if (name.starts_with("checkpoint-") && name.ends_with(".safetensors")) files.push_back(f.path());
    }
    return files;
  };
  const auto newest_step = [&](const std::string& folder) {
    std::uint64_t step = 0;
    for (const auto& f : all_in(folder)) {
      const auto stem = f.stem().string();
      step = std::max<std::uint64_t>(step, std::stoull(stem.substr(stem.rfind('-') + 1)));
    }
    return step;
  };
  // A file with the name of a checkpoint, in a folder that does not belong to the job.
  fs::create_directories(path("state/n1/job-1-other-7"));
  write("state/n1/job-1-other-7/checkpoint-000001-step-1.safetensors", "not ours");
  for (const strings& where : {strings{}, strings{"checkpoint.dir=\"" + path("shared") + "\""}}) {
    const auto folder = where.empty() ? path("state") : path("shared");
    auto b = begin(tiny_job(), with(endless(workers(2, 1)), with(where, {"checkpoint.every=50"})));
    for (int life = 0; life < 3; ++life) {
      ASSERT_TRUE(b->wait_event("checkpoint", 30s, newest_step(folder) + 100)) << life;
      kill_hard("n1");
      start("n1");
    }
    ASSERT_TRUE(b->wait_event("checkpoint", 30s, newest_step(folder) + 100));
    ASSERT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
    EXPECT_EQ(b->join().outcome.exit_code(), 0);
    EXPECT_EQ(all_in(folder).size(), where.empty() ? 3u : 2u);
  }
  EXPECT_TRUE(fs::exists(path("state/n1/job-1-other-7/checkpoint-000001-step-1.safetensors")));
}

TEST_F(cluster_keeping, checkpoint_folders_that_the_cluster_file_does_not_allow_are_refused) {
  make_cluster(2);
  fs::create_directories(path("shared"));
  allow(path("shared"));
  start_all();
  for (const auto& dir : {path("elsewhere"), path("shared/../elsewhere"), std::string("/etc")}) {
    const auto r = run(tiny_job(), {"checkpoint.dir=\"" + dir + "\""});
    EXPECT_EQ(r.outcome.exit_code(), 2) << dir;
    ASSERT_FALSE(r.outcome.messages.empty());
    EXPECT_NE(r.outcome.messages[0].find("[checkpoint]: 'dir' is outside the allowed folders"), std::string::npos)
        << r.outcome.messages[0];
  }
  write("shared/tiny", "a file where its folder would be");
  const auto r = run(tiny_job(), {"checkpoint.dir=\"" + path("shared") + "\""});
  EXPECT_EQ(r.outcome.exit_code(), 2);
  ASSERT_FALSE(r.outcome.messages.empty());
  EXPECT_NE(r.outcome.messages[0].find("[checkpoint]: 'dir': " + path("shared") + "/tiny"), std::string::npos)
      << r.outcome.messages[0];
  EXPECT_FALSE(fs::exists(path("elsewhere")));
}

TEST_F(cluster_keeping, partly_matching_weights_are_loaded_alike_embedded_and_on_a_cluster) {
  make_cluster(2);
  start_all();
  const auto job = write("job.toml", tiny_job());
  const auto train = [&](const strings& changes) {
    process p(with({std::string(TROUPE_BIN_DIR) + "/troupe", "train", job, "--json"}, changes), folder_);
    EXPECT_EQ(p.wait(120s), 0) << p.out() << p.log();
    return p.out();
  };
  train({"--out", path("w.safetensors")});
  const strings part{"--weights", path("w.safetensors"), "--match", "names", "--set", "layer.ip1.outputs=24"};
  const auto here = train(part), there = train(with(part, {"--cluster", path("cluster.toml")}));
  const auto last = [](const std::string& out) {
    const auto text = out.substr(0, out.find_last_not_of('\n') + 1);
    return nlohmann::json::parse(text.substr(text.rfind('\n') + 1), nullptr, false).value("weights_sha256", "none");
  };
  EXPECT_EQ(last(here), last(there));
  for (const auto& out : {here, there}) {
    EXPECT_NE(out.find("parameters are taken; filled: ip1.weight (of shape "), std::string::npos) << out.substr(0, 600);
    EXPECT_NE(out.find("\"event\":\"begins\""), std::string::npos);
  }
}

}  // namespace
}  // namespace troupe::testing_cluster
