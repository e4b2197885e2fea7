// Activities as the tracks of a trace file.
#include "runtime/trace/timeline.hpp"

#include <gmock/gmock.h>

#include <unistd.h>

#include <array>
#include <filesystem>
#include <random>

#include "runtime/trace/trace_writer.hpp"
#include "tests/trace_reader.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using testing_trace::trace_reader;

constexpr std::uint8_t body_forward = 0, body_push = 4;

class timelines : public testing::Test {
 protected:
  timelines()
      : file(std::filesystem::temp_directory_path() / ("troupe-timeline-" + std::to_string(::getpid()) + ".pftrace")),
        out(track_event_file::create(file).value()),
        lines(out) {}
  ~timelines() override { std::filesystem::remove(file); }
  testing_trace::trace_contents read() {
    EXPECT_TRUE(out.finish());
    return trace_reader::read(file.string());
  }
  void task(const activity_place& at, const char* kind, std::int64_t begin, std::int64_t end, std::uint64_t id = 0) {
    activity a;
    a.kind = activity::kind_of::task;
    a.what = task_kinds::number_of(kind);
    a.at = time_point(begin);
    a.value = static_cast<std::uint64_t>(end - begin);
    a.id = id;
    a.step = 7, a.packet = 1;
    lines.add(a, at);
  }
  void message(activity::kind_of end, std::uint8_t body, const activity_place& at, std::int64_t when, std::uint64_t number) {
    const bool sent = end == activity::kind_of::sent;
    activity a;
    a.kind = end;
    a.what = body;
    a.at = time_point(when);
    a.value = number;
    a.role = role_id{sent ? 1u : 2u};
    a.peer = role_id{sent ? 2u : 1u};
    a.size = 400;
    lines.add(a, at);
  }

  const std::filesystem::path file;
  track_event_file out;
  timeline lines;
  const activity_place conv{"n1", "worker0/conv1", {}, {}}, from{"n1", "worker0", "n2", "shard0"},
      to{"n2", "shard0", "n1", "worker0"};
};

TEST_F(timelines, show_the_tasks_of_a_packet_as_linked_slices) {
  task(conv, "forward", 10, 20, 99);
  task({"n1", "worker0/relu1", {}, {}}, "forward", 25, 30, 99);
  task(conv, "backward", 40, 60, 99);
  const auto t = read();
  ASSERT_EQ(t.slices.size(), 3u);
  EXPECT_EQ(t.slices[0].track, "n1/worker0/conv1");
  EXPECT_EQ(t.slices[0].name, "forward");
  EXPECT_EQ(t.slices[0].begin, 10);
  EXPECT_EQ(t.slices[0].end, 20);
  EXPECT_THAT(t.slices[0].numbers, ElementsAre(Pair("packet", 1), Pair("step", 7)));
  EXPECT_EQ(t.slices[1].track, "n1/worker0/relu1");
  EXPECT_EQ(t.slices[2].name, "backward");
  for (const auto& s : t.slices) EXPECT_EQ(s.flow, 99u);
}

TEST_F(timelines, give_overlapping_tasks_of_a_role_tracks_of_their_own) {
  task(conv, "forward", 10, 20);
  task(conv, "forward", 15, 30);
  task(conv, "forward", 20, 25);
  const auto t = read();
  ASSERT_EQ(t.slices.size(), 3u);
  EXPECT_EQ(t.slices[1].track, "n1/worker0/conv1/worker0/conv1");
  EXPECT_EQ(t.slices[2].track, "n1/worker0/conv1");
}

TEST_F(timelines, show_a_message_between_nodes_on_the_link_whichever_end_is_added_first) {
  message(activity::kind_of::sent, body_push, from, 100, 1);
  message(activity::kind_of::received, body_push, to, 150, 1);
  message(activity::kind_of::received, body_push, to, 260, 2);
  message(activity::kind_of::sent, body_push, from, 200, 2);
  const auto t = read();
  ASSERT_EQ(t.slices.size(), 2u);
  for (const auto& s : t.slices) {
    EXPECT_EQ(s.track, "links/n1 to n2");
    EXPECT_EQ(s.name, "push");
    EXPECT_THAT(s.texts, ElementsAre(Pair("from", "worker0"), Pair("to", "shard0")));
    EXPECT_EQ(s.numbers.at("bytes"), 400u);
  }
  EXPECT_EQ(t.slices[0].begin, 100);
  EXPECT_EQ(t.slices[0].end, 150);
  EXPECT_EQ(t.slices[1].begin, 200);
  ASSERT_EQ(t.instants.size(), 4u);
  EXPECT_EQ(t.instants[0].name, "send push");
  EXPECT_EQ(t.instants[1].name, "push");
}

TEST_F(timelines, never_show_a_message_that_arrives_before_it_was_sent) {
  message(activity::kind_of::sent, body_push, from, 100, 1);
  message(activity::kind_of::received, body_push, to, 90, 1);
  const auto t = read();
  ASSERT_EQ(t.slices.size(), 1u);
  EXPECT_EQ(t.slices[0].begin, 100);
  EXPECT_EQ(t.slices[0].end, 100);
}

// The plan of the roles began anew at 1000, and message 1 of the former plan was lost with its
// node.
TEST_F(timelines, show_no_message_from_a_plan_to_the_next_one) {
  activity_place from_now = from, to_now = to;
  from_now.since = from_now.peer_since = to_now.since = to_now.peer_since = time_point(1000);
  for (const bool sent_first : {true, false}) {
    const std::uint64_t number = sent_first ? 1 : 2;
    message(activity::kind_of::sent, body_push, from, 100, number);
    if (!sent_first) message(activity::kind_of::received, body_push, to_now, 1350, number);
    message(activity::kind_of::sent, body_push, from_now, 1300, number);
    if (sent_first) message(activity::kind_of::received, body_push, to_now, 1350, number);
  }
  // of the former plan, only the arrival is known
  message(activity::kind_of::received, body_push, to, 100, 3);
  message(activity::kind_of::sent, body_push, from_now, 1300, 3);
  message(activity::kind_of::received, body_push, to_now, 1350, 3);
  const auto t = read();
  ASSERT_EQ(t.slices.size(), 3u);
  for (const auto& s : t.slices) {
    EXPECT_EQ(s.begin, 1300);
    EXPECT_EQ(s.end, 1350);
  }
  EXPECT_EQ(lines.forgotten(), 3u);
}

TEST_F(timelines, count_messages_of_which_one_end_stays_unknown) {
  for (std::uint64_t n = 0; n < timeline::most_under_way + 10; ++n)
    message(activity::kind_of::sent, body_push, from, static_cast<std::int64_t>(n), n);
  EXPECT_EQ(lines.forgotten(), 10u);
  EXPECT_TRUE(read().slices.empty());
}

TEST_F(timelines, show_no_link_for_a_message_within_a_node) {
  message(activity::kind_of::sent, body_forward, {"n1", "a", "n1", "b"}, 5, 1);
  message(activity::kind_of::received, body_forward, {"n1", "b", "n1", "a"}, 6, 1);
  const auto t = read();
  EXPECT_TRUE(t.slices.empty());
  ASSERT_EQ(t.instants.size(), 2u);
  EXPECT_EQ(t.instants[0].texts.at("to"), "b");
}

TEST_F(timelines, write_a_counter_only_when_it_changes) {
  activity a;
  a.kind = activity::kind_of::status;
  for (const auto& [at, queued, packets, credit] :
       std::vector<std::array<std::uint32_t, 4>>{{1, 0, 2, 3}, {2, 0, 2, 3}, {3, 5, 2, 3}}) {
    a.at = time_point(at);
    a.size = queued, a.packet = packets, a.value = credit;
    lines.add(a, conv);
  }
  const auto t = read();
  EXPECT_THAT(t.counters.at("n1/worker0/conv1/worker0/conv1 queued"), ElementsAre(Pair(1, 0), Pair(3, 5)));
  EXPECT_THAT(t.counters.at("n1/worker0/conv1/worker0/conv1 packets"), ElementsAre(Pair(1, 2)));
  EXPECT_THAT(t.counters.at("n1/worker0/conv1/worker0/conv1 credit"), ElementsAre(Pair(1, 3)));
}

// The reader checks that slices of a track do not overlap.
TEST_F(timelines, never_overlap_on_a_track_whatever_the_tasks_and_messages_are) {
  std::mt19937 r(5);
  std::int64_t now = 1000;
  for (std::uint64_t n = 0; n < 2000; ++n) {
    now += r() % 20;
    if (r() % 2) task(conv, "forward", now - static_cast<std::int64_t>(r() % 50), now + static_cast<std::int64_t>(r() % 50), n);
    message(activity::kind_of::sent, body_push, from, now, n);
    message(activity::kind_of::received, body_push, to, now + static_cast<std::int64_t>(r() % 100), n);
  }
  const auto t = read();
  EXPECT_GT(t.slices.size(), 2500u);
}

TEST(track_event_file, names_the_folder_that_is_missing) {
  const auto made = track_event_file::create("/nowhere/at/all.pftrace");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().text.find("/nowhere/at/all.pftrace: cannot be created: No such file"), std::string::npos)
      << made.error().text;
}

TEST(track_event_file, reports_a_full_disk) {
  auto made = track_event_file::create("/dev/full");
  if (!made) GTEST_SKIP() << "no /dev/full";
  made->process("n1");
  const auto done = made->finish();
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().text.find("No space left"), std::string::npos) << done.error().text;
}

TEST(names_of_roles, say_when_the_plan_of_a_role_began) {
  role_names names;
  names.set("n1", {{time_point(100), 1, {"worker0", ""}}, {time_point(1000), 1, {"worker0", ""}}});
  names.set("n2", {{time_point(120), 1, {"", "shard0"}}});
  activity a;
  a.kind = activity::kind_of::sent;
  a.job = 1, a.role = role_id{0}, a.peer = role_id{1};
  const auto since = [&](std::int64_t at) {
    a.at = time_point(at);
    const auto p = names.place("n1", a);
    return std::pair(p.since.count(), p.peer_since.count());
  };
  EXPECT_EQ(since(500), std::pair(100L, 120L));
  EXPECT_EQ(since(1500), std::pair(1000L, 120L));
  EXPECT_EQ(since(50), std::pair(0L, 0L)) << "the plan of that time has no name any more";
}

}  // namespace
}  // namespace troupe
