// Metrics: their names, the text format, totals that never fall, and the page made of facts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "actors/metrics/exposition.hpp"
#include "actors/metrics/page.hpp"
#include "actors/shell/monitor.hpp"
#include "runtime/cluster/view/about.hpp"
#include "tests/http_client.hpp"

namespace troupe {
namespace {

using testing_http::series_in;

bool has_line_with(const std::string& page, const std::string& start) {
  return ("\n" + page).find("\n" + start) != std::string::npos;
}

// --- the table

TEST(metric_table, names_follow_the_conventions_of_prometheus) {
  std::set<std::string> names;
  for (const auto& m : metric_table()) {
    const std::string n = m.name, labels = std::string(" ") + m.labels + " ";
    EXPECT_THAT(n, testing::MatchesRegex("(troupe|process)(_[a-z0-9]+)+"));
    EXPECT_TRUE(names.insert(n).second) << n << " is listed twice";
    EXPECT_EQ(n.ends_with("_total"), m.kind == metric_kind::counter) << n;
    EXPECT_TRUE(std::string(m.help).ends_with(".")) << n;
    for (const char* reserved : {" job ", " instance ", " le ", " quantile "})
      EXPECT_EQ(labels.find(reserved), std::string::npos) << n << ": Prometheus itself sets" << reserved;
  }
}

// --- the text

TEST(exposition, writes_gauges_counters_and_histograms_in_the_text_format) {
  exposition x;
  x.add("troupe_job_loss", {"1"}, 0.25);
  x.add("troupe_job_loss", {"2"}, std::numeric_limits<double>::infinity());
  x.add("troupe_job_steps_total", {"1"}, 12);
  const std::array<double, 2> bounds{0, 1};
  const std::array<std::uint64_t, 3> counts{3, 0, 2};
  x.add("troupe_weights_staleness_clocks", {"1"}, bounds, counts, 7);
  EXPECT_EQ(x.text(),
            "# HELP troupe_job_steps_total Completed steps, repeated ones included.\n"
            "# TYPE troupe_job_steps_total counter\n"
            "troupe_job_steps_total{job_id=\"1\"} 12\n"
            "# HELP troupe_job_loss Training loss of the last step.\n"
            "# TYPE troupe_job_loss gauge\n"
            "troupe_job_loss{job_id=\"1\"} 0.25\n"
            "troupe_job_loss{job_id=\"2\"} +Inf\n"
            "# HELP troupe_weights_staleness_clocks Age of the weights that steps have used, in clocks, by layer and step.\n"
            "# TYPE troupe_weights_staleness_clocks histogram\n"
            "troupe_weights_staleness_clocks_count{job_id=\"1\"} 5\n"
            "troupe_weights_staleness_clocks_sum{job_id=\"1\"} 7\n"
            "troupe_weights_staleness_clocks_bucket{job_id=\"1\",le=\"0\"} 3\n"
            "troupe_weights_staleness_clocks_bucket{job_id=\"1\",le=\"1\"} 3\n"
            "troupe_weights_staleness_clocks_bucket{job_id=\"1\",le=\"+Inf\"} 5\n");
}

TEST(exposition, escapes_labels_and_replaces_bytes_that_are_no_text) {
  exposition x;
  x.add("troupe_job_info", {"1", "a\"b\\c\nd\xff", std::string(500, 'x')}, 1);
  const auto text = x.text();
  EXPECT_TRUE(has_line_with(text, "troupe_job_info{job_id=\"1\",job_name=\"a\\\"b\\\\c\\\\x0ad\\\\xff\",owner=\"xxx")) << text;
  EXPECT_LT(text.size(), 400u);
}

TEST(exposition, refuses_unknown_names_and_other_labels) {
  exposition x;
  EXPECT_THROW(x.add("troupe_job_lost", {"1"}, 1), std::logic_error);
  EXPECT_THROW(x.add("troupe_job_loss", 1), std::logic_error);
  EXPECT_THROW(x.add("troupe_job_step_seconds", {"1"}, 1), std::logic_error) << "a histogram";
}

// --- what roles publish

TEST(monitor_entry, counts_tasks_and_the_time_of_waits_by_kind) {
  monitor_entry entry;
  const auto begun = monitor_entry::clock::now() + std::chrono::seconds(1);
  entry.name(1, role_id{2}, "worker0/conv1", "stage");
  role_status waits;
  waits.wait(wait_kind::credit, "credit from a consumer");
  entry.put(waits, 1, {}, begun);
  entry.put({}, 2, {}, begun + std::chrono::seconds(2));
  entry.put(waits, 3, {}, begun + std::chrono::seconds(10));
  entry.task_begun(0, "forward", std::nullopt, begun);
  entry.task_over(0);
  entry.task_begun(0, "backward", std::nullopt, begun);
  const auto p = entry.get(begun + std::chrono::seconds(13));
  EXPECT_EQ(p.kind, "stage");
  EXPECT_EQ(p.tasks, 2u);
  EXPECT_DOUBLE_EQ(p.waited[static_cast<std::size_t>(wait_kind::credit)], 5) << "2 s, and 3 s until now";
  EXPECT_DOUBLE_EQ(p.waited[static_cast<std::size_t>(wait_kind::weights)], 0);
}

TEST(monitor_entry, knows_the_usual_time_of_a_task_of_its_kind) {
  monitor_entry entry;
  const auto begun = monitor_entry::clock::now();
  const auto run = [&](const char* kind, int ms) {
    entry.task_begun(0, kind, std::nullopt, begun);
    entry.task_over(0, begun + std::chrono::milliseconds(ms));
  };
  const auto usual = [&](const char* kind) {
    entry.task_begun(0, kind, std::nullopt, begun);
    return entry.get(begun + std::chrono::seconds(1)).task.usual;
  };
  const char* const forward = "forward";
  for (const int ms : {10, 900, 12, 11}) run(forward, ms);
  EXPECT_EQ(usual(forward), 0) << "four tasks are too few";
  run(forward, 13);
  EXPECT_EQ(usual(forward), 0.012) << "the median, which one slow task does not change";
  EXPECT_EQ(usual("backward"), 0);
  for (int i = 0; i < 15; ++i) run(forward, 50);
  EXPECT_EQ(usual(forward), 0.05) << "only the last 15 count";
}

// --- totals of roles

role_published role_of(std::uint32_t job, std::uint32_t id, std::uint64_t messages, const char* name = "worker0/conv1") {
  role_published r;
  r.job = job;
  r.id = role_id{id};
  r.name = name;
  r.kind = std::string_view(name).find('/') == std::string_view::npos ? "worker" : "stage";
  r.messages = r.tasks = messages;
  r.busy_seconds = static_cast<double>(messages) / 8;
  r.status.queued = 2;
  r.status.staleness = {messages, 1};
  r.status.dropped[drop_reason::outdated] = messages;
  r.waited[static_cast<std::size_t>(wait_kind::credit)] = static_cast<double>(messages);
  return r;
}

TEST(role_totals, add_roles_of_one_layer) {
  role_totals t;
  t.take({role_of(1, 1, 5), role_of(1, 2, 7, "worker1/conv1"), role_of(1, 3, 11, "worker0")});
  const auto& g = t.jobs().at(1).groups;
  EXPECT_EQ(g.at({"stage", "conv1"}).messages, 12);
  EXPECT_EQ(g.at({"stage", "conv1"}).roles, 2);
  EXPECT_EQ(g.at({"stage", "conv1"}).queued, 4);
  EXPECT_EQ(g.at({"worker", ""}).tasks, 11);
  EXPECT_EQ(t.jobs().at(1).waited.at("stage")[static_cast<std::size_t>(wait_kind::credit)], 12);
  EXPECT_EQ(t.jobs().at(1).staleness, (std::vector<std::uint64_t>{23, 3}));
}

TEST(role_totals, do_not_fall_when_roles_end_and_new_ones_begin_at_zero) {
  role_totals t;
  t.take({role_of(1, 1, 100)});
  t.take({role_of(1, 1, 130)});
  t.take({});
  EXPECT_EQ(t.jobs().at(1).groups.at({"stage", "conv1"}).messages, 130);
  EXPECT_EQ(t.jobs().at(1).groups.at({"stage", "conv1"}).roles, 0);
  EXPECT_EQ(t.jobs().at(1).groups.at({"stage", "conv1"}).queued, 0) << "a gauge has the present value";
  t.take({role_of(1, 1, 4)});
  t.take({role_of(1, 1, 4)});
  t.take({role_of(1, 1, 3)});  // replaced between two samples
  const auto& j = t.jobs().at(1);
  EXPECT_EQ(j.groups.at({"stage", "conv1"}).messages, 137);
  EXPECT_EQ(j.groups.at({"stage", "conv1"}).busy, 137.0 / 8);
  EXPECT_EQ(t.dropped()[drop_reason::outdated], 137u);
}

TEST(role_totals, are_bounded_in_jobs_and_layers) {
  role_totals t;
  std::vector<role_published> many;
  for (std::uint32_t i = 0; i < 1000; ++i) many.push_back(role_of(1, i, 1, ("worker0/layer" + std::to_string(i)).c_str()));
  t.take(many);
  EXPECT_LE(t.jobs().at(1).groups.size(), 257u);
  EXPECT_GT(t.jobs().at(1).groups.at({"stage", "others"}).messages, 700);
  for (std::uint32_t job = 2; job < 100; ++job) t.take({role_of(job, 1, 1)});
  EXPECT_LE(t.jobs().size(), max_jobs_exported);
  EXPECT_TRUE(t.jobs().contains(99));
}

// --- totals of events

event_effect step_of(std::uint64_t step, double loss, std::uint64_t skipped = 0) {
  return {step, step_event{loss, 0.1, 100, 0.02, skipped}};
}

TEST(event_totals, count_repeated_steps_while_the_step_goes_back) {
  event_totals t;
  for (std::uint64_t s = 1; s <= 10; ++s) t.event(1, step_of(s, 2));
  t.event(1, {4, recovered_event{.ms = 250, .message = "n2 is lost"}});
  for (std::uint64_t s = 5; s <= 8; ++s) t.event(1, step_of(s, 1));
  const auto j = t.all().at(1);
  EXPECT_EQ(j.step, 8u);
  EXPECT_EQ(j.steps, 14u);
  EXPECT_EQ(j.recoveries, 1u);
  EXPECT_EQ(j.plan_changes, 1u);
  EXPECT_DOUBLE_EQ(j.recovery_seconds, 0.25);
  EXPECT_DOUBLE_EQ(j.step_seconds, 14 * 0.02);
  EXPECT_EQ(j.step_times[4], 14u) << "in (0.01, 0.025]";
  EXPECT_EQ(j.events.at("step"), 14u);
}

TEST(event_totals, the_best_accuracy_is_of_an_evaluation_that_the_job_still_has) {
  event_totals t;
  const auto evaluate = [&](std::uint64_t step, double accuracy) {
    t.event(1, {step, eval_event{.accuracy = accuracy, .loss = 1}});
    return t.all().at(1).best.best()->accuracy;
  };
  EXPECT_EQ(evaluate(4, 0.5), 0.5);
  EXPECT_EQ(evaluate(8, 0.9), 0.9);
  t.event(1, {6, recovered_event{.message = "n2 is lost"}});
  EXPECT_EQ(evaluate(8, 0.4), 0.5);
}

TEST(event_totals, skipped_steps_do_not_fall_in_a_new_plan) {
  event_totals t;
  t.event(1, step_of(1, 2, 3));
  t.event(1, step_of(2, 2, 1));  // a new plan counts from 0
  t.event(1, step_of(3, 2, 2));
  EXPECT_EQ(t.all().at(1).skipped, 5u);
}

TEST(event_totals, time_checkpoints_and_count_those_that_were_not_saved) {
  event_totals t;
  t.saving(1);
  t.saved(1, true);
  t.event(1, {40, checkpoint_event{}});
  t.saving(1);
  t.saved(1, false);
  t.event(1, {50, checkpoint_lost_event{"the disk is full"}});
  t.saved(1, true);  // of a job that this process did not start to save
  const auto j = t.all().at(1);
  EXPECT_EQ(j.saved, 1u);
  EXPECT_EQ(j.unsaved, 1u);
  EXPECT_EQ(j.saved_step, 40u);
  EXPECT_GE(j.saving_seconds, 0);
}

TEST(event_totals, are_bounded_in_jobs_and_count_by_name) {
  event_totals t;
  for (std::uint32_t job = 1; job < 100; ++job) t.event(job, step_of(1, 2));
  EXPECT_EQ(t.all().size(), max_jobs_exported);
  EXPECT_THAT(t.all().at(99).events, testing::ElementsAre(testing::Pair("step", 1u)));
  for (int i = 0; i < 1000; ++i) t.event(99, {1, alert_event{"alert " + std::to_string(i)}});
  t.event(99, {1, step_skipped_event{}});
  EXPECT_EQ(t.all().at(99).events.at("alert"), 1001u) << "alerts of all kinds have one name";
}

// --- the page

metrics_facts facts_of_a_cluster() {
  metrics_facts f;
  f.view.node = "n1";
  f.coordinates = true;
  repl_job j;
  j.id = 1;
  j.name = "lenet";
  j.state = job_state::running;
  j.step = 30;
  j.loss = 0.5;
  j.accuracy = 0.9;
  j.stragglers = {{"worker1/conv1", "n2", 245, 45, 20}};
  auto about = std::make_shared<repl_about>();
  about->batch = 24;
  about->steps_per_epoch = 20;
  j.about = about;
  f.view.jobs = {j};
  repl_node up, lost;
  up.name = "n1", up.state = "up", up.lives = 1;
  lost.name = "n2", lost.state = "lost", lost.node_failures = 2;
  f.view.nodes = {up, lost};
  repl_gpu g;
  g.number = 0, g.name = "NVIDIA H100", g.memory_total = 80'000, g.utilisation = 50, g.temperature = 61;
  f.view.gpus = {g};
  f.view.wrong_source = 3;
  f.nodes = {"n1", "n2"};
  net::peer_stats p;
  p.peer = "n2", p.transport = "shm", p.up = true, p.bytes_in = 1000, p.bytes_out = 2000, p.shared_in = 700;
  net::peer_stats client;
  client.peer = "client.alice.1", client.transport = "tcp";
  f.planes = {{"data", {{p, client}, 1, 0, 0}}};
  f.pools = {{"tensors", 4096, 1024, 2048}};
  f.certificates = {{"node", std::chrono::system_clock::time_point(std::chrono::seconds(2'000'000'000))}};
  event_totals t;
  for (std::uint64_t s = 1; s <= 30; ++s) t.event(1, step_of(s, 0.5));
  t.event(1, {30, checkpoint_event{}});
  f.totals = t.all();
  auto r = role_of(1, 5, 40);
  r.status.pushed.resize(7);
  r.status.pushed[6] = {4000, 120};
  f.roles = {r, role_of(1, 6, 1, "worker0")};
  return f;
}

TEST(metrics_page, shows_the_facts) {
  metrics_page page;
  const auto text = page.text(facts_of_a_cluster(), {4, 3, 1, 0, 0});
  const std::pair<const char*, double> expected[] = {
      {"troupe_build_info{version=\"0.1.0\",node=\"n1\"}", 1},
      {"troupe_jobs{state=\"running\"}", 1},
      {"troupe_jobs{state=\"failed\"}", 0},
      {"troupe_job_state{job_id=\"1\",state=\"running\"}", 1},
      {"troupe_job_state{job_id=\"1\",state=\"paused\"}", 0},
      {"troupe_job_step{job_id=\"1\"}", 30},
      {"troupe_job_steps_total{job_id=\"1\"}", 30},
      {"troupe_job_examples_total{job_id=\"1\"}", 720},
      {"troupe_job_epoch{job_id=\"1\"}", 1.5},
      {"troupe_job_loss{job_id=\"1\"}", 0.5},
      {"troupe_job_accuracy_ratio{job_id=\"1\"}", 0.9},
      {"troupe_job_learning_rate{job_id=\"1\"}", 0.1},
      {"troupe_job_step_seconds_count{job_id=\"1\"}", 30},
      {"troupe_job_checkpoint_step{job_id=\"1\"}", 30},
      {"troupe_job_checkpoints_total{job_id=\"1\",result=\"saved\"}", 1},
      {"troupe_job_straggler_seconds{job_id=\"1\",role=\"worker1/conv1\",node=\"n2\"}", 0.2},
      {"troupe_node_up{node=\"n1\"}", 1},
      {"troupe_node_up{node=\"n2\"}", 0},
      {"troupe_node_state{node=\"n2\",state=\"lost\"}", 1},
      {"troupe_node_failures_total{node=\"n2\"}", 2},
      {"troupe_roles{job_id=\"1\",kind=\"stage\"}", 1},
      {"troupe_role_tasks_total{job_id=\"1\",kind=\"stage\",layer=\"conv1\"}", 40},
      {"troupe_role_busy_seconds_total{job_id=\"1\",kind=\"stage\",layer=\"conv1\"}", 5},
      {"troupe_role_wait_seconds_total{job_id=\"1\",kind=\"stage\",reason=\"credit\"}", 40},
      {"troupe_weights_staleness_clocks_count{job_id=\"1\"}", 43},
      {"troupe_weights_staleness_clocks_sum{job_id=\"1\"}", 2},
      {"troupe_gradient_bytes_total{job_id=\"1\",codec=\"topk\"}", 120},
      {"troupe_gradient_plain_bytes_total{job_id=\"1\",codec=\"topk\"}", 4000},
      {"troupe_dropped_messages_total{reason=\"outdated\"}", 41},
      {"troupe_dropped_messages_total{reason=\"malformed\"}", 0},
      {"troupe_dropped_messages_total{reason=\"wrong_source\"}", 3},
      {"troupe_link_bytes_total{peer=\"n2\",plane=\"data\",direction=\"out\",transport=\"shm\"}", 2000},
      {"troupe_link_shared_bytes_total{peer=\"n2\"}", 700},
      {"troupe_connections_refused_total{plane=\"data\"}", 1},
      {"troupe_pool_used_bytes{pool=\"tensors\"}", 1024},
      {"troupe_gpu_utilization_ratio{gpu=\"0\"}", 0.5},
      {"troupe_gpu_temperature_celsius{gpu=\"0\"}", 61},
      {"troupe_certificate_expiry_timestamp_seconds{certificate=\"node\"}", 2e9},
      {"troupe_metrics_requests_total{result=\"served\"}", 3},
  };
  for (const auto& [series, value] : expected) EXPECT_EQ(series_in(text, series), value) << series;
  EXPECT_EQ(text.find("alice"), std::string::npos) << "clients have no series of their own";
  EXPECT_GT(series_in(text, "process_resident_memory_bytes"), 1e6);
  EXPECT_GT(series_in(text, "process_start_time_seconds"), 1.7e9);
  EXPECT_GT(series_in(text, "process_open_fds"), 2);
  EXPECT_GT(series_in(text, "process_cpu_seconds_total"), 0);
}

TEST(metrics_page, leaves_out_jobs_and_nodes_on_a_daemon_that_does_not_coordinate) {
  auto f = facts_of_a_cluster();
  f.coordinates = false;
  metrics_page page;
  const auto text = page.text(f, {});
  EXPECT_FALSE(has_line_with(text, "troupe_job_step{"));
  EXPECT_FALSE(has_line_with(text, "troupe_node_up{"));
  EXPECT_TRUE(has_line_with(text, "troupe_role_tasks_total{"));
}

TEST(metrics_page, shows_few_jobs_the_running_ones_first) {
  auto f = facts_of_a_cluster();
  for (std::uint32_t id = 2; id <= 200; ++id) {
    auto j = f.view.jobs.front();
    j.id = id;
    j.state = id == 150 ? job_state::queued : job_state::done;
    f.view.jobs.push_back(j);
  }
  metrics_page page;
  const auto text = page.text(f, {});
  for (const char* id : {"1", "150", "200"})
    EXPECT_TRUE(has_line_with(text, std::string("troupe_job_step{job_id=\"") + id + "\"}")) << id;
  EXPECT_FALSE(has_line_with(text, "troupe_job_step{job_id=\"2\"}"));
  EXPECT_EQ(series_in(text, "troupe_jobs{state=\"done\"}"), 198);
}

TEST(metrics_page, passes_promtool) {
  if (::access("/usr/bin/promtool", X_OK) != 0) GTEST_SKIP() << "promtool (package prometheus) is not installed";
  const auto file = std::filesystem::temp_directory_path() / ("troupe_metrics_" + std::to_string(::getpid()));
  metrics_page page;
  std::ofstream(file) << page.text(facts_of_a_cluster(), {});
  const int status = std::system(("/usr/bin/promtool check metrics < " + file.string() + " >&2").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace troupe
