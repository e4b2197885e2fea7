// The coordinator's journal: reading returns what was written, up to the first incomplete or
// damaged line.
#include "runtime/cluster/controller/journal.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "runtime/checksum/crc32c.hpp"
#include "runtime/record/file_io.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::control {
namespace {

unfinished_job queued(std::uint32_t number) {
  unfinished_job j;
  j.number = number;
  j.what = {"job.toml", "[job]\nname = \"tiny\"\n# ü \"quoted\" \\", {"train.finish.steps=5", "a=\"b\""}};
  j.given = {given_file::checkpoint, "mine.safetensors", 1234};
  j.owner = "alice";
  return j;
}

finished_job finished(std::uint32_t number) {
  return {number,
          "tiny",
          "alice",
          job_state::done,
          "/state/job-1/weights",
          5,
          {0, {5, done_event{.epochs = 0.25, .weights_sha256 = "ab"}}}};
}

amendments moved() {
  return {{{"fc6", {"n2", "n3"}, false}, {"conv1", {}, true}}, {"n4", "n5"}, "ssp", {{"staleness", "3"}}, {12, 4}};
}

// Jobs in three states: over, running, waiting.
std::vector<std::string> some_lines() {
  return {journal_queued(queued(1)),
          journal_queued(queued(2)),
          journal_begun(1),
          journal_kept(1, "/state/job-1/a"),
          journal_over(finished(1)),
          journal_begun(2),
          journal_kept(2, "/state/job-2/a"),
          journal_set(2, {{"train.dynamics.lr", 0.1, 31}, {"train.dynamics.decay", 1e-300, 32}}, true),
          journal_changed(2, moved()),
          journal_queued(queued(3)),
          journal_begun(2),
          journal_begun(2)};
}
std::string all(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& l : lines) text += l;
  return text;
}

TEST(journal, unfinished_jobs_are_read_back_in_order) {
  const auto c = read_journal(all(some_lines()));
  EXPECT_FALSE(c.damaged);
  EXPECT_EQ(c.last_number, 3u);
  ASSERT_EQ(c.jobs.size(), 2u);
  const auto& two = c.jobs[0];
  EXPECT_EQ(two.number, 2u);
  EXPECT_EQ(two.what.text, queued(2).what.text);
  EXPECT_EQ(two.what.overrides, queued(2).what.overrides);
  EXPECT_EQ(two.given.kind, given_file::checkpoint);
  EXPECT_EQ(two.given.bytes, 1234u);
  EXPECT_EQ(two.owner, "alice");
  EXPECT_EQ(two.kept, "/state/job-2/a");
  EXPECT_EQ(two.begun, 2u) << "starts since the last checkpoint";
  ASSERT_EQ(two.settings.size(), 2u);
  EXPECT_EQ(two.settings[0].value, 0.1);
  EXPECT_EQ(two.settings[1].value, 1e-300);
  EXPECT_EQ(two.settings[1].from, 32u);
  EXPECT_TRUE(two.paused);
  EXPECT_EQ(two.changes, moved());
  EXPECT_EQ(c.jobs[1].changes, amendments{});
  EXPECT_EQ(c.jobs[1].number, 3u);
  EXPECT_EQ(c.jobs[1].begun, 0u);
}

TEST(journal, results_of_the_newest_finished_jobs_are_read_back) {
  std::string text;
  for (std::uint32_t n = 1; n <= 70; ++n) text += journal_queued(queued(n)) + journal_over(finished(n));
  auto not_a_number = finished(71);
  not_a_number.last.event.as<done_event>()->epochs = std::nan("");
  text += journal_over(not_a_number) + journal_over(not_a_number);
  const auto c = read_journal(text);
  EXPECT_FALSE(c.damaged);
  EXPECT_TRUE(c.jobs.empty());
  ASSERT_EQ(c.finished.size(), finished_kept);
  EXPECT_EQ(c.finished.front().number, 71u - finished_kept + 1);
  EXPECT_TRUE(std::isnan(c.finished.back().last.event.as<done_event>()->epochs));
  const auto& f = c.finished[finished_kept - 2];
  EXPECT_EQ(f.number, 70u);
  EXPECT_EQ(f.name, "tiny");
  EXPECT_EQ(f.owner, "alice");
  EXPECT_EQ(f.state, job_state::done);
  EXPECT_EQ(f.weights, "/state/job-1/weights");
  EXPECT_EQ(f.last_step, 5u);
  EXPECT_EQ(f.last.event.step, 5u);
  ASSERT_TRUE(f.last.event.is<done_event>());
  EXPECT_EQ(f.last.event.as<done_event>()->epochs, 0.25);
  EXPECT_EQ(f.last.event.as<done_event>()->weights_sha256, "ab");
}

TEST(journal, jobs_of_one_owner_do_not_displace_the_results_of_another) {
  auto mine = finished(1);
  mine.owner = "bob";
  std::string text = journal_over(mine);
  for (std::uint32_t n = 2; n <= 200; ++n) text += journal_over(finished(n));
  const auto c = read_journal(text);
  ASSERT_EQ(c.finished.size(), finished_kept);
  EXPECT_EQ(c.finished.front().owner, "bob");
  EXPECT_EQ(c.finished[1].number, 200u - finished_kept + 2) << "the oldest of the other owner are left out";
}

// The step of the running job is written to a separate file after each step, without fsync, so that
// a killed process loses none of it.
TEST(journal, the_last_step_of_the_running_job_survives_the_process) {
  test::temp_dir dir;
  const auto file = std::filesystem::path(dir.path) / "jobs.journal";
  {
    journal j(file);
    EXPECT_EQ(test::error_text(j.append(journal_queued(queued(2)))), "");
    EXPECT_EQ(test::error_text(j.append(journal_queued(queued(3)))), "");
    for (const std::uint64_t step : {1ull, 999'999ull, 294ull}) j.reached(2, step);
  }
  {
    const journal again(file);
    ASSERT_EQ(again.found().jobs.size(), 2u);
    EXPECT_EQ(again.found().jobs[0].reached, 294u);
    EXPECT_EQ(again.found().jobs[1].reached, 0u) << "the step belongs to another job";
  }
  std::ofstream(file.string() + ".step", std::ios::in | std::ios::out) << "0000";
  EXPECT_EQ(journal(file).found().jobs[0].reached, 0u) << "a damaged step file is ignored";
}

// A simulated machine keeps its journal while its daemon is restarted.
TEST(journal, a_journal_in_memory_is_read_by_the_next_one) {
  const auto disk = std::make_shared<memory_journal>();
  {
    journal j(disk);
    EXPECT_EQ(test::error_text(j.opened()), "");
    EXPECT_EQ(test::error_text(j.append(journal_queued(queued(2)))), "");
    EXPECT_EQ(test::error_text(j.append(journal_begun(2))), "");
    j.reached(2, 31);
  }
  const journal again(disk);
  ASSERT_EQ(again.found().jobs.size(), 1u);
  EXPECT_EQ(again.found().jobs[0].begun, 1u);
  EXPECT_EQ(again.found().jobs[0].reached, 31u);
}

TEST(journal, a_journal_in_memory_loses_no_earlier_line_while_its_disk_is_full) {
  const auto disk = std::make_shared<memory_journal>();
  journal j(disk);
  EXPECT_EQ(test::error_text(j.append(journal_queued(queued(2)))), "");
  disk->full = true;
  EXPECT_EQ(test::error_text(j.append(journal_begun(2))), "journal: cannot be written: No space left on device");
  EXPECT_EQ(journal(disk).found().jobs.at(0).begun, 0u);
  EXPECT_EQ(test::error_text(journal(disk).opened()), "journal: cannot be written: No space left on device");
  disk->full = false;
  EXPECT_EQ(test::error_text(j.append(journal_begun(2))), "");
  EXPECT_EQ(journal(disk).found().jobs.at(0).begun, 2u) << "the line that failed is written, too";
}

TEST(journal, a_line_that_could_not_be_written_is_written_with_the_next_step) {
  const auto disk = std::make_shared<memory_journal>();
  journal j(disk);
  disk->full = true;
  EXPECT_FALSE(j.append(journal_queued(queued(2))));
  j.reached(2, 7);
  EXPECT_TRUE(journal(disk).found().jobs.empty());
  disk->full = false;
  j.reached(2, 8);
  ASSERT_EQ(journal(disk).found().jobs.size(), 1u);
  const auto lines = disk->read()->lines;
  j.reached(2, 9);
  EXPECT_EQ(disk->read()->lines, lines) << "it is written once";
}

// A journal of a version that did not store results.
TEST(journal, a_finished_job_without_a_result_is_read) {
  const std::string text =
      "{\"is\":\"over\",\"job\":3,\"kind\":\"done\",\"last_step\":5,\"name\":\"tiny\",\"owner\":\"alice\",\"state\":\"done\","
      "\"step\":5,"
      "\"text\":\"\",\"texts\":[],\"values\":[],\"weights\":\"\"}";
  char sum[16];
  std::snprintf(sum, sizeof sum, "%08x", crc32c(0, text.data(), text.size()));
  const auto c = read_journal(std::string(sum) + " " + text + "\n");
  ASSERT_EQ(c.finished.size(), 1u);
  EXPECT_EQ(c.finished[0].accuracy, -1);
}

// A line of a version in which all clients had the same identity.
TEST(journal, a_job_without_an_owner_belongs_to_the_unnamed_client) {
  const std::string text =
      R"({"file":"f","given":"","given_bytes":0,"given_kind":0,"is":"queued","job":4,"overrides":[],"text":"t"})";
  char digits[16];
  std::snprintf(digits, sizeof digits, "%08x", crc32c(0, text.data(), text.size()));
  const auto c = read_journal(digits + (" " + text + "\n"));
  ASSERT_EQ(c.jobs.size(), 1u);
  EXPECT_EQ(c.jobs[0].owner, "client");
}

TEST(journal, a_journal_torn_at_any_byte_is_read_up_to_its_last_whole_line) {
  const auto lines = some_lines();
  const auto text = all(lines);
  std::size_t whole = 0, end = lines[0].size();
  for (std::size_t n = 0; n <= text.size(); ++n) {
    while (whole < lines.size() && n >= end) end += ++whole < lines.size() ? lines[whole].size() : 1;
    const auto torn = read_journal(text.substr(0, n));
    const auto good = read_journal(all({lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(whole)}));
    ASSERT_EQ(torn.jobs.size(), good.jobs.size()) << n;
    ASSERT_EQ(torn.last_number, good.last_number) << n;
    if (!torn.jobs.empty()) {
      ASSERT_EQ(torn.jobs[0].kept, good.jobs[0].kept) << n;
      ASSERT_EQ(torn.jobs[0].begun, good.jobs[0].begun) << n;
    }
  }
}

TEST(journal, flipped_bits_are_detected_as_damage) {
  const auto text = all(some_lines());
  std::mt19937_64 r(1);
  for (int k = 0; k < 2000; ++k) {
    auto bad = text;
    const auto at = r() % bad.size();
    bad[at] = static_cast<char>(bad[at] ^ (1 << r() % 8));
    const auto c = read_journal(bad);
    EXPECT_TRUE(c.damaged) << at;
    EXPECT_LE(c.jobs.size(), 3u);
  }
  for (const char* line : {"", "\n", "x\n", "00000000 {}\n", "00000000  \n"}) read_journal(line);
}

TEST(journal, a_damaged_journal_is_continued_after_its_last_whole_line) {
  test::temp_dir dir;
  const auto file = std::filesystem::path(dir.file("journal"));
  {
    journal j(file);
    EXPECT_TRUE(j.found().jobs.empty());
    for (const auto& l : some_lines()) EXPECT_EQ(test::error_text(j.append(l)), "");
  }
  struct stat s {};
  ASSERT_EQ(::stat(file.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u) << "other users must not read the texts of jobs";
  const auto before = s.st_size;
  { std::ofstream(file, std::ios::app) << "0000"; }
  {
    journal j(file);
    EXPECT_NE(test::error_text(j.opened()).find("damaged"), std::string::npos) << test::error_text(j.opened());
    ASSERT_EQ(j.found().jobs.size(), 2u);
    EXPECT_EQ(j.found().last_number, 3u);
    EXPECT_EQ(test::error_text(j.append(journal_over(finished(2)))), "");
  }
  ASSERT_EQ(::stat(file.c_str(), &s), 0);
  EXPECT_LT(s.st_size, before) << "the rewritten journal omits finished jobs";
  journal j(file);
  EXPECT_EQ(test::error_text(j.opened()), "");
  ASSERT_EQ(j.found().jobs.size(), 1u);
  EXPECT_EQ(j.found().jobs[0].number, 3u);
  EXPECT_EQ(j.found().last_number, 3u) << "job numbers are not reused";
}

// The disk is full when the daemon starts and still full when it appends.
TEST(journal, a_failed_rewrite_or_append_leaves_the_journal_unchanged) {
  test::temp_dir dir;
  const auto file = std::filesystem::path(dir.file("journal"));
  {
    journal j(file);
    for (const auto& l : some_lines()) ASSERT_EQ(test::error_text(j.append(l)), "");
  }
  const auto bytes = std::filesystem::file_size(file);
  std::filesystem::create_directory(file.string() + temporary_suffix);  // its temporary file cannot be created
  journal j(file);
  EXPECT_FALSE(j.opened());
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{bytes + 5, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  const auto refused = test::error_text(j.append(journal_over(finished(3))));
  ::setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_NE(refused.find("cannot be written"), std::string::npos) << refused;
  EXPECT_EQ(std::filesystem::file_size(file), bytes) << "the failed append changed the journal";
  EXPECT_EQ(test::error_text(j.append(journal_begun(2))), "") << "the disk has space again";
  const auto c = read_journal(all(some_lines()) + journal_over(finished(3)) + journal_begun(2));
  journal again(file);
  ASSERT_EQ(again.found().jobs.size(), c.jobs.size());
  EXPECT_EQ(again.found().jobs[0].number, 2u);
  EXPECT_EQ(again.found().finished.size(), c.finished.size()) << "the line that failed is written with the next one";
}

// Lines after a torn line would not be read.
TEST(journal, a_damaged_journal_that_cannot_be_rewritten_refuses_appends) {
  test::temp_dir dir;
  const auto file = std::filesystem::path(dir.file("journal"));
  { std::ofstream(file) << all(some_lines()) << "0000"; }
  std::filesystem::create_directory(file.string() + temporary_suffix);
  journal j(file);
  EXPECT_NE(test::error_text(j.opened()).find("damaged"), std::string::npos) << test::error_text(j.opened());
  EXPECT_FALSE(j.append(journal_over(finished(2))));
}

// Lines with a valid checksum and invalid numbers, from another program or a later version.
TEST(journal, invalid_job_numbers_are_detected_as_damage) {
  for (const char* job : {"1.9e70", "-1", "4294967296", "2.5", "\"1\"", "true"}) {
    const auto text = std::string(R"({"is":"over","job":)") + job + "}";
    char digits[16];
    std::snprintf(digits, sizeof digits, "%08x", crc32c(0, text.data(), text.size()));
    const auto c = read_journal(all(some_lines()) + digits + " " + text + "\n");
    EXPECT_TRUE(c.damaged) << job;
    EXPECT_EQ(c.last_number, 3u) << job;
    EXPECT_EQ(c.jobs.size(), 2u) << job;
  }
}

TEST(journal, a_journal_in_an_unwritable_folder_reports_an_error_on_every_use) {
  journal j("/proc/none/journal");
  EXPECT_FALSE(j.opened());
  EXPECT_FALSE(j.append(journal_over(finished(1))));
}

TEST(journal_file, has_the_lines_that_were_appended_and_the_last_step) {
  const test::temp_dir dir;
  const auto file = std::filesystem::path(dir.path) / "journal";
  {
    file_journal j(file);
    ASSERT_EQ(test::error_text(j.replace("old\n")), "");
    ASSERT_EQ(test::error_text(j.open()), "");
    for (const char* line : {"one\n", "two and more\n"}) ASSERT_EQ(test::error_text(j.append(line)), "");
    j.put_step("step 1\n");
    j.put_step("step 2\n");
  }
  const auto kept = file_journal(file).read();
  ASSERT_TRUE(kept) << test::error_text(kept);
  EXPECT_EQ(kept->lines, "old\none\ntwo and more\n");
  EXPECT_EQ(kept->step, "step 2");
}

// A device of which neither a write nor a truncation succeeds takes the place of the file.
TEST(journal_file, is_closed_when_a_partial_line_cannot_be_removed) {
  const test::temp_dir dir;
  const auto file = std::filesystem::path(dir.path) / "journal";
  file_journal j(file);
  ASSERT_EQ(test::error_text(j.open()), "");
  ASSERT_EQ(test::error_text(j.append("one\n")), "");
  j.pace([&] {
    for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(fd, gone) != file) continue;
      const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
      ::dup2(full, std::stoi(fd.path().filename()));
      ::close(full);
    }
  });
  EXPECT_EQ(test::error_text(j.append("two\n")), "cannot be written: No space left on device");
  EXPECT_EQ(test::error_text(j.append("two\n")), "the journal is not open");
}

}  // namespace
}  // namespace troupe::control
