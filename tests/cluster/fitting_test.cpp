// Messages that do not fit a frame: each kind is cut with words, and the rest stays as it is.
#include "runtime/cluster/fitting.hpp"
#include "actors/control/frames.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "runtime/cluster/job_event.hpp"
#include "tests/cluster/message_samples.hpp"
#include "tests/error_text.hpp"

namespace troupe::control {
namespace {

using nlohmann::json;
using testing::EndsWith;
using testing::HasSubstr;

std::size_t frame_bytes(const message& m) {
  const auto f = to_frame(m);
  return f.parts.front().bytes;
}
// The message that a peer gets.
message received(const message& m) {
  const auto f = to_frame(m);
  auto back = decode(f.type, reinterpret_cast<const char*>(f.parts.front().data), f.parts.front().bytes);
  EXPECT_TRUE(back) << "type " << m.index() + 1 << " with " << f.parts.front().bytes << " bytes";
  return back ? *std::move(back) : message(joined{"not decoded"});
}
template <class M>
M received_as(const M& m) {
  return std::get<M>(received(m));
}

TEST(fitting, messages_that_fit_are_not_changed) {
  for (const auto& m : message_samples()) EXPECT_EQ(encode(fitted(m)), encode(m)) << m.index();
  answer a{1, 0, std::string(), {}};
  a.text.assign(max_message - encode(a).size(), 'x');
  EXPECT_EQ(encode(a).size(), max_message);
  EXPECT_EQ(received_as(a).text, a.text) << "exactly the limit";
  a.text += 'x';
  EXPECT_NE(received_as(a).text, a.text);
  EXPECT_THAT(received_as(a).text, EndsWith("and at most 2,031,616 are sent"));
}

// The text fields of every kind that carries texts of others.
TEST(fitting, every_message_with_a_text_of_4_mb_still_arrives) {
  const std::string large(4 << 20, 'e');
  const std::vector<message> all = {joined{large},
                                    submitted{1, 0, {large, large}},
                                    prepared{1, large},
                                    trouble{1, "n1", large},
                                    end_job{1, "n1", large, 7},
                                    ended{1, 2, large},
                                    said{1, "warning", large, 3, {}, {{"a", large}}},
                                    piece{1, 2, 3, {}, large},
                                    answer{1, 1, large, {}},
                                    revised{1, 2, large},
                                    swapped{1, 2, 3, large},
                                    looked{1, large}};
  for (const auto& m : all) {
    EXPECT_GT(encode(m).size(), max_message) << m.index();
    EXPECT_LE(frame_bytes(m), max_message) << m.index();
    EXPECT_EQ(received(m).index(), m.index());
  }
  EXPECT_THAT(received_as(prepared{1, large}).error, EndsWith(" more bytes)"));
  EXPECT_EQ(received_as(end_job{1, "n1", large, 7}).step, 7u);
}

TEST(fitting, a_list_of_many_mistakes_ends_with_the_number_of_those_left_out) {
  submitted s{1, 0, std::vector<std::string>(20'000, "job.toml:1:1: " + std::string(200, 'm'))};
  const auto got = received_as(s);
  EXPECT_GT(got.messages.size(), 2000u);
  EXPECT_EQ(got.messages.front(), s.messages.front());
  EXPECT_THAT(got.messages.back(), testing::MatchesRegex("\\.\\.\\. 1[0-9],[0-9]{3} more"));
}

TEST(fitting, a_list_that_is_cut_keeps_texts_of_half_a_mebibyte_together) {
  const std::string large(4 << 20, 'e');
  const auto cut = received_as(submitted{1, 0, {large}}).messages.front().size();
  submitted s{1, 0, std::vector<std::string>(510, std::string(1024, 'm'))};
  s.messages.push_back(large);
  s.messages.emplace_back(2048 - cut, 'm');
  EXPECT_EQ(received_as(s).messages.back(), s.messages.back()) << "exactly the limit";
  s.messages.back() += 'm';
  EXPECT_EQ(received_as(s).messages.size(), 512u);
  EXPECT_EQ(received_as(s).messages.back(), "... 1 more");
}

std::string text_of_jobs(std::size_t jobs, std::size_t bytes_each) {
  std::string text;
  for (std::size_t i = 0; i < jobs; ++i) text += "job " + std::to_string(i) + " failed: " + std::string(bytes_each, 'e') + "\n";
  text.pop_back();
  return text;
}

TEST(fitting, long_texts_of_an_answer_are_shortened_before_lines_are_left_out) {
  const auto few = received_as(answer{1, 0, text_of_jobs(64, 64 << 10), "next"});
  EXPECT_THAT(few.text, HasSubstr("job 63 failed: eee")) << "all jobs are there";
  EXPECT_THAT(few.text, HasSubstr("more bytes)\njob 1 failed"));
  EXPECT_THAT(few.text, HasSubstr("\n... long lines are cut: the answer has 4,195,"));
  EXPECT_EQ(few.next, "next");
  const auto many = received_as(answer{1, 0, text_of_jobs(10'000, 300), {}});
  EXPECT_LE(encode(many).size(), max_message);
  EXPECT_GT(many.text.size(), max_message - (80 << 10)) << "as much as fits";
  EXPECT_THAT(many.text, testing::ContainsRegex("\n\\.\\.\\. [0-9],[0-9]{3} more lines are left out: the answer has "));
}

json jobs_object(std::size_t jobs, std::size_t bytes_each) {
  auto list = json::array();
  for (std::size_t i = 0; i < jobs; ++i) list.push_back({{"job", i}, {"message", std::string(bytes_each, 'e')}});
  return {{"command", "jobs"}, {"jobs", list}, {"few", {1, 2, 3}}};
}

TEST(fitting, a_json_answer_stays_one_object_that_says_what_is_left_out) {
  const auto few = json::parse(received_as(answer{1, 0, jobs_object(64, 64 << 10).dump(), {}}).text);
  EXPECT_EQ(few["jobs"].size(), 64u);
  EXPECT_EQ(few["cut"], true);
  EXPECT_EQ(few["left_out"], 0);
  EXPECT_THAT(few["jobs"][63]["message"].get<std::string>(), EndsWith("... (64512 more bytes)"));
  const auto whole = jobs_object(10'000, 300);
  const auto many = json::parse(received_as(answer{1, 0, whole.dump(), {}}).text);
  EXPECT_EQ(many["cut"], true);
  EXPECT_EQ(many["jobs"].size() + many["left_out"].get<std::size_t>(), 10'000u);
  EXPECT_EQ(many["jobs"][5000], whole["jobs"][5000]);
  EXPECT_EQ(many["few"], whole["few"]);
  const auto nested =
      json::parse(fitted_answer(json{{"command", "x"}, {"inner", {{"list", std::vector<int>(3000, 7)}}}}.dump(), 2000));
  EXPECT_GT(nested["left_out"], 1000);
}

TEST(fitting, several_json_lines_stay_json_lines) {
  std::string text;
  for (int i = 0; i < 5; ++i) text += jobs_object(1000, 900).dump() + (i < 4 ? "\n" : "");
  const auto cut = fitted_answer(text, max_message);
  EXPECT_LE(cut.size(), max_message);
  std::vector<json> lines;
  std::istringstream in(cut);
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1], jobs_object(1000, 900));
  EXPECT_THAT(lines[2]["message"].get<std::string>(), testing::StartsWith("3 more lines are left out: "));
}

TEST(fitting, a_json_answer_that_cannot_be_cut_becomes_an_error) {
  auto o = json::object();
  for (int i = 0; i < 2'000; ++i) o["key" + std::to_string(i) + std::string(2'000, 'k')] = i;
  const auto got = json::parse(received_as(answer{1, 0, o.dump(), {}}).text);
  EXPECT_EQ(got["event"], "error");
  EXPECT_THAT(got["message"].get<std::string>(), HasSubstr("no answer: the answer has "));
}

TEST(fitting, the_roles_that_a_report_leaves_out_are_added_up) {
  report r{1, 2, {}, {{"n2", "shm", "why", 1, 2, 3}}};
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    role_entry e;
    e.job = 9, e.id = i, e.messages = 3, e.name = "stage " + std::string(180, 'l') + std::to_string(i),
    e.waits_for = std::string(500, 'w');
    r.roles.push_back(e);
  }
  const auto got = received_as(r);
  ASSERT_GT(got.roles.size(), 2000u);
  EXPECT_EQ(got.roles.front().name, r.roles.front().name);
  const auto& rest = got.roles.back();
  EXPECT_EQ(rest.name.substr(0, 1) + rest.name.substr(rest.name.size() - 12), "( more roles)");
  EXPECT_EQ(rest.job, 9u);
  std::uint64_t messages = 0;
  for (const auto& e : got.roles) messages += e.messages;
  EXPECT_EQ(messages, 60'000u) << "progress of all roles still counts";
  EXPECT_EQ(got.links.size(), 1u);
}

TEST(fitting, an_event_with_too_many_values_becomes_a_warning) {
  said s{4, "staleness", {}, 17, {}, {}};
  for (int i = 0; i < 100'000; ++i) s.values.emplace_back("layer.weight" + std::to_string(i), i);
  const auto got = received_as(s);
  EXPECT_EQ(got.kind, "warning");
  EXPECT_EQ(got.step, 17u);
  const auto event = to_event(got);
  ASSERT_TRUE(event) << test::error_text(event);
  EXPECT_THAT(event->event.as<warning_event>()->message, HasSubstr("the event 'staleness' with 100,000 values"));
}

TEST(fitting, activities_and_names_that_do_not_fit_are_left_for_the_next_request) {
  const auto answer = [](const look& what) {
    looked l{.id = what.id, .read = {what.most}};
    l.activities.resize(what.most);
    for (int i = 0; i < 3; ++i) l.names.push_back({i, 2, std::vector<std::string>(10'000, std::string(46, 'r'))});
    return l;
  };
  const auto some = fitted_look({.id = 5, .most = max_activities}, answer);
  EXPECT_EQ(some.activities.size(), max_activities / 2);
  EXPECT_EQ(some.read, std::vector<std::uint64_t>{max_activities / 2}) << "the position belongs to these activities";
  EXPECT_EQ(some.names.size(), 3u);
  EXPECT_TRUE(some.more);
  EXPECT_LE(encode(some).size(), max_message);
  const auto with_names = [&](const look& what) {
    auto l = answer(what);
    l.names.push_back(l.names.back());
    l.names.push_back(l.names.back());
    return l;
  };
  const auto few = fitted_look({.id = 5, .most = max_activities}, with_names);
  EXPECT_EQ(few.activities.size(), 1u);
  EXPECT_EQ(few.names.size(), 4u) << "the oldest come first";
  EXPECT_TRUE(few.more);
  EXPECT_FALSE(fitted_look({.id = 5, .most = 10}, [](const look& l) { return looked{.id = l.id}; }).more);
}

TEST(fitting, what_a_node_knows_is_refused_with_its_size_when_it_does_not_fit) {
  looked l{.id = 5};
  for (int i = 0; i < 100; ++i) l.names.push_back({1, 2, std::vector<std::string>(1000, std::string(40, 'r'))});
  const auto got = received_as(l);
  EXPECT_EQ(got.id, 5u);
  EXPECT_THAT(got.refusal, HasSubstr("bytes, and a message at most 2,097,152"));
}

}  // namespace
}  // namespace troupe::control
