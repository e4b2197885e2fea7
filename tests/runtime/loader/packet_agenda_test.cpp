// The order in which a loader loads packets (steps below the grant, work units, evaluation rounds).
#include "runtime/loader/packet_agenda.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  a.deal({7, 1, 2});
  a.deal({7, 2, 5});
  EXPECT_THAT(trained(a), ElementsAre(Pair(7, 1), Pair(7, 2), Pair(7, 3))) << "a work unit is cut off at the end of the step";
  a.deal({6, 0, 1});
  EXPECT_THAT(trained(a), IsEmpty()) << "a work unit of an earlier step is ignored";
  a.deal({8, 1, 1});
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

}  // namespace
}  // namespace troupe
