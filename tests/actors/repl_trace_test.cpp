// Tests of `trace`: its syntax, what it asks of the backend, and its answers.
#include <gtest/gtest.h>

#include "actors/repl/command.hpp"
#include "tests/actors/repl_fake.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

// A backend whose job can be traced.
struct traced_backend final : repl_backend {
  std::string file;
  std::uint64_t lost = 0;
  fake_backend rest;
  repl_view view() const override { return rest.view(); }
  const repl_events& events() const override { return rest.events(); }
  expected<command_id> tell(std::uint32_t job, command c) override { return rest.tell(job, c); }
  expected<std::uint32_t> submit(const repl_submission& s) override { return rest.submit(s); }
  expected<void> start_trace(const std::string& to) override {
    file = to;
    return {};
  }
  expected<trace_summary> stop_trace() override {
    if (file.empty()) return unexpected(error("no trace is being written"));
    return trace_summary{std::exchange(file, {}), 120, lost};
  }
};

TEST(repl_trace, begins_and_completes_a_trace) {
  traced_backend b;
  repl_session s(b, false);
  EXPECT_EQ(s.run("trace start run.pftrace").text, "writes a trace to run.pftrace until `trace stop`");
  EXPECT_EQ(b.file, "run.pftrace");
  b.lost = 3;
  EXPECT_EQ(s.run("trace stop").text,
            "run.pftrace: 120 messages, tasks and states; open it in ui.perfetto.dev\n"
            "3 are missing: roles were faster than the trace could be written");
  const auto again = s.run("trace stop");
  EXPECT_EQ(again.how, kind::failed);
  EXPECT_NE(again.text.find("no trace is being written"), std::string::npos);
}

TEST(repl_trace, answers_in_json) {
  traced_backend b;
  repl_session s(b, true);
  EXPECT_EQ(s.run("trace start run.pftrace").text, R"({"command":"trace","file":"run.pftrace"})");
  EXPECT_EQ(s.run("trace stop").text, R"({"command":"trace","file":"run.pftrace","activities":120,"lost":0})");
}

TEST(repl_trace, names_its_usage_when_the_line_is_wrong) {
  traced_backend b;
  for (const char* line : {"trace", "trace start", "trace begin x", "trace stop x", "trace start a b"}) {
    const auto r = repl_session(b, false).run(line);
    EXPECT_EQ(r.how, kind::usage) << line;
    EXPECT_NE(r.text.find("usage: trace start FILE | trace stop"), std::string::npos) << r.text;
  }
}

TEST(repl_trace, is_refused_by_a_daemon) {
  fake_backend b;
  EXPECT_EQ(repl_session(b, false).run("trace start f").how, kind::failed);
}

}  // namespace
}  // namespace troupe
