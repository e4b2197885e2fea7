// Slow connections among those whose round trips are drawn.
#include "runtime/cluster/supervision/link_watch.hpp"

#include <gmock/gmock.h>

#include <functional>
#include <random>

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

class cluster_of_links {
 public:
  explicit cluster_of_links(std::size_t nodes) : nodes_(nodes) {}
  std::function<double(const std::string& a, const std::string& b)> more = [](const std::string&, const std::string&) {
    return 0.0;
  };
  // Reports of `seconds`, four a second; returns the names in the order of the alerts.
  std::vector<std::string> run(int seconds, double step_seconds = 0.3) {
    std::vector<std::string> named;
    for (int i = 0; i < 4 * seconds; ++i, now_ += 250ms) {
      std::vector<link_load> all;
      for (std::size_t a = 0; a < nodes_; ++a)
        for (std::size_t b = 0; b < nodes_; ++b) {
          if (a == b) continue;
          const auto x = "n" + std::to_string(a), y = "n" + std::to_string(b);
          // Now and then a probe waits for a busy processor.
          const double waits = random_() % 5 == 0 ? 1e-3 * static_cast<double>(random_() % 80) : 0;
          all.push_back({x, y, 2e-4 + waits + more(x, y)});
        }
      for (const auto& l : watch.look(all, step_seconds, now_)) named.push_back(event_of(l).role);
    }
    return named;
  }
  link_watch watch;

 private:
  std::size_t nodes_;
  std::mt19937 random_{3};
  link_watch::instant now_{1h};
};

TEST(link_watch, names_a_slow_connection_once) {
  cluster_of_links c(8);
  EXPECT_THAT(c.run(20), IsEmpty());
  const auto planted = [](const std::string& a, const std::string& b) {
    return std::minmax(a, b) == std::minmax<std::string>("n2", "n5") ? 0.2 : 0;
  };
  c.more = planted;
  EXPECT_THAT(c.run(4), ElementsAre("connection of n2 and n5")) << "within 20 steps of 200 ms";
  EXPECT_THAT(c.run(60), IsEmpty()) << "once";
  c.more = [](const std::string&, const std::string&) { return 0.0; };
  EXPECT_THAT(c.run(20), IsEmpty());
  c.more = planted;
  EXPECT_THAT(c.run(20), ElementsAre("connection of n2 and n5")) << "it was fast in between";
}

TEST(link_watch, names_the_node_when_most_of_its_connections_are_slow) {
  for (const std::size_t nodes : {3u, 4u, 8u}) {
    cluster_of_links c(nodes);
    c.more = [](const std::string& a, const std::string& b) { return a == "n1" || b == "n1" ? 0.2 : 0; };
    EXPECT_THAT(c.run(20), ElementsAre("connections of n1")) << nodes;
  }
}

TEST(link_watch, says_nothing_when_the_delay_does_not_matter_for_a_step) {
  cluster_of_links c(8);
  c.more = [](const std::string& a, const std::string& b) {
    return std::minmax(a, b) == std::minmax<std::string>("n2", "n5") ? 0.02 : 0;
  };
  EXPECT_THAT(c.run(60, 1.0), IsEmpty());
}

TEST(link_watch, says_nothing_in_an_hour_without_a_slow_connection) {
  cluster_of_links c(8);
  EXPECT_THAT(c.run(3600, 0.004), IsEmpty());
}

TEST(link_watch, says_nothing_of_two_nodes) {
  cluster_of_links c(2);
  c.more = [](const std::string&, const std::string&) { return 0.2; };
  EXPECT_THAT(c.run(60), IsEmpty());
}

TEST(slow_link, says_what_a_round_trip_takes) {
  EXPECT_EQ((slow_link{"n1", "n3", 0.2012, 0.0003}).text(), "n1 to n3 and back takes 201.2 ms, other connections 0.3 ms");
  EXPECT_EQ((slow_link{"n1", "", 0.2012, 0.0003}).text(), "a round trip from and to n1 takes 201.2 ms, other connections 0.3 ms");
}

}  // namespace
}  // namespace troupe
