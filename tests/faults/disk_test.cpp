// Full and failing disks of running daemons. Tests are skipped with the reason where a file system
// cannot be mounted or processes cannot be traced.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "runtime/record/checkpoint.hpp"
#include "tests/cluster/processes.hpp"

namespace troupe::testing_cluster {
namespace {

namespace fs = std::filesystem;

class disk_test : public cluster_test {
 protected:
  // Starts a daemon through another program that execs it.
  void start_by(std::vector<std::string> words, const std::string& node) {
    words.insert(words.end(), {std::string(TROUPE_BIN_DIR) + "/trouped", "--cluster", path("cluster.toml"), "--node", node});
    daemons_[node] = std::make_unique<process>(words, folder_);
    ASSERT_TRUE(daemons_[node]->wait_out("ready " + node, 20s)) << daemons_[node]->log();
  }
};

// Promise 11 (docs/promises.md): a disk that is full while a job runs.
class full_disk : public disk_test {
 protected:
  ~full_disk() override {
    daemons_.clear();
    if (mounted_) ::umount2(path("state/n1").c_str(), MNT_DETACH);
  }
  // Mounts a file system of this size at the state folder of n1. Returns why it failed; empty on
  // success.
  std::string mount_state(const char* size) {
    fs::create_directories(path("state/n1"));
    if (::mount("tmpfs", path("state/n1").c_str(), "tmpfs", 0, size) != 0) return std::strerror(errno);
    mounted_ = true;
    return {};
  }
  // Expects a job that trained to its end and whose weights were stored in a second place for lack
  // of space.
  static void expect_trained(const run_result& r) {
    EXPECT_EQ(r.value("steps"), 40);
    ASSERT_FALSE(r.outcome.messages.empty());
    EXPECT_NE(r.outcome.messages.front().find("No space left on device; it is in "), std::string::npos)
        << r.outcome.messages.front();
    EXPECT_EQ(r.outcome.exit_code(), 1);
  }
  // Waits until n1 has closed the folder of a run. The job has ended for its client before that.
  void wait_for_run_folder(const std::string& run) const {
    const int lock = ::open(path("state/n1/runs/" + run + "/lock").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(lock, 0) << std::strerror(errno);
    EXPECT_EQ(::flock(lock, LOCK_EX), 0) << std::strerror(errno);
    ::close(lock);
  }
  void fill() const {
    std::ofstream f(path("state/n1/filler"), std::ios::binary);
    const std::string page(1024, 'x');
    while (f.write(page.data(), static_cast<std::streamsize>(page.size())).flush()) {
    }
  }

 private:
  bool mounted_ = false;
};

TEST_F(full_disk, training_alerts_and_continues_and_the_old_checkpoint_stays) {
  make_cluster(2);
  if (const auto why = mount_state("size=1m"); !why.empty()) GTEST_SKIP() << "a file system cannot be mounted here: " << why;
  fs::create_directories(path("second"));
  ::setenv("TMPDIR", path("second").c_str(), 1);
  start_all();
  ::unsetenv("TMPDIR");
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  daemon("n1").signal(SIGHUP);
  ASSERT_TRUE(b->wait_event("checkpoint", 20s));
  fill();
  daemon("n1").signal(SIGHUP);
  ASSERT_TRUE(b->wait_event("alert", 20s));
  ASSERT_TRUE(b->wait_event("step", 20s, 400)) << "training continued";
  std::string folder;
  for (const auto& e : fs::directory_iterator(path("state/n1")))
    if (e.is_directory() && !checkpoint_files(e.path().string()).empty()) folder = e.path().string();
  ASSERT_NE(folder, "");
  ASSERT_TRUE(load_newest_checkpoint(folder).newest) << "the old checkpoint is valid";
  const auto old = load_newest_checkpoint(folder).newest->step;
  fs::remove(path("state/n1/filler"));
  daemon("n1").signal(SIGHUP);
  ASSERT_TRUE(b->wait_event("checkpoint", 20s, old + 1)) << "a checkpoint is written when there is space again";
  ASSERT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  const auto r = b->join();
  EXPECT_EQ(r.outcome.exit_code(), 0);
  std::string alerts;
  for (const auto& e : r.events)
    if (std::string(name_of(e.event).name) == "alert") alerts += message_of(e.event) + "\n";
  EXPECT_NE(alerts.find("No space left on device"), std::string::npos) << alerts;
  EXPECT_NE(alerts.find("the checkpoint was not saved: "), std::string::npos) << alerts;
}

TEST_F(full_disk, a_full_disk_under_the_journal_is_reported_and_the_job_runs) {
  make_cluster(2);
  if (const auto why = mount_state("size=1m"); !why.empty()) GTEST_SKIP() << "a file system cannot be mounted here: " << why;
  start_all();
  ASSERT_EQ(run(tiny_job(), workers(2, 1)).outcome.exit_code(), 0);
  wait_for_run_folder("1-tiny");  // it frees space when it closes its database and replaces run.json
  fill();
  expect_trained(run(tiny_job() + std::string(9000, '#'), workers(2, 1)));  // more than fits in the journal's last page
  EXPECT_TRUE(daemon("n1").wait_log("journal: cannot be written: No space left on device", 5s));
  fs::remove(path("state/n1/filler"));
  // The journal is valid after the disk has space again.
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 20));
  kill_hard("n1");
  start("n1");
  ASSERT_TRUE(daemon("n1").wait_log("(tiny) runs", 30s)) << "the journal has the job";
  ASSERT_EQ(ask("n1", "stop").how, repl_reply::kind::ok);
  EXPECT_EQ(b->join().outcome.exit_code(), 0);
}

TEST_F(full_disk, a_daemon_that_starts_on_a_full_disk_reports_it_and_works) {
  make_cluster(2);
  if (const auto why = mount_state("size=64k"); !why.empty()) GTEST_SKIP() << "a file system cannot be mounted here: " << why;
  fill();
  start_all();
  EXPECT_TRUE(daemon("n1").wait_log("No space left on device", 5s));
  EXPECT_TRUE(daemon("n1").wait_log("journal", 5s));
  expect_trained(run(tiny_job(), workers(2, 1)));
}

// The log goes to /dev/full: its lines are lost, with no other effect.
TEST_F(full_disk, a_log_that_cannot_be_written_has_no_other_effect) {
  make_cluster(2);
  start("n1");
  start_by({"/bin/sh", "-c", "exec \"$@\" 2>/dev/full", "sh"}, "n2");
  ASSERT_TRUE(daemon("n1").wait_log("node n2 has joined", 10s));
  EXPECT_EQ(run(tiny_job(), workers(2, 2)).outcome.exit_code(), 0);
  daemon("n2").signal(SIGTERM);
  EXPECT_EQ(daemon("n2").wait(25s), 0);
}

// Promise 11 with errors of the kernel, injected by strace: writes to files of the daemon that
// stores checkpoints fail.
class failing_disk : public disk_test {
 protected:
  // Prepares a start of n1 by strace, which makes these system calls fail, only for the path `only`
  // if it is set. Returns why that is impossible; empty on success.
  std::string inject(const std::string& what, const std::string& only) {
    const std::string strace = "/usr/bin/strace";
    if (!fs::exists(strace)) return "strace is not installed";
    process probe({strace, "-f", "-o", "/dev/null", "-e", "trace=fsync", "/bin/true"}, folder_);
    if (probe.wait() != 0) return "processes cannot be traced here: " + probe.log();
    // -D: the daemon is the child of the test, and strace a separate process.
    before_ = {strace, "-D", "-f", "-o", "/dev/null", "-e", "inject=" + what};
    if (!only.empty()) before_.insert(before_.end(), {"-P", only});
    return {};
  }
  std::vector<std::string> before_;
};

TEST_F(failing_disk, a_failing_write_to_the_journal_is_logged_and_training_continues) {
  make_cluster(2);
  if (const auto why = inject("write:error=EIO", path("state/n1/journal")); !why.empty()) GTEST_SKIP() << why;
  start_by(before_, "n1");
  start("n2");
  ASSERT_TRUE(joined("n2"));
  const auto r = run(tiny_job(), workers(2, 1));
  EXPECT_EQ(r.outcome.exit_code(), 0) << (r.outcome.messages.empty() ? "" : r.outcome.messages.front());
  EXPECT_TRUE(daemon("n1").wait_log("journal: cannot be written: Input/output error", 5s));
}

TEST_F(failing_disk, a_failing_sync_keeps_the_old_checkpoint_and_training_continues) {
  make_cluster(2);
  // The first 15 syncs succeed, the first checkpoint's among them; later ones fail.
  if (const auto why = inject("fsync:error=EIO:when=16+", {}); !why.empty()) GTEST_SKIP() << why;
  start_by(before_, "n1");
  start("n2");
  ASSERT_TRUE(joined("n2"));
  fs::create_directories(path("second"));
  auto b = begin(tiny_job(), endless(workers(2, 1)));
  ASSERT_TRUE(b->wait_event("step", 20s, 5));
  std::size_t kept = 0;
  for (std::uint64_t step = 5; !b->wait_event("alert", 1ms); step += 20) {
    ASSERT_LT(kept, 20u) << "no sync has failed";
    daemon("n1").signal(SIGHUP);
    ASSERT_TRUE(b->wait_event("step", 20s, step));
    ++kept;
  }
  ASSERT_TRUE(b->wait_event("step", 20s, 600)) << "training continued";
  bool old = false;
  for (const auto& e : fs::directory_iterator(path("state/n1")))
    if (e.is_directory() && load_newest_checkpoint(e.path().string()).newest) old = true;
  EXPECT_TRUE(old) << "the old checkpoint is valid";
  const auto stopped = ask("n1", "stop");
  EXPECT_NE(stopped.how, repl_reply::kind::ok);
  EXPECT_NE(stopped.text.find("Input/output error"), std::string::npos) << stopped.text;
  const auto r = b->join();
  std::string alerts;
  for (const auto& e : r.events)
    if (std::string(name_of(e.event).name) == "alert") alerts += message_of(e.event) + "\n";
  EXPECT_NE(alerts.find("cannot sync: Input/output error"), std::string::npos) << alerts;
}

}  // namespace
}  // namespace troupe::testing_cluster
