// Tests of the REPL's commands on a fake backend: their output, their effects and their refusals.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "actors/repl/job_lines.hpp"
#include "actors/repl/signals.hpp"
#include "runtime/cluster/view/job_progress.hpp"
#include "tests/actors/repl_fake.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;
using nlohmann::json;

class repl_commands_test : public testing::Test {
 protected:
  repl_reply text(const std::string& line) { return repl_session(backend_, false).run(line); }
  json object(const std::string& line) {
    const auto r = repl_session(backend_, true).run(line);
    auto o = json::parse(r.text, nullptr, false);
    EXPECT_TRUE(o.is_object()) << line << ": " << r.text;
    return o;
  }
  // Polls like a terminal, until the answer is complete or `askings` polls are used up.
  repl_reply whole(const std::string& line, bool as_json = false, int askings = 3) {
    std::string all;
    auto r =
        run_line([&](const std::string& l, const std::string*) { return repl_session(backend_, as_json).run(l); }, line, nullptr,
                 [&](const repl_reply& part) { all += (all.empty() ? "" : "\n") + part.text; }, [&] { return askings-- > 0; });
    r.text = all;
    return r;
  }
  fake_backend backend_;
};

TEST_F(repl_commands_test, status_names_node_and_running_job) {
  const auto t = text("status").text;
  EXPECT_NE(t.find("node n1 of cluster lab"), std::string::npos) << t;
  EXPECT_NE(t.find("1 of 2 nodes up"), std::string::npos) << t;
  EXPECT_NE(t.find("job 2 (new) running, step 4 of 100, loss 1.5"), std::string::npos) << t;
  for (const char* part : {"\n  mode      bsp, 3 workers", "\n  epoch     0.08 of 2", "\n  lr        0.01",
                           "\n  speed     200 examples/s, 320 ms per step (means over 5 s), 31 s left", "\n  folder    runs/7-new",
                           "this daemon has 3.0 MiB in memory"})
    EXPECT_NE(t.find(part), std::string::npos) << part << " in " << t;
  const auto o = object("status");
  EXPECT_EQ(o["job"]["mode"], "bsp");
  EXPECT_EQ(o["job"]["workers"], 3);
  EXPECT_EQ(o["job"]["lr"], 0.01);
  EXPECT_EQ(o["job"]["epoch"], 0.08);
  EXPECT_NEAR(o["job"]["eta_s"].get<double>(), 96 * 64 / 200.0, 1e-9);
  EXPECT_EQ(o["job"]["folder"], "runs/7-new");
  EXPECT_EQ(o["memory"], 3 << 20);
  EXPECT_EQ(o["job"]["job"], 2);
  EXPECT_EQ(o["job"]["loss"], 1.5);
}

TEST_F(repl_commands_test, every_listing_has_text_and_json_output) {
  for (const std::string c : {"status", "nodes", "roles", "queues", "waits", "jobs", "help"}) {
    EXPECT_EQ(text(c).how, kind::ok) << c;
    EXPECT_FALSE(text(c).text.empty()) << c;
    EXPECT_EQ(object(c)["command"], c);
  }
  EXPECT_EQ(object("nodes")["nodes"][0]["tcp_out"], 20);
  EXPECT_EQ(object("queues")["queues"][0]["in_flight"], 7);
  EXPECT_EQ(object("waits")["waits"][0]["waits_for"], "weights of version 6");
  EXPECT_EQ(object("jobs")["jobs"][0]["weights_sha256"], "abc");
  EXPECT_EQ(object("roles n2")["roles"].size(), 0u);
  EXPECT_EQ(text("roles n3").how, kind::usage);
}

TEST_F(repl_commands_test, gpus_are_listed_with_what_is_known_of_them) {
  EXPECT_EQ(text("nodes").text.find("gpu"), std::string::npos) << "a cluster without GPUs";
  EXPECT_FALSE(object("nodes")["nodes"][0].contains("gpus"));
  repl_gpu whole{.number = 1, .name = "H100", .memory_total = 80ull << 30};
  whole.memory_used = 60ull << 30;
  whole.held = 3ull << 30;
  whole.in_use = 2ull << 30;
  whole.utilisation = 97;
  whole.temperature = 61;
  whole.power = 350.25;
  const repl_gpu lost{.number = 0, .name = "A100", .failure = "gpu:0: lost", .memory_total = 40ull << 30};
  backend_.v.nodes[0].gpus = {whole};
  backend_.v.nodes[1].gpus = {lost};
  backend_.v.gpus = {whole};
  const auto t = text("nodes").text;
  EXPECT_NE(t.find("\n\nnode  gpu    name"), std::string::npos) << t;
  EXPECT_NE(t.find("n1    gpu:1  H100  60.0 GiB of 80.0 GiB  3.0 GiB  2.0 GiB  97 %  61 C         350 W"), std::string::npos) << t;
  EXPECT_NE(t.find("n2    gpu:0  A100  40.0 GiB "), std::string::npos) << t;
  EXPECT_NE(t.find("gpu:0: lost"), std::string::npos) << t;
  const auto g = object("nodes")["nodes"][0]["gpus"];
  EXPECT_EQ(g, json::parse(R"([{"device": "gpu:1", "name": "H100", "memory_total": 85899345920, "memory_used": 64424509440,
    "pool_held": 3221225472, "pool_in_use": 2147483648, "utilisation": 97.0, "temperature_c": 61.0, "power_w": 350.25}])"));
  EXPECT_EQ(object("status")["gpus"], g) << "those of the queried node";
  EXPECT_NE(text("status").text.find("\ngpu:1 (H100): 60.0 GiB of 80.0 GiB used, 3.0 GiB held by this process, 97 % busy, 61 C\n"),
            std::string::npos)
      << text("status").text;
}

TEST_F(repl_commands_test, dropped_messages_are_listed_by_role_and_summed_in_status) {
  EXPECT_EQ(object("status")["dropped"]["by_roles"].size(), 0u);
  auto& dropped = backend_.v.roles[0].what.status.dropped;
  dropped[drop_reason::repeated] = 12;
  EXPECT_EQ(text("status").text.find("rejected"), std::string::npos) << "repeated messages are no mistake";
  dropped[drop_reason::malformed] = 2;
  EXPECT_EQ(object("roles")["roles"][0]["dropped"]["repeated"], 12);
  EXPECT_EQ(object("roles")["roles"][0]["dropped"].size(), 2u);
  EXPECT_EQ(object("status")["dropped"]["by_roles"]["malformed"], 2);
  EXPECT_NE(text("roles").text.find("14 (2 malformed)"), std::string::npos) << text("roles").text;
  EXPECT_NE(text("status").text.find("roles have rejected 2 messages: see `roles`"), std::string::npos) << text("status").text;
}

TEST_F(repl_commands_test, commands_go_to_the_running_job_or_the_named_one) {
  for (const std::string line : {"pause", "resume", "stop", "checkpoint", "eval", "kill"}) {
    EXPECT_EQ(text(line).how, kind::ok) << line;
    EXPECT_EQ(name_of(backend_.announced.back().second), line);
    EXPECT_EQ(backend_.announced.back().first, 2u) << line;
  }
  EXPECT_EQ(text("stop 1").how, kind::ok);
  EXPECT_EQ(backend_.announced.back().first, 1u);
  EXPECT_EQ(text("stop 77").how, kind::failed);
  EXPECT_EQ(text("stop -1").how, kind::failed);
  EXPECT_EQ(text("stop 1 2").how, kind::usage);
  backend_.v.jobs.pop_back();
  EXPECT_EQ(text("pause").text, "no job is running");
  backend_.refusal = "job 1 is over";
  EXPECT_EQ(text("pause 1").text, "job 1 is over");
}

// The controller answers for a job that does not run yet, or not any more.
TEST_F(repl_commands_test, commands_go_to_the_job_whose_turn_it_is_in_each_phase) {
  const std::vector<std::string> lines = {"pause",
                                          "resume",
                                          "stop",
                                          "kill",
                                          "checkpoint",
                                          "eval",
                                          "drain n2",
                                          "staleness",
                                          "add-node n2",
                                          "move conv1 n2",
                                          "mode bsp",
                                          "balance 1,1",
                                          "set train.dynamics.lr 0.1"};
  auto& job = backend_.v.jobs.back();
  for (const auto state :
       {job_state::gathering, job_state::preparing, job_state::running, job_state::paused, job_state::stopping, job_state::ending})
    for (const auto& line : lines) {
      SCOPED_TRACE(line + " while " + text_of(state));
      job.state = state;
      backend_.refusal = "job 2 has not started yet: it waits for its nodes";
      EXPECT_EQ(text(line).text, backend_.refusal);
    }
  for (const auto state : {job_state::queued, job_state::checking, job_state::receiving})
    for (const auto& line : lines) {
      SCOPED_TRACE(line + " while " + text_of(state));
      job.state = state;
      EXPECT_THAT(text(line).text, testing::StartsWith(std::string("no job is running; job 2 is ") + text_of(state)));
    }
}

TEST_F(repl_commands_test, set_checks_key_and_value) {
  EXPECT_EQ(text("set train.dynamics.lr 0.001").how, kind::ok);
  const auto* set = backend_.announced.back().second.as<set_command>();
  ASSERT_TRUE(set);
  EXPECT_EQ(set->key, "train.dynamics.lr");
  EXPECT_EQ(set->value, 0.001);
  EXPECT_NE(text("set train.dynamics.lrr 1").text.find("did you mean 'train.dynamics.lr'"), std::string::npos);
  EXPECT_NE(text("set lr 1").text.find("keys: train.dynamics.lr, train.dynamics.decay, train.sync.*"), std::string::npos);
  for (const char* bad : {"set", "set train.dynamics.lr", "set train.dynamics.lr \"0.1", "set train.dynamics.lr x",
                          "set train.dynamics.lr 1x", "set train.dynamics.lr nan", "set train.dynamics.lr 1e999"})
    EXPECT_EQ(text(bad).how, kind::usage) << bad;
  EXPECT_EQ(backend_.announced.size(), 1u);
}

TEST_F(repl_commands_test, mode_waits_for_its_event_and_prints_it) {
  backend_.on_command = [this](const command& c) {
    backend_.said.put(1, {8, mode_event{mode_choice::of("easgd")}});  // of another job, ignored
    backend_.said.put(2, {8, step_event{.loss = 1}});
    backend_.answers(c, {9, mode_event{mode_choice::of("ssp staleness=3")}});
  };
  const auto r = whole("mode ssp staleness=3");
  EXPECT_EQ(r.how, kind::ok) << r.text;
  EXPECT_EQ(r.text, "mode: ssp staleness=3 from step 9 on");
  const auto* c = backend_.announced.back().second.as<mode_command>();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->mode, (mode_choice{"ssp", {{"staleness", "3"}}}));
  const auto o = json::parse(whole("mode ssp staleness=3 2", true).text, nullptr, false);
  EXPECT_EQ(o["event"], "mode");
  EXPECT_EQ(o["mode"], "ssp");
  EXPECT_EQ(o["options"]["staleness"], "3");
  EXPECT_EQ(o["step"], 9);
}

TEST_F(repl_commands_test, mode_fails_with_the_reason_when_the_switch_is_refused) {
  backend_.on_command = [this](const command& c) { backend_.answers(c, {9, refused_event{"unknown mode 'sps'"}}); };
  const auto r = whole("mode sps");
  EXPECT_EQ(r.how, kind::failed);
  EXPECT_EQ(r.text, "unknown mode 'sps'");
  backend_.on_command = [this](const command&) { backend_.said.put(2, {9, done_event{}}); };
  EXPECT_NE(whole("mode ssp").text.find("ended before it executed"), std::string::npos);
  for (const char* bad : {"mode", "mode ssp staleness 3", "mode ssp =3", "mode ssp 3 staleness=3"})
    EXPECT_EQ(whole(bad).how, kind::usage) << bad;
  EXPECT_EQ(whole("mode ssp 77").how, kind::failed) << "no such job";
}

TEST_F(repl_commands_test, mode_fails_when_its_event_does_not_arrive) {
  auto r = whole("mode ssp", false, 5);
  EXPECT_FALSE(r.next.empty()) << "still polled";
  r = whole("mode ssp", false, 5000);
  EXPECT_EQ(r.how, kind::failed);
  EXPECT_NE(r.text.find("has not executed the command yet"), std::string::npos) << r.text;
  backend_.v.jobs[1].state = job_state::failed;
  EXPECT_NE(whole("mode ssp 2").text.find("is not running"), std::string::npos);
}

TEST_F(repl_commands_test, stop_waits_for_an_event_that_the_view_has_before_the_event_log) {
  backend_.on_command = [this](const command&) {
    backend_.v.jobs[1].state = job_state::stopped;
    backend_.v.events = 1;
  };
  const auto r = whole("stop", false, 5);
  EXPECT_FALSE(r.next.empty()) << r.text;
  backend_.said.put(2, {9, done_event{.how = how_ended::stopped}});
  const auto end = text(r.next);
  EXPECT_EQ(end.how, kind::ok) << end.text;
}

TEST_F(repl_commands_test, set_changes_an_option_of_the_mode) {
  backend_.on_command = [this](const command& c) { backend_.answers(c, {9, mode_event{mode_choice::of("ssp staleness=inf")}}); };
  EXPECT_EQ(whole("set train.sync.staleness inf").text, "mode: ssp staleness=inf from step 9 on");
  const auto* c = backend_.announced.back().second.as<set_option_command>();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->option, "staleness");
  EXPECT_EQ(c->value, "inf");
  EXPECT_EQ(whole("set train.sync. 3").how, kind::usage);
  EXPECT_EQ(whole("set train.sync.staleness").how, kind::usage);
}

TEST_F(repl_commands_test, staleness_has_table_and_json_output) {
  backend_.on_command = [this](const command& c) {
    backend_.answers(c, {9, staleness_event{{{"conv1.weight", {{0, 30}, {1, 10}, {12, 10}}}, {"odd name", {{2, 5}}}}}});
  };
  const auto t = whole("staleness").text;
  EXPECT_NE(t.find("conv1.weight  50     2.60  12      30  10"), std::string::npos) << t;
  EXPECT_NE(t.find("8+"), std::string::npos) << t;
  EXPECT_NE(t.find("odd name"), std::string::npos) << t;
  const auto o = json::parse(whole("staleness", true).text, nullptr, false);
  EXPECT_EQ(o["event"], "staleness");
  EXPECT_EQ(o["parameters"]["conv1.weight"], (json{{"0", 30}, {"1", 10}, {"12", 10}}));
  EXPECT_EQ(o["parameters"]["odd name"]["2"], 5);
}

TEST_F(repl_commands_test, layer_shows_type_shapes_and_parameters) {
  backend_.refusal = "job 2 answers nothing";  // no histograms
  const auto t = text("layer conv1").text;
  for (const char* part : {"conv1: convolution of data", "16x1x28x28  ->  16x20x24x24", "conv1.bias", "20x1x5x5",
                           "in worker0/conv1 on n1: step 4, busy 500 ms (125 ms per step)"})
    EXPECT_NE(t.find(part), std::string::npos) << part << " in " << t;
  const auto o = object("layer conv1");
  EXPECT_EQ(o["parameters"][1]["lr_scale"], 2);
  EXPECT_EQ(o["parameters"][1]["decay_scale"], 0);
  EXPECT_EQ(o["places"][0]["role"], "worker0/conv1");
  EXPECT_NE(text("layer relu1").text.find("no parameters"), std::string::npos);
  EXPECT_EQ(object("layer")["layers"].size(), 2u);
  EXPECT_NE(text("layer conv2").text.find("did you mean 'conv1'"), std::string::npos);
  backend_.v.jobs[1].about = nullptr;
  EXPECT_EQ(text("layer conv1").how, kind::failed);
}

TEST_F(repl_commands_test, unknown_commands_get_a_suggestion_and_end_scripts_with_2) {
  const auto r = text("statsu");
  EXPECT_EQ(r.how, kind::usage);
  EXPECT_NE(r.text.find("unknown command 'statsu'; did you mean 'status'?"), std::string::npos) << r.text;
  EXPECT_EQ(object("statsu")["event"], "error");
  EXPECT_EQ(text("help statsu").how, kind::usage);
  EXPECT_EQ(text("").how, kind::ok);
  EXPECT_EQ(text("  # remark").how, kind::ok);
  EXPECT_EQ(text("exit").how, kind::quit);
  repl_signals signals;
  repl_options o;
  o.has_commands = true;
  o.commands = "status; nonsense; stop";
  const auto lines = [this](const std::string& l, const std::string*) { return text(l); };
  EXPECT_EQ(run_repl(lines, o, signals), 2);
  EXPECT_TRUE(backend_.announced.empty()) << "nothing after a mistake is executed";
  o.commands = "stop 77";
  EXPECT_EQ(run_repl(lines, o, signals), 1);
  o.commands = "status;;quit; nonsense";
  EXPECT_EQ(run_repl(lines, o, signals), 0);
}

TEST(repl_commands_of_a_line, prints_lines_about_jobs_after_the_reply_when_a_job_ends_before_it) {
  job_lines told([](const std::string& line) { std::printf("%s\n", line.c_str()); });
  repl_options o;
  o.commands = "submit short.toml; submit long.toml";
  o.has_commands = true;
  o.answering = [&](bool on) { told.answering(on); };
  int count = 0;
  const auto lines = [&](const std::string&, const std::string*) -> repl_reply {
    const auto job = "job " + std::to_string(++count);
    if (count == 1) told.add(job + " done");
    return {repl_reply::kind::ok, job + " queued", {}};
  };
  repl_signals signals;
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_repl(lines, o, signals), 0);
  told.add("job 2 done");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "job 1 queued\njob 1 done\njob 2 queued\njob 2 done\n");
}

TEST_F(repl_commands_test, submit_sends_the_text_and_the_overrides) {
  const std::string given = "[job]\n";
  EXPECT_EQ(repl_session(backend_, false).run("submit a.toml train.finish.steps=1 \"job.name=two words\"", &given).text,
            "job 5 queued");
  ASSERT_EQ(backend_.submitted.size(), 1u);
  EXPECT_EQ(backend_.submitted[0].text, given);
  EXPECT_EQ(backend_.submitted[0].overrides, (std::vector<std::string>{"train.finish.steps=1", "job.name=two words"}));
  const auto without = text("submit /etc/hostname");
  EXPECT_EQ(without.how, kind::usage);
  EXPECT_NE(without.text.find("the text of '/etc/hostname' is missing"), std::string::npos) << without.text;
  EXPECT_EQ(backend_.submitted.size(), 1u);
  backend_.refusal = "a.toml:1:1: unknown table";
  EXPECT_EQ(repl_session(backend_, false).run("submit a.toml", &given).how, kind::usage);
  backend_.refusal.clear();
  backend_.next_job = 0;
  EXPECT_EQ(repl_session(backend_, false).run("submit a.toml", &given).how, kind::later);
}

TEST(repl_stragglers, are_in_status_with_their_cost) {
  fake_backend b;
  auto& job = b.v.jobs[1];
  note_event(job, {40, straggler_event{"worker3/conv1", "n4", 210, 10, "slow"}});
  note_event(job, {90, straggler_event{"worker3/conv1", "n4", 310, 10, "slower"}});
  const auto text = repl_session(b, false).run("status").text;
  EXPECT_NE(text.find("slow      worker3/conv1 on n4: 310 ms in a step, its peers 10 ms (step 90)"), std::string::npos) << text;
  const auto o = nlohmann::json::parse(repl_session(b, true).run("status").text);
  ASSERT_EQ(o["job"]["stragglers"].size(), 1u) << o;
  EXPECT_EQ(o["job"]["stragglers"][0]["step"], 90);
  for (int i = 0; i < 9; ++i) note_event(job, {100, straggler_event{"worker" + std::to_string(i), "", 2, 1, ""}});
  EXPECT_EQ(job.stragglers.size(), 4u);
}

}  // namespace
}  // namespace troupe
