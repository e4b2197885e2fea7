// The order in which a loader loads packets (steps below the grant, work units, evaluation rounds),
// and the sent packets that it keeps.
#include "runtime/loader/packet_agenda.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/loader/sent_packets.hpp"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Two workers with two packets each; roles 0 and 1 are their loaders, role 2 is a tester's loader.
packet_agenda agenda_of(std::uint32_t role, bool dynamic = false, std::uint64_t first_step = 0) {
  auto p = std::make_shared<job_plan>();
  p->packets = 4;
  p->ranges = {{0, 2}, {2, 2}};
  for (std::uint32_t w = 0; w < 3; ++w) {
    role_plan r;
    r.id = role_id{w};
    r.worker = w;
    r.tester = w == 2;
    p->roles.push_back(std::move(r));
  }
  return {p, role_id{role}, first_step, dynamic};
}

std::vector<std::pair<std::uint64_t, std::uint32_t>> trained(packet_agenda& a) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> list;
  while (const auto p = a.next_training()) list.emplace_back(p->step, p->packet);
  return list;
}
std::vector<std::pair<std::uint64_t, std::uint32_t>> evaluated(packet_agenda& a) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> list;
  while (const auto p = a.next_evaluation()) list.emplace_back(p->round, p->packet);
  return list;
}

TEST(packet_agenda, tester_trains_nothing_when_resumed_before_its_first_step) {
  auto a = agenda_of(2, false, 5);
  a.resume_at(0);
  EXPECT_FALSE(a.next_training());
}

TEST(packet_agenda, returns_the_packets_of_its_range_below_the_grant) {
  auto a = agenda_of(1, false, 3);
  EXPECT_THAT(trained(a), IsEmpty());
  a.grant_until(5);
  EXPECT_THAT(trained(a), ElementsAre(Pair(3, 2), Pair(3, 3), Pair(4, 2), Pair(4, 3)));
  a.grant_until(4);
  EXPECT_THAT(trained(a), IsEmpty()) << "a late grant does not lower the limit";
  EXPECT_EQ(a.granted(), 5u);
}

TEST(packet_agenda, returns_a_packet_once_when_it_is_dealt_twice) {
  auto a = agenda_of(0, true);
  a.deal({7, 1, 2, 0});
  a.deal({7, 2, 5, 0});
  EXPECT_THAT(trained(a), ElementsAre(Pair(7, 1), Pair(7, 2), Pair(7, 3))) << "a work unit is cut off at the end of the step";
  a.deal({6, 0, 1, 0});
  EXPECT_THAT(trained(a), IsEmpty()) << "a work unit of an earlier step is ignored";
  a.deal({8, 1, 1, 0});
  EXPECT_THAT(trained(a), ElementsAre(Pair(8, 1)));
}

TEST(packet_agenda, evaluates_its_packets_when_training_has_reached_the_version) {
  auto a = agenda_of(0);
  a.begin_round(1, 1, 5);
  EXPECT_THAT(evaluated(a), IsEmpty());
  a.grant_until(1);
  EXPECT_THAT(trained(a), ElementsAre(Pair(0, 0), Pair(0, 1)));
  a.begin_round(1, 1, 5);
  EXPECT_THAT(evaluated(a), ElementsAre(Pair(1, 0), Pair(1, 2), Pair(1, 4)));
  a.begin_round(2, 1, 1);
  a.grant_until(2);
  a.forget_rounds();
  EXPECT_THAT(evaluated(a), IsEmpty()) << "a grant beyond the round ends it";
}

TEST(packet_agenda, a_tester_evaluates_all_packets_without_waiting_for_training) {
  auto a = agenda_of(2);
  a.begin_round(1, 9, 3);
  EXPECT_THAT(evaluated(a), ElementsAre(Pair(1, 0), Pair(1, 1), Pair(1, 2)));
}

TEST(packet_agenda, is_empty_after_clear) {
  auto a = agenda_of(0);
  a.grant_until(4);
  a.begin_round(1, 0, 4);
  a.clear();
  EXPECT_THAT(trained(a), IsEmpty());
  EXPECT_THAT(evaluated(a), IsEmpty());
}

sent_packet sent(std::uint32_t name, phase p, std::uint64_t step, std::uint64_t version) {
  sent_packet s;
  s.h.id = msg_id{name};
  s.h.phase = static_cast<std::uint8_t>(p);
  s.h.step = step;
  s.h.version = version;
  return s;
}

TEST(sent_packets, are_kept_while_a_restarted_stage_may_request_them) {
  sent_packets s;
  s.add(sent(1, phase::train, 4, 4));
  s.add(sent(2, phase::train, 5, 5));
  s.add(sent(3, phase::test, 1, 6));
  s.add(sent(4, phase::test, 2, 6));
  std::vector<std::uint64_t> gone;
  const auto forget = [&](std::uint64_t from, std::uint64_t granted) {
    gone.clear();
    s.forget(from, granted, [&](msg_id id) { gone.push_back(static_cast<std::uint64_t>(id)); });
    return gone;
  };
  EXPECT_THAT(forget(5, 6), ElementsAre(1u, 3u)) << "a step below needed_from, and the previous round";
  EXPECT_THAT(forget(5, 6), IsEmpty());
  EXPECT_THAT(forget(6, 7), ElementsAre(2u, 4u)) << "a grant beyond the round";
  EXPECT_EQ(s.size(), 0u);
}

}  // namespace
}  // namespace troupe
