// `troupe repl --cluster` at a terminal: Ctrl-C ends the current line or command, not the REPL.
#include <signal.h>

#include "tests/apps/terminal.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

using testing_apps::ctrl_c;
using testing_apps::ctrl_d;

class repl_terminal : public cluster_test {
 protected:
  void SetUp() override { make_cluster(1); }
};

TEST_F(repl_terminal, ctrl_c_clears_the_line_or_ends_the_watch_and_not_the_job) {
  const std::string prompt = "troupe> ";
  start_all();
  auto b = begin(tiny_job(), endless(workers(1, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 10));
  testing_apps::terminal t({std::string(TROUPE_BIN_DIR) + "/troupe", "repl", "--cluster", path("cluster.toml")}, folder_);
  ASSERT_TRUE(t.shows(prompt)) << t.screen();
  ASSERT_TRUE(t.reads_keys());
  t.type("half a li");
  ASSERT_TRUE(t.shows("half a li")) << t.screen();
  t.type(ctrl_c);
  ASSERT_TRUE(t.shows(prompt)) << t.screen();
  t.type("watch loss\n");
  ASSERT_TRUE(t.shows("  mean ")) << t.screen();
  t.type(ctrl_c);
  ASSERT_TRUE(t.shows(prompt)) << t.screen();
  t.type("pause 1\n");
  EXPECT_TRUE(t.shows("job 1 paused at step ") && t.shows(prompt)) << t.screen();
  ASSERT_TRUE(t.reads_keys());
  t.type(ctrl_d);
  EXPECT_EQ(t.wait(20s), 0) << t.screen();
  EXPECT_TRUE(b->wait_event("paused", 10s)) << "the job still runs";
  b->detach();
}

}  // namespace
}  // namespace troupe::testing_cluster
