// Traces of embedded runs: what the file says about a job whose layers and packets are known.
#include <gmock/gmock.h>

#include <future>
#include <set>
#include <thread>

#include "tests/actors/embedded_support.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"
#include "tests/trace_reader.hpp"

namespace troupe::testing_embedded {
namespace {

using testing_trace::trace_reader;

class embedded_trace : public testing::Test {
 protected:
  std::string file() const { return here_.path + "/run.pftrace"; }
  test::temp_dir here_;
};

TEST_F(embedded_trace, shows_each_packet_in_each_layer_forward_and_backward) {
  const auto j = job_of(lenet_like_text, {"train.finish.steps=3", "pipeline.packets=4", "pipeline.sub_solvers=2"});
  embedded_options o;
  o.threads = 2;
  o.trace = file();
  const auto r = embedded_run(j, o).run();
  ASSERT_TRUE(r.ok) << r.error;
  ASSERT_TRUE(r.trace && *r.trace) << test::error_text(*r.trace);
  EXPECT_EQ((*r.trace)->lost, 0u);
  const auto t = trace_reader::read(file());
  std::map<std::uint64_t, std::set<std::string>> life;  // of a packet: tasks by layer
  for (const auto& s : t.slices)
    if (s.flow != 0 && (s.name == "forward" || s.name == "backward"))
      life[s.flow].insert(s.track.substr(s.track.rfind('/')) + " " + s.name);
  std::size_t trained = 0;
  for (const auto& [id, tasks] : life) {
    const auto back = std::count_if(tasks.begin(), tasks.end(), [](const auto& x) { return x.ends_with("backward"); });
    if (back == 0) continue;  // of an evaluation
    ++trained;
    EXPECT_GE(tasks.size(), 10u) << id;
  }
  EXPECT_EQ(trained, 12u) << "3 steps of 4 packets";
  EXPECT_FALSE(t.instants.empty());
}

TEST_F(embedded_trace, begins_and_ends_while_the_job_runs) {
  const auto j = job_of(lenet_like_text, {"train.finish.steps=1000000"});
  std::promise<void> some, more;
  std::uint64_t first = 0, last = 0;
  embedded_options o;
  o.on_event = [&](const event_effect& e) {
    if (e.is<step_event>() && e.step == 5) some.set_value();
    if (e.is<step_event>() && first > 0 && last == 0 && e.step > first + 10) last = e.step, more.set_value();
    if (e.is<step_event>() && e.step > 5 && first == 0) first = e.step;
  };
  embedded_run run(j, o);
  EXPECT_EQ(test::error_text(run.start_trace(file())), "no job runs");
  auto result = std::async([&] { return run.run(); });
  some.get_future().wait();
  ASSERT_EQ(test::error_text(run.start_trace(file())), "");
  EXPECT_EQ(test::error_text(run.start_trace(file())), "a trace is being written to " + file() + "; stop it first");
  more.get_future().wait();
  const auto written = run.stop_trace();
  ASSERT_TRUE(written) << written.error().text;
  EXPECT_GT(written->activities, 100u);
  EXPECT_EQ(test::error_text(run.stop_trace()), "no trace is being written");
  run.stop();
  const auto r = result.get();
  EXPECT_TRUE(r.ok) << r.error;
  EXPECT_FALSE(r.trace);
  const auto t = trace_reader::read(file());
  for (const auto& s : t.named("forward")) EXPECT_GE(s.numbers.at("step"), 3u) << "not of the time before";
  EXPECT_GT(t.named("forward").size(), 50u);
}

TEST_F(embedded_trace, ends_the_run_when_the_file_cannot_be_made) {
  embedded_options o;
  o.trace = here_.path + "/no/such/folder/run.pftrace";
  const auto r = embedded_run(job_of(lenet_like_text, {"train.finish.steps=3"}), o).run();
  EXPECT_FALSE(r.ok);
  EXPECT_EQ(r.error, o.trace + ": cannot be created: No such file or directory");
}

}  // namespace
}  // namespace troupe::testing_embedded
