// Jobs on daemons that resume from a checkpoint or start with given weights: the client sends the
// file, and the final weights equal those of an unbroken run.
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/record/checkpoint.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

namespace fs = std::filesystem;
using beginning = cluster_submission::beginning;
using strings = std::vector<std::string>;

const char* adam = "train.dynamics={rule=\"adam\",lr=0.01}";

class cluster_resume : public cluster_test {
 protected:
  void SetUp() override {
    make_cluster(3);
    start_all();
  }
  static std::string first_message(const run_result& r) { return r.outcome.messages.empty() ? "" : r.outcome.messages.front(); }
  static std::string hash_of(const run_result& r) { return r.events.empty() ? "none" : r.text("weights_sha256"); }

  static strings with(strings a, const strings& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  // Trains past step `after`, then stops the job. Returns its checkpoint, a file in the
  // coordinator's state folder.
  std::string stopped(const strings& set, std::uint64_t after = 20) {
    auto b = begin(tiny_job(), set);
    EXPECT_TRUE(b->wait_event("step", 20s, after));
    EXPECT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
    const auto r = b->join();
    if (r.events.empty() || message_of(r.events.back().event) != "stopped") ADD_FAILURE() << first_message(r);
    for (const auto& e : r.events)
      if (const auto* c = e.event.as<checkpoint_event>()) return c->file;
    ADD_FAILURE() << "no checkpoint";
    return {};
  }
  // Waits until received files are removed. One actor reports the end of the job, another removes
  // the files.
  bool nothing_kept() {
    const auto folder = folder_ / "state" / "n1" / "given";
    const auto none = [&] { return !fs::exists(folder) || fs::is_empty(folder); };
    for (const auto begun = clock::now(); !none() && since(begun) < 5s;) ask("n1", "jobs");
    return none();
  }
  // Runs `troupe train` with these arguments. Returns its last event.
  nlohmann::json train(const strings& changes, int code = 0) {
    process p(with({std::string(TROUPE_BIN_DIR) + "/troupe", "train"}, changes), folder_);
    EXPECT_EQ(p.wait(120s), code) << p.out().substr(p.out().size() > 2000 ? p.out().size() - 2000 : 0) << p.log();
    auto text = p.out();
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return nlohmann::json::parse(text.substr(text.rfind('\n') + 1), nullptr, false);
  }
};

TEST_F(cluster_resume, a_stopped_job_resumes_to_the_bits_of_an_unbroken_run) {
  for (const strings& rule : {strings{}, strings{adam}}) {
    const auto set = with(rule, {"train.finish.steps=1500", "eval.every=0"});
    const auto file = stopped(with(workers(3, 2), set));
    const auto read = load_checkpoint(file);
    ASSERT_TRUE(read) << read.error().to_string();
    const auto step = read->step;
    ASSERT_LT(step, 1500u);
    const auto unbroken = run(tiny_job(), with(workers(2, 1), set));
    const auto on = run_with(beginning::checkpoint, file, tiny_job(), with(workers(2, 3), set));
    ASSERT_EQ(on.outcome.exit_code(), 0) << first_message(on);
    ASSERT_FALSE(on.events.empty());
    EXPECT_EQ(on.events.front().event.step, step + 1);
    EXPECT_EQ(on.value("steps"), 1500);
    EXPECT_EQ(hash_of(on), hash_of(unbroken));
    EXPECT_TRUE(nothing_kept());
  }
}

// The next plan of a resumed job begins with a handover.
TEST_F(cluster_resume, a_resumed_job_can_move_layers_stop_and_resume_again) {
  const auto set = with(workers(3, 2), {adam, "train.finish.steps=3000", "eval.every=0"});
  const auto first = stopped(set);
  cluster_submission s;
  s.where = coordinator();
  s.file = "job.toml";
  s.text = tiny_job();
  s.overrides = set;
  s.from = beginning::checkpoint;
  s.given = first;
  auto b = std::make_unique<background>(s);
  ASSERT_TRUE(b->wait_event("step", 20s, 1));
  for (const char* line : {"move ip2 n2", "drain n3"}) {
    const auto r = ask("n1", line);
    EXPECT_EQ(r.how, repl_reply::kind::ok) << line << ": " << r.text;
  }
  ASSERT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  const auto half = b->join();
  ASSERT_EQ(message_of(half.events.back().event), "stopped");
  std::string second;
  for (const auto& e : half.events)
    if (const auto* c = e.event.as<checkpoint_event>()) second = c->file;
  ASSERT_NE(second, first);
  const auto on = run_with(beginning::checkpoint, second, tiny_job(), set);
  ASSERT_EQ(on.outcome.exit_code(), 0) << first_message(on);
  EXPECT_EQ(hash_of(on), hash_of(run(tiny_job(), set)));
}

TEST_F(cluster_resume, troupe_train_resumes_and_starts_from_weights_on_a_cluster) {
  const auto job = write("job.toml", tiny_job());
  const strings changes{
      job, "--json", "--set", "eval.every=0", "--set", "train.finish.steps=900", "--set", "layer.ip1.outputs=2048"};
  const auto cluster = strings{"--cluster", path("cluster.toml")};
  const auto unbroken = train(changes);
  const auto file = stopped(with(workers(2, 1), {"eval.every=0", "train.finish.steps=900", "layer.ip1.outputs=2048"}), 5);
  ASSERT_GT(fs::file_size(file), 20u * 60u * 1024u) << "the file is sent in more than 20 pieces";
  const auto folder = fs::path(file).parent_path().string();
  const auto on = train(with(with(changes, cluster), {"--resume", folder, "--out", path("w.safetensors")}));
  ASSERT_TRUE(on.is_object() && unbroken.is_object());
  EXPECT_EQ(on["weights_sha256"], unbroken["weights_sha256"]);
  // A job with given weights starts at step 0. Its seed gives different weights.
  process init(
      {std::string(TROUPE_BIN_DIR) + "/troupe", "init", job, "--out", path("i.safetensors"), "--set", "layer.ip1.outputs=2048"},
      folder_);
  ASSERT_EQ(init.wait(), 0) << init.log();
  const auto seven = with(with(changes, cluster), {"--set", "job.seed=7", "--set", "train.finish.steps=30"});
  const auto given = train(with(seven, {"--weights", path("i.safetensors")}));
  auto here = with(changes, {"--set", "job.seed=7", "--set", "train.finish.steps=30", "--weights", path("i.safetensors")});
  EXPECT_EQ(given["weights_sha256"], train(here)["weights_sha256"]);
  EXPECT_NE(given["weights_sha256"], train(seven)["weights_sha256"]);
}

TEST_F(cluster_resume, weights_files_have_the_same_metadata_embedded_and_on_a_cluster) {
  const auto job = write("job.toml", tiny_job());
  const auto here = train({job, "--json", "--out", path("here.safetensors")});
  const auto there = train({job, "--json", "--out", path("there.safetensors"), "--cluster", path("cluster.toml")});
  EXPECT_EQ(here["weights_sha256"], there["weights_sha256"]);
  const auto said = [&](const char* name) {
    auto read = read_safetensors(path(name));
    EXPECT_TRUE(read);
    return read->metadata;
  };
  EXPECT_EQ(said("here.safetensors"), (metadata_map{{"format", "pt"}, {"job", "tiny"}, {"step", "40"}}));
  EXPECT_EQ(said("there.safetensors"), said("here.safetensors"));
}

TEST_F(cluster_resume, files_that_do_not_match_the_job_are_refused_by_name) {
  const strings set{"eval.every=0", "train.finish.steps=900"};
  const auto file = stopped(with(workers(2, 1), set));
  const auto refused = [&](beginning from, const std::string& given, strings more, const std::string& why) {
    const auto r = run_with(from, given, tiny_job(), with(set, more));
    EXPECT_EQ(r.outcome.exit_code(), 2) << why;
    EXPECT_NE(first_message(r).find(why), std::string::npos) << first_message(r);
    EXPECT_EQ(first_message(r).rfind(given + ": ", 0), 0u) << first_message(r);
  };
  refused(beginning::checkpoint, file, {"layer.ip1.outputs=8"}, "tensor 'ip1.weight' has shape 16x144, but the model needs 8x144");
  refused(beginning::weights, file, {"layer.ip1.outputs=8"}, "tensor 'ip1.weight' has shape 16x144, but the model needs 8x144");
  refused(beginning::checkpoint, file, {adam}, "train.dynamics.rule is momentum in the checkpoint and adam in the job");
  refused(beginning::checkpoint, file, {"job.seed=4"}, "job.seed is 3 in the checkpoint and 4 in the job");
  refused(beginning::checkpoint, file, {"train.finish.steps=3"}, "but the job ends at step 3");
  // Files that `troupe train` refuses to send.
  fs::copy_file(file, path("bent.safetensors"));
  std::fstream(path("bent.safetensors"), std::ios::in | std::ios::out | std::ios::binary).seekp(-5, std::ios::end).put('\x7f');
  refused(beginning::checkpoint, path("bent.safetensors"), {}, "damaged: its checksum differs");
  write("words", std::string(200 << 10, 'x'));
  refused(beginning::weights, path("words"), {}, "the limit is 100,000,000");
  write("empty", "");
  refused(beginning::checkpoint, path("empty"), {}, "the file is empty");
  write("huge", "x");
  fs::resize_file(path("huge"), 200u << 20);
  refused(beginning::weights, path("huge"), {}, "bytes; a file of this job has at most");
  // An error in the job itself is reported first.
  const auto r = run_with(beginning::checkpoint, file, tiny_job(), {"train.finish.stepps=3"});
  EXPECT_EQ(r.outcome.exit_code(), 2);
  EXPECT_NE(first_message(r).find("stepps"), std::string::npos) << first_message(r);
  // `troupe train` also reports the damaged file, before it connects.
  const auto job = write("job.toml", tiny_job());
  const auto bent = train({job, "--json", "--cluster", path("cluster.toml"), "--resume", path("bent.safetensors")}, 2);
  EXPECT_EQ(bent.value("where", ""), path("bent.safetensors")) << bent;
  const auto on = run_with(beginning::checkpoint, file, tiny_job(), set);
  EXPECT_EQ(on.outcome.exit_code(), 0) << first_message(on);
  EXPECT_EQ(hash_of(on), hash_of(run(tiny_job(), set)));
  EXPECT_TRUE(nothing_kept());
}

// Promises 11 and 23 (docs/promises.md).
TEST_F(cluster_resume, a_daemon_with_a_failing_disk_trains_on_alerts_and_exits_with_1) {
  kill_hard("n1");
  {
    process probe({std::string(TROUPE_BIN_DIR) + "/troupe", "modes"}, folder_, true);
    if (probe.wait() == 126) GTEST_SKIP() << "seccomp is not available";
  }
  start("n1", true);
  ASSERT_TRUE(cluster_test::joined("n1"));
  auto b = begin(tiny_job(), endless(workers(1, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  daemon("n1").signal(SIGHUP);
  ASSERT_TRUE(b->wait_event("alert", 20s));
  ASSERT_TRUE(b->wait_event("step", 20s, 400));
  daemon("n1").signal(SIGTERM);
  const auto r = b->join();
  EXPECT_EQ(daemon("n1").wait(25s), 1);
  EXPECT_NE(daemon("n1").log().find("not everything could be stored"), std::string::npos);
  EXPECT_EQ(r.outcome.exit_code(), 1);
  std::string alerts;
  for (const auto& e : r.events)
    if (std::string(name_of(e.event).name) == "alert") alerts += message_of(e.event) + "\n";
  EXPECT_NE(alerts.find("cannot sync: Input/output error"), std::string::npos) << alerts;
  EXPECT_EQ(r.count("checkpoint"), 0u);
}

}  // namespace
}  // namespace troupe::testing_cluster
