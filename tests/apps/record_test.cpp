// `troupe train --record` and `troupe replay`: a recorded run is run again, with the same weights
// at every step.
#include <gmock/gmock.h>

#include <csignal>
#include <fstream>
#include <random>
#include <set>

#include "runtime/node/runs/run_info.hpp"
#include "runtime/record/checkpoint.hpp"
#include "runtime/record/sha256.hpp"
#include "tests/apps/child.hpp"

namespace troupe {
namespace {

using namespace testing_apps;
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using words = std::vector<std::string>;

class recorded_run : public command_test {
 protected:
  recorded_run() { write("job.toml", tiny_job()); }

  outcome train(const words& more) const {
    words all{"train", path("job.toml"), "--json", "--record", "--run-dir", path("runs")};
    all.insert(all.end(), more.begin(), more.end());
    return troupe(all);
  }
  outcome replay(const words& more, const std::string& run = "last") const {
    words all{"replay", run, "--run-dir", path("runs"), "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return troupe(all);
  }
  // The last event of a replay.
  nlohmann::json replayed(const words& more = {}, const std::string& run = "last") const {
    const auto o = replay(more, run);
    EXPECT_EQ(o.code, 0) << o.out << o.err;
    const auto all = objects(o.out);
    return all.empty() ? nlohmann::json::object() : all.back();
  }
  fs::path run_folder() const { return fs::path(path("runs")) / "1-tiny"; }
  // The weights of the run's checkpoints, by step.
  std::map<std::uint64_t, std::string> checkpoints(const fs::path& run) const {
    std::map<std::uint64_t, std::string> found;
    for (const auto& f : fs::directory_iterator(run / "checkpoints")) {
      auto c = load_checkpoint(f.path().string());
      EXPECT_TRUE(c);
      named_tensors parameters;
      for (auto& [name, value] : c->named)
        if (name.ends_with(".weight") || name.ends_with(".bias")) parameters.emplace_back(name, value);
      found[c->step] = weights_sha256(parameters);
    }
    return found;
  }
};

// Every run is recorded in a drawn mode, with drawn numbers of workers, sub-solvers and packets.
// Hogwild is left out: no log has the order of its additions.
class recorded_runs : public recorded_run, public ::testing::WithParamInterface<int> {};
TEST_P(recorded_runs, replay_with_the_same_weights_at_every_step) {
  const char* modes[] = {"mode=\"bsp\"",         "mode=\"ssp\",staleness=2",
                         "mode=\"downpour\"",    "mode=\"downpour\",n_push=2,n_fetch=3",
                         "mode=\"easgd\",tau=3", "mode=\"eamsgd\",tau=4",
                         "mode=\"gossip\"",      "mode=\"group_sync\",sync_freq=3",
                         "mode=\"sandblaster\"", "mode=\"easgd\",tau=2,variant=\"sync\""};
  std::mt19937 draw(static_cast<unsigned>(GetParam()) * 7919u + 1);
  const auto one_to = [&](unsigned most) { return std::to_string(1 + draw() % most); };
  const std::string mode = modes[static_cast<std::size_t>(GetParam()) % std::size(modes)];
  words set{"train.sync={" + mode + "}",
            "topology.workers_per_group=" + one_to(3),
            "pipeline.sub_solvers=" + one_to(2),
            "pipeline.packets=" + std::to_string(4u << (draw() % 2)),
            "job.seed=" + one_to(100),
            "checkpoint.every=10",
            "checkpoint.keep=10"};
  if (mode.find("group_sync") != mode.npos) set.insert(set.end(), {"topology.worker_groups=2", "topology.server_groups=2"});
  if (mode.find("n_push") != mode.npos) set[1] = "topology.worker_groups=" + one_to(3);
  if (mode.find("eamsgd") != mode.npos) set.push_back("train.dynamics.rule=\"nesterov\"");
  if (mode.find("gossip") != mode.npos) set[1] = "topology.workers_per_group=" + std::to_string(2 + draw() % 2);
  std::string shown;
  words more;
  for (const auto& s : set) {
    more.insert(more.end(), {"--set", s});
    shown += s + " ";
  }
  SCOPED_TRACE(shown);
  const auto o = train(more);
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const std::string weights = objects(o.out).back()["weights_sha256"];
  const auto whole = replayed();
  EXPECT_EQ(whole["followed"], true) << whole;
  EXPECT_EQ(whole["same_weights"], true) << whole;
  EXPECT_EQ(whole["weights_sha256"], weights);
  const auto kept = checkpoints(run_folder());
  EXPECT_FALSE(kept.empty());
  for (const auto& [step, hash] : kept) EXPECT_EQ(replayed({"--to", std::to_string(step)})["weights_sha256"], hash) << step;
  // A step between checkpoints: the same at every try.
  const auto odd = std::to_string(11 + draw() % 8);
  EXPECT_EQ(replayed({"--to", odd})["weights_sha256"], replayed({"--to", odd})["weights_sha256"]) << odd;
}
INSTANTIATE_TEST_SUITE_P(drawn, recorded_runs, ::testing::Range(0, 20));

TEST_F(recorded_run, of_lockstep_has_at_each_step_the_weights_of_a_run_that_ends_there) {
  ASSERT_EQ(train({"--set", "topology.workers_per_group=2"}).code, 0);
  for (const char* step : {"1", "7", "39"}) {
    const auto o = troupe({"train", path("job.toml"), "--json", "--set", "topology.workers_per_group=2", "--set",
                           std::string("train.finish.steps=") + step});
    EXPECT_EQ(replayed({"--to", step})["weights_sha256"], objects(o.out).back()["weights_sha256"]) << step;
  }
}

// A run that is stopped and resumed, with a switch of the mode in between: several plans.
TEST_F(recorded_run, replays_all_plans_of_a_run_that_was_steered_and_resumed) {
  // Without --json: a process whose output is not read must not block.
  child c(troupe_program(),
          {"train", path("job.toml"), "--record", "--run-dir", path("runs"), "--set", "train.finish.steps=1000000", "--set",
           "topology.workers_per_group=2", "--set", "eval.every=0"},
          folder_);
  for (std::string line; line.find("examples/s") == line.npos;) ASSERT_TRUE(c.read_line(line));
  const auto steered = troupe({"repl", run_folder().string(), "-c", "mode downpour; set train.dynamics.lr 0.01; checkpoint"});
  EXPECT_EQ(steered.code, 0) << steered.out << steered.err;
  c.send(SIGINT);
  const auto first = c.wait();
  ASSERT_EQ(first.code, 130) << first.out << first.err;
  const auto stopped = read_run_info(run_folder());
  ASSERT_TRUE(stopped);
  const auto step = stopped->steps;
  EXPECT_THAT(first.out, HasSubstr("weights_sha256 " + replayed()["weights_sha256"].get<std::string>()));
  const auto resumed =
      troupe({"resume", "1", "--run-dir", path("runs"), "--json", "--set", "train.finish.steps=" + std::to_string(step + 30)});
  ASSERT_EQ(resumed.code, 0) << resumed.out << resumed.err;
  const auto again = replayed();
  EXPECT_GE(again["plans"], 2);
  EXPECT_EQ(again["same_weights"], true) << again;
  EXPECT_EQ(again["weights_sha256"], objects(resumed.out).back()["weights_sha256"]);
  EXPECT_EQ(again["step"], step + 30);
}

TEST_F(recorded_run, of_a_killed_process_replays_to_where_its_log_ends) {
  words all{"train", path("job.toml"), "--json", "--record", "--run-dir", path("runs"), "--set", "train.finish.steps=100000",
            "--set", "eval.every=0"};
  child c(troupe_program(), all, folder_);
  std::string line;
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(c.read_line(line));
  c.send(SIGKILL);
  c.wait();
  const auto o = replay({});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("it was killed"));
  const auto end = objects(o.out).back();
  EXPECT_GT(end["step"], 500) << end;
  EXPECT_FALSE(end.contains("weights_sha256"));
  const auto at_100 = replayed({"--to", "100"})["weights_sha256"];
  const auto undisturbed =
      troupe({"train", path("job.toml"), "--json", "--set", "train.finish.steps=100", "--set", "eval.every=0"});
  EXPECT_EQ(at_100, objects(undisturbed.out).back()["weights_sha256"]);
}

// A flipped bit is told from the end of a killed process, also in the last record of the file.
TEST_F(recorded_run, with_a_flipped_bit_exits_with_1_and_names_file_and_place) {
  ASSERT_EQ(train({}).code, 0);
  const auto log = run_folder() / "recording" / "plan-0-from-step-0" / "messages.stream";
  const auto size = fs::file_size(log);
  const auto flip = [&](std::uintmax_t at, int bit) {
    std::fstream f(log, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(static_cast<std::streamoff>(at));
    const auto byte = f.get();
    f.seekp(static_cast<std::streamoff>(at));
    f.put(static_cast<char>(byte ^ (1 << bit)));
  };
  const auto length_of_last = size - 12;  // the last record has no bytes: its role has ended
  for (const auto& [at, bit] : {std::pair(size / 2, 3), std::pair(length_of_last, 7), std::pair(std::uintmax_t{3}, 0)}) {
    flip(at, bit);
    const auto o = replay({});
    EXPECT_EQ(o.code, 1) << "bit " << bit << " of byte " << at << ": " << o.out << o.err;
    const auto said = objects(o.out).back();
    EXPECT_THAT(said["where"].get<std::string>(), HasSubstr("messages.stream"));
    EXPECT_THAT(said["message"].get<std::string>(), HasSubstr("damaged"));
    if (at > 26) {
      EXPECT_THAT(said["message"].get<std::string>(), HasSubstr("the record at byte "));
    }
    flip(at, bit);
  }
  fs::resize_file(log, size - 7);
  const auto cut = replay({});
  EXPECT_EQ(cut.code, 0) << cut.out << cut.err;
  EXPECT_THAT(cut.err, HasSubstr("it was killed"));
}

TEST_F(recorded_run, of_hogwild_replays_and_says_why_its_weights_may_differ) {
  ASSERT_EQ(train({"--set", "train.sync={mode=\"hogwild\"}", "--set", "topology.workers_per_group=2"}).code, 0);
  const auto o = replay({});
  EXPECT_EQ(o.code, 0) << o.out << o.err;
  EXPECT_THAT(o.err, HasSubstr("numbers may differ"));
  EXPECT_EQ(objects(o.out).back()["followed"], true);
}

TEST_F(recorded_run, console_steps_message_by_message_and_shows_roles) {
  ASSERT_EQ(train({"--set", "topology.workers_per_group=2"}).code, 0);
  const auto o = replay({"-c", "step 2; to 3; role worker0; roles; next shard0; back 1; where; plans; plan 0; run"});
  ASSERT_EQ(o.code, 0) << o.out << o.err;
  const auto all = objects(o.out);
  const auto messages = of_kind(all, "message");
  ASSERT_GE(messages.size(), 4u);
  EXPECT_EQ(messages[0]["number"], 1);
  EXPECT_EQ(messages[0]["to"], "coordinator");
  EXPECT_EQ(messages[0]["message"], "start");
  EXPECT_EQ(messages[1]["number"], 2);
  const auto places = of_kind(all, "place");
  ASSERT_EQ(places.size(), 7u) << o.out;
  EXPECT_EQ(places[0]["messages"], 2);
  EXPECT_EQ(places[1]["step"], 3);
  EXPECT_EQ(places[3]["messages"], places[2]["messages"].get<int>() - 1);
  EXPECT_EQ(places[4], places[3]);
  EXPECT_EQ(places[5]["messages"], 0);
  EXPECT_EQ(places[6]["step"], 40);
  EXPECT_EQ(places[6]["over"], true);
  EXPECT_EQ(messages.back()["step"].is_number(), true);
  const auto roles = of_kind(all, "role");
  ASSERT_GT(roles.size(), 4u);
  EXPECT_EQ(roles[0]["role"], "worker0");
  EXPECT_GE(roles[0]["step"], 2) << "the worker has made the steps that the coordinator has counted: " << roles[0];
  EXPECT_TRUE(roles[0]["next"].is_string());
  const auto there = replay({"--repl", "--to", "5", "-c", "where"});
  EXPECT_EQ(of_kind(objects(there.out), "place").back()["step"], 5) << there.out;
}

TEST_F(recorded_run, errors_name_what_is_missing_and_what_to_do) {
  const auto refused = [&](const outcome& o, const std::string& part) {
    EXPECT_EQ(o.code, 2) << o.out << o.err;
    EXPECT_THAT(o.out + o.err, HasSubstr(part));
  };
  refused(troupe({"train", path("job.toml"), "--record", "--no-run"}), "leave out --no-run");
  ASSERT_EQ(troupe({"train", path("job.toml"), "--run-dir", path("runs")}).code, 0);
  refused(replay({}), "troupe train --record");
  ASSERT_EQ(train({}).code, 0);
  refused(replay({"--to", "41"}), "ends after step 40");
  refused(replay({"--to", "0"}), "begins at step 0");
  refused(replay({}, "none"), "none");
  refused(replay({"-c", "role worker7"}), "`roles` lists them");
  refused(replay({"-c", "stpe"}), "did you mean 'step'?");
  refused(replay({"-c", "step x"}), "number of messages");
  refused(replay({"-c", "plan 3"}), "`plans` lists them");
  refused(replay({"-c", "role"}), "usage: role ROLE");
}

// Every file that the process wrote, cut in the middle; the job file is the user's text.
TEST_F(recorded_run, with_a_cut_file_exits_with_1_and_names_the_file) {
  child c(troupe_program(),
          {"train", path("job.toml"), "--record", "--run-dir", path("runs"), "--set", "train.finish.steps=1000000", "--set",
           "eval.every=0"},
          folder_);
  for (std::string line; line.find("examples/s") == line.npos;) ASSERT_TRUE(c.read_line(line));
  c.send(SIGINT);
  ASSERT_EQ(c.wait().code, 130);
  const auto stopped = read_run_info(run_folder());
  ASSERT_TRUE(stopped);
  ASSERT_EQ(
      troupe({"resume", "1", "--run-dir", path("runs"), "--set", "train.finish.steps=" + std::to_string(stopped->steps + 9)}).code,
      0);
  std::set<std::string> names;
  for (const auto& f : fs::recursive_directory_iterator(run_folder() / "recording")) {
    const auto name = f.path().filename().string();
    const bool log = name == "messages.stream";  // a cut log is the end of a killed process
    if (!f.is_regular_file() || log || name == "job.toml" || f.file_size() < 2) continue;
    names.insert(name);
    const auto size = fs::file_size(f.path());
    const auto whole = path("whole");
    fs::copy_file(f.path(), whole, fs::copy_options::overwrite_existing);
    fs::resize_file(f.path(), size / 2);
    const auto o = replay({});
    EXPECT_EQ(o.code, 1) << f.path() << ": " << o.out << o.err;
    EXPECT_THAT(objects(o.out).back()["where"].get<std::string>(), HasSubstr(name));
    fs::copy_file(whole, f.path(), fs::copy_options::overwrite_existing);
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"plan.json", "begins-with.safetensors"}));
  EXPECT_EQ(replay({}).code, 0);
}

}  // namespace
}  // namespace troupe
