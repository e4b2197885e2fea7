// State of a world between events: routes between nodes, tasks that run on other
// threads.
#include "runtime/sim/route_table.hpp"

#include <gtest/gtest.h>

#include "runtime/sim/world.hpp"

namespace troupe::sim {
namespace {

TEST(route_table, makes_a_route_once_and_sums_its_traffic) {
  route_table t(network_model{}, 3, std::nullopt);
  EXPECT_TRUE(t.reliable());
  auto& l = t.between(0, 2);
  EXPECT_EQ(l.sender, nullptr) << "a reliable wire needs no channel";
  ++l.sum.messages, l.sum.bytes += 7;
  const auto index = t.index_of(l);
  t.between(2, 0);
  EXPECT_EQ(&t[index], &t.between(0, 2));
  ASSERT_EQ(t.sums().size(), 1u) << "a route without traffic is not listed";
  EXPECT_EQ(t.sums().at({0, 2}).bytes, 7u);
}

TEST(route_table, counts_of_a_crashed_channel_are_added_once) {
  route_table t(network_model{}, 2, duration{1000});
  EXPECT_FALSE(t.reliable());
  auto& l = t.between(0, 1);
  std::vector<envelope> out;
  const auto f = l.sender->send({}, {});
  l.receiver->take({f.sequence, 0, {}}, out);
  l.receiver->take({f.sequence, 1, {}}, out);
  l.receiver->take({f.sequence + 2, 0, {}}, out);  // behind a gap
  fault_counts live;
  t.add_to(live);
  EXPECT_EQ(live.wire_duplicates, 1u);
  fault_counts ended;
  t.crash(1, ended);
  EXPECT_EQ(ended.wire_duplicates, 1u);
  EXPECT_EQ(ended.lost_in_crash, 1u);
  t.add_to(ended);
  EXPECT_EQ(ended.wire_duplicates, 1u) << "the channel has been reset";
}

TEST(tasks_elsewhere, are_waited_for_once) {
  int over = 0;
  tasks_elsewhere t;
  const auto a = t.add([&] { ++over; });
  t.add([&] { over += 10; });
  EXPECT_NE(a, 0u) << "number 0 means that the task has run at once";
  t.wait_for(a);
  t.wait_for(a);
  EXPECT_EQ(over, 1);
  t.wait_for_all();
  EXPECT_EQ(over, 11);
}

}  // namespace
}  // namespace troupe::sim
