// The JSON of events, as programs print it and run folders store it, and its schema.
#include "runtime/node/events/event_json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/valid_events.hpp"

namespace troupe {
namespace {

using json = nlohmann::ordered_json;

std::string command_line(const event_effect& e) { return event_line(e, event_form::command); }
std::string session_line(const event_effect& e) { return event_line(e, event_form::session); }
std::string file_line(const event_effect& e) { return event_line(e, event_form::file, 2.5); }

TEST(event_json, of_a_step_has_the_fields_of_the_design) {
  const event_effect e{3, step_event{0.5, 0.1, 640, 0.25, 0}};
  const std::string line = R"({"event":"step","step":3,"loss":0.5,"lr":0.1,"examples_per_s":640.0,"step_seconds":0.25})";
  EXPECT_EQ(command_line(e), line);
  EXPECT_EQ(session_line(e), line);
  EXPECT_EQ(file_line(e), R"({"event":"step","step":3,"time":2.5,"loss":0.5,"lr":0.1,"examples_per_s":640.0,"step_seconds":0.25})");
}

TEST(event_json, of_the_end_has_integers_and_how_the_job_ended) {
  done_event d;
  d.how = how_ended::stopped;
  d.steps = 7;
  d.epochs = 0.5;
  d.seconds = 2;
  d.packets = 4;
  d.tcp_bytes = 4294967297u;
  d.weights_sha256 = "ab";
  const std::string values = R"("steps":7,"epochs":0.5,"seconds":2.0,"weights_sha256":"ab","packets":4,"tcp_bytes":4294967297)";
  EXPECT_EQ(command_line({7, d}), R"({"event":"done",)" + values + "}");
  EXPECT_EQ(session_line({7, d}), R"({"event":"done",)" + values + R"(,"how":"stopped"})");
  EXPECT_EQ(file_line({7, d}), R"({"event":"done","step":7,"time":2.5,)" + values + R"(,"message":"stopped"})");
}

TEST(event_json, of_an_error_has_a_place_and_no_internal_fields) {
  const role_failure role{"shard0", "out of memory"};
  EXPECT_EQ(command_line({3, error_event{"no\xff", {}, {}, role}}),
            "{\"event\":\"error\",\"where\":\"\",\"message\":\"no\xEF\xBF\xBD\"}");
  EXPECT_EQ(session_line({3, error_event{"no", "n3"}}), R"({"event":"error","where":"n3","message":"no"})");
  EXPECT_EQ(file_line({3, error_event{"no", "n3", "/p"}}),
            R"({"event":"error","step":3,"time":2.5,"where":"n3","post_mortem":"/p","message":"no"})");
}

TEST(event_json, of_staleness_and_mode_is_structured_for_programs_and_flat_in_files) {
  const event_effect s{9, staleness_event{{{"a", {{0, 1}, {2, 3}}}}}};
  EXPECT_EQ(command_line(s), R"({"event":"staleness","step":9,"parameters":{"a":{"0":1,"2":3}}})");
  EXPECT_EQ(session_line(s), command_line(s));
  EXPECT_EQ(file_line(s), R"({"event":"staleness","step":9,"time":2.5,"a 0":1.0,"a 2":3.0})");
  const event_effect m{9, mode_event{{"ssp", {{"staleness", "3"}}}}};
  EXPECT_EQ(command_line(m), R"({"event":"mode","step":9,"mode":"ssp","options":{"staleness":"3"}})");
  EXPECT_EQ(file_line(m), R"({"event":"mode","step":9,"time":2.5,"message":"ssp staleness=3"})");
}

TEST(event_json, of_alerts_has_one_name_and_the_fields_of_its_kind) {
  EXPECT_EQ(session_line({5, step_skipped_event{1, "skipped"}}), R"({"event":"alert","step":5,"skipped":1,"message":"skipped"})");
  EXPECT_EQ(session_line({5, checkpoint_lost_event{"full"}}), R"({"event":"alert","step":5,"message":"full"})");
  EXPECT_EQ(session_line({5, slow_task_event{61.5, 3, "n2", "conv1", "slow"}}),
            R"({"event":"alert","step":5,"running_s":61.5,"packet":3,"where":"n2","layer":"conv1","message":"slow"})");
  EXPECT_EQ(session_line({5, recovered_event{7.75, 369, "n2", "lost"}}),
            R"({"event":"recovered","step":5,"ms":7.75,"planned_ms":0.0,"ready_ms":0.0,"state_ms":0.0,"replaced_ms":0.0,)"
            R"("live":0,"plans":1,"steps_again":369,"where":"n2","message":"lost"})");
}

TEST(event_json, of_every_kind_fits_the_schema) {
  const auto check = []<class... K>(const std::variant<K...>*) { (valid_events::expect_valid({1, K{}}), ...); };
  check(static_cast<const job_event_kind*>(nullptr));
  valid_events::expect_valid({2, step_event{std::nan(""), 0.1, 1, 1, 2}});
  valid_events::expect_valid({2, eval_event{0.5, {{"top5", 0.75}}, 1}});
  valid_events::expect_valid({2, staleness_event{{{"a", {{0, 1}}}}}});
  valid_events::expect_valid({2, mode_event{{"ssp", {{"staleness", "3"}}}}});
  valid_events::expect_valid({2, set_event{{"train.dynamics.lr", 0.5}}});
  valid_events::expect_valid({2, done_event{how_ended::stopped, 1, 1, 0.5, 1, "ab", 4, 9, {"a"}, "runs/1"}});
}

TEST(event_schema, rejects_objects_that_no_kind_allows) {
  const auto schema = event_schema();
  const auto fits = [&](const char* text) { return valid_events::schema_violation(schema, json::parse(text)).empty(); };
  EXPECT_TRUE(fits(R"({"event":"paused","step":3})"));
  EXPECT_TRUE(fits(R"({"event":"step","step":3,"loss":null,"examples_per_s":1.5,"step_seconds":1})"));
  for (const char* bad :
       {R"({"event":"sung","step":3})", R"({"step":3})", R"({"event":"paused","step":-3})", R"({"event":"paused","step":"3"})",
        R"({"event":"paused","step":3,"why":"x"})",
        R"({"event":"step","step":3,"loss":"low","examples_per_s":1.5,"step_seconds":1})",
        R"({"event":"step","step":3,"examples_per_s":1.5,"step_seconds":1})",
        R"({"event":"staleness","step":3,"parameters":{"a":{"0":1.5}}})", R"({"event":"eval","step":3,"loss":1,"top5":"high"})"})
    EXPECT_FALSE(fits(bad)) << bad;
}

TEST(event_schema, the_file_is_what_the_command_prints) {
  std::ifstream f(std::string(TROUPE_SOURCE_DIR) + "/docs/events.schema.json");
  std::stringstream all;
  all << f.rdbuf();
  EXPECT_TRUE(all.str() == event_schema().dump(2) + "\n") << "stale: troupe reference events > docs/events.schema.json";
}

}  // namespace
}  // namespace troupe
