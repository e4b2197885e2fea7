// `critical`: simulated jobs with a planted cause, their traces as files, and the prediction beside
// a simulation of the same job in which that cause takes half the time.
#include "runtime/critical/causes.hpp"

#include <gmock/gmock.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>

#include "runtime/node/trace_jobs.hpp"
#include "runtime/trace/timeline.hpp"
#include "runtime/trace/trace_file.hpp"
#include "tests/actors/embedded_support.hpp"
#include "tests/error_text.hpp"

namespace troupe::testing_embedded {
namespace {

using namespace std::chrono_literals;

// A job on four nodes with a worker and a shard each.
class planted_job {
 public:
  std::function<double(const std::string& role)> slower = [](const std::string&) { return 1.0; };  // factor on its tasks
  std::pair<std::string, std::string> slow_link;
  duration link_time = 100us;

  explicit planted_job(std::uint64_t seed) : seed_(seed) {
    std::vector<node_spec> nodes(4);
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = "n" + std::to_string(i + 1);
    auto spec =
        parse_job(lenet_like(), "job.toml", stock_tables(),
                  {"topology.workers_per_group=4", "topology.servers_per_group=4", "pipeline.packets=4", "train.finish.steps=60"});
    job_ = prepare_job(*std::move(spec), std::make_shared<const tables>(stock_tables()), nodes).value();
  }

  // Seconds of a step. Writes a trace into `file` if it is not empty.
  double run(const std::string& file = {}) {
    sim::world_config c;
    c.seed = seed_;
    c.dev = dev_.get();
    c.network.least = c.network.most = duration{};
    c.network.local = 20us;
    c.network.shuffle_local = false;
    sim::world w(c);
    for (const auto& r : job_->plan.roles) w.add(r.id, r.node, make_role(job_, r.id));
    std::mt19937_64 draw(seed_);
    w.measured = [&](role_id r, const task_cost&) -> std::optional<duration> {
      const auto& name = job_->plan[r].name;
      const auto usual =
          name.find('/') == std::string::npos ? 20 : 200 + 8 * (std::hash<std::string>{}(name.substr(name.find('/') + 1)) % 100);
      const double noise = std::uniform_real_distribution<>(0.9, 1.1)(draw);
      return duration(std::llround(1e3 * static_cast<double>(usual) * noise * slower(name)));
    };
    w.crossing = [&](std::uint32_t from, std::uint32_t to, std::uint64_t) -> std::optional<duration> {
      const auto& n = job_->plan.nodes;
      return std::pair(n[from].name, n[to].name) == slow_link ? link_time : 100us;
    };
    std::optional<track_event_file> out;
    std::optional<timeline> lines;
    if (!file.empty()) {
      out.emplace(track_event_file::create(file).value());
      describe(*out, trace_job_of(*job_, 2));
      lines.emplace(*out);
      write_to(w, *lines);
    }
    std::map<std::uint64_t, time_point> at;
    w.on_event = [&](const event_effect& e) {
      if (e.is<step_event>()) at[e.step] = w.now();
      if (e.is<error_event>()) ADD_FAILURE() << message_of(e);
    };
    envelope go;
    go.h.dst = role_id{0};
    go.body = start{};
    w.inject(go);
    EXPECT_TRUE(w.run(5'000'000, [&] { return at.contains(60); }));
    return seconds_of(at[60] - at[10]) / 50;
  }

 private:
  void write_to(sim::world& w, timeline& lines) {
    const auto add = [&](activity a, time_point at) {
      a.at = at;
      const auto place = [&](role_id r) -> const std::string& { return job_->plan.nodes[job_->plan[r].node].name; };
      activity_place p{place(a.role), job_->plan[a.role].name, {}, {}};
      if (a.peer != no_role) p.peer_node = place(a.peer), p.peer = job_->plan[a.peer].name;
      lines.add(a, p);
    };
    w.on_span = [=](const sim::world::span& s) { add(activity_of_task(s.who, s.kind, s.packet, s.end - s.begin), s.begin); };
    w.on_wire = [=, n = std::uint64_t{0}](const envelope& e, time_point sent, time_point arrived) mutable {
      for (const auto end : {activity::kind_of::sent, activity::kind_of::received}) {
        auto a = activity_of_message(end, e);
        a.value = n;
        add(a, end == activity::kind_of::sent ? sent : arrived);
      }
      ++n;
    };
  }

  const std::uint64_t seed_;
  std::shared_ptr<prepared_job> job_;
  std::shared_ptr<device> dev_ = make_cpu_device();
};

struct planted {
  friend void PrintTo(const planted& p, std::ostream* out) { *out << p.cause; }

  const char* name;
  std::string cause;
  std::function<double(const std::string& role)> factor = [](const std::string&) { return 1.0; };
  std::pair<std::string, std::string> link = {};
};

class critical_cause : public testing::TestWithParam<planted> {
 protected:
  critical_cause() { std::filesystem::create_directories(folder_); }
  ~critical_cause() override { std::filesystem::remove_all(folder_); }
  const std::filesystem::path folder_ = std::filesystem::temp_directory_path() / ("troupe-critical-" + std::to_string(::getpid()));
};

TEST_P(critical_cause, is_named_and_its_gain_predicted_when_it_is_planted) {
  const auto& p = GetParam();
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    planted_job slow(seed), halved(seed);
    slow.slower = p.factor;
    halved.slower = [&](const std::string& role) { return p.factor(role) > 1 ? p.factor(role) / 2 : 1.0; };
    slow.slow_link = halved.slow_link = p.link;
    slow.link_time = 20ms, halved.link_time = 10ms;
    const auto file = (folder_ / "run.pftrace").string();
    const double with = slow.run(file), without = halved.run();

    const auto t = read_trace_file(file);
    ASSERT_TRUE(t) << test::error_text(t);
    auto job = job_of_trace(t->job, file, false);
    ASSERT_TRUE(job);
    // Steps of real runs take longer than their tasks and messages say; no message may count as
    // slow for it.
    for (const double pauses : {1.0, 1.05}) {
      if (pauses > 1 && seed > 1) continue;  // takes long under ASan
      auto seen = observed_in(*t);
      EXPECT_NEAR(seen.step_seconds, with, 0.05 * with) << "the trace";
      seen.step_seconds *= pauses;
      const what_if w(job->job, seen, job->threads);
      EXPECT_NEAR(w.simulated_step(), with, 0.05 * with) << "its simulation";
      const auto causes = step_causes(w);
      ASSERT_FALSE(causes.empty());
      EXPECT_EQ(causes.front().name, p.cause) << "seed " << seed << " pauses " << pauses;
      EXPECT_NEAR(causes.front().step_seconds, without, 0.1 * without) << "seed " << seed << " pauses " << pauses;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    five, critical_cause,
    testing::Values(planted{"a_layer_of_one_worker", "worker2/conv1+pool1",
                            [](const std::string& r) { return r == "worker2/conv1+pool1" ? 20.0 : 1; }},
                    planted{"a_layer_of_all_workers", "ip1+relu1 of all workers",
                            [](const std::string& r) { return r.ends_with("/ip1+relu1") ? 20.0 : 1; }},
                    planted{"a_loader", "worker1/loader", [](const std::string& r) { return r == "worker1/loader" ? 40.0 : 1; }},
                    planted{"a_shard", "shard3", [](const std::string& r) { return r == "shard3" ? 200.0 : 1; }},
                    planted{"a_link", "link n1 to n3", [](const std::string&) { return 1.0; }, {"n1", "n3"}}),
    [](const auto& p) { return p.param.name; });

// A trace of messages from n1 to n2, whose thread computes for 8 of every 10 ms. Each message takes
// 0.3 ms, then waits for the thread.
trace_file trace_of_waiting_messages(std::size_t late) {
  trace_file t;
  t.tracks = {{"worker0/loader", "n2"}, {"n1 to n2", "links"}};
  t.names = {"load", "weights"};
  for (std::size_t step = 0; step < 100; ++step) {
    const auto begin = step * 10ms, busy_until = begin + 8ms;
    t.slices.push_back({0, 0, begin, busy_until, step, 0, 0, true});
    const auto sent = step % 10 < late ? begin + 1ms : busy_until + 1ms;
    t.slices.push_back({1, 1, sent, std::max<time_point>(sent + 300us, busy_until), step, 0, 64, false});
  }
  std::sort(t.slices.begin(), t.slices.end(), [](const auto& a, const auto& b) { return a.end < b.end; });
  return t;
}

TEST(observed_run, leaves_out_messages_that_waited_for_a_thread) {
  const auto o = observed_in(trace_of_waiting_messages(9));
  EXPECT_THAT(o.links.at({"n1", "n2"}).at(64), testing::AllOf(testing::SizeIs(9), testing::Each(300us))) << "one in ten";
  EXPECT_NEAR(o.step_seconds, 0.01, 1e-6);
}

TEST(observed_run, takes_the_shortest_time_when_all_messages_waited) {
  const auto o = observed_in(trace_of_waiting_messages(10));
  EXPECT_THAT(o.links.at({"n1", "n2"}).at(64), testing::ElementsAre(7ms));
}

TEST(trace_files, are_refused_when_they_are_damaged) {
  planted_job j(1);
  const auto file = std::filesystem::temp_directory_path() / ("troupe-damaged-" + std::to_string(::getpid()) + ".pftrace");
  j.run(file.string());
  std::ifstream in(file, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove(file);
  ASSERT_TRUE(read_trace(bytes));
  EXPECT_EQ(test::error_text(read_trace("not a trace at all, but text")), "is not a trace of Troupe, or it is damaged");
  bytes.resize(std::min<std::size_t>(bytes.size(), 20000));
  std::mt19937_64 draw(7);
  for (int i = 0; i < 3000; ++i) {  // any bytes are an error or a trace
    auto damaged = bytes;
    for (int n = 1 + i % 4; n > 0; --n) damaged[draw() % damaged.size()] = static_cast<char>(draw());
    if (i % 3 == 0) damaged.resize(draw() % damaged.size());
    const auto t = read_trace(damaged);
    if (!t) continue;
    for (const auto& s : t->slices) ASSERT_TRUE(s.track < t->tracks.size() && s.name < t->names.size());
  }
  EXPECT_THAT(test::error_text(read_trace_file("/nowhere/x")), testing::HasSubstr("/nowhere/x: "));
}

}  // namespace
}  // namespace troupe::testing_embedded
