// The log of messages that is written to a file while roles run.
#include "runtime/replay/log_stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/error_text.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::replay {
namespace {

using ::testing::HasSubstr;

delivery of_step(std::uint64_t step) {
  delivery d;
  d.kind = static_cast<std::uint8_t>(message(push{}).index());
  d.from = role_id{1};
  d.step = step;
  d.at = time_point(static_cast<std::int64_t>(step) * 1000);
  return d;
}

std::string content(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::uint64_t> steps_of(const role_part& p) {
  std::vector<std::uint64_t> steps;
  for (const auto& c : p.chunks) {
    chunk_reader r(c);
    while (const auto d = r.next()) steps.push_back(d->step);
  }
  return steps;
}

class stream_of_messages : public ::testing::Test {
 protected:
  // Two roles with `count` messages each; the second one fails. The room of the logs in memory is
  // small, so that they drop their oldest messages.
  void write(std::uint64_t count, bool end = true) {
    log_stream s([](const std::string& why) { ADD_FAILURE() << why; });
    ASSERT_EQ(test::error_text(s.open(file_, both_)), "");
    log_room room(4 * role_log::chunk_bytes);
    role_log logs[] = {role_log(room), role_log(room)};
    for (std::uint64_t n = 0; n < count; ++n)
      for (std::uint32_t r = 0; r < 2; ++r)
        if (const auto* chunk = logs[r].add(of_step(n))) s.add(role_id{r}, *chunk);
    dropped_ = logs[0].dropped();
    if (!end) return;
    for (std::uint32_t r = 0; r < 2; ++r) {
      if (const auto* chunk = logs[r].complete()) s.add(role_id{r}, *chunk);
      s.ended(role_id{r}, r == 1 ? "out of luck" : "");
    }
  }
  const std::vector<role_id> both_{role_id{0}, role_id{1}};
  std::uint64_t dropped_ = 0;  // by the log in memory
  test::temp_dir folder_;
  const std::string file_ = folder_.file("messages.stream");
};

TEST_F(stream_of_messages, has_all_messages_when_the_log_in_memory_has_dropped_some) {
  write(20'000);
  EXPECT_GT(dropped_, 0u);
  const auto read = read_stream(content(file_));
  ASSERT_TRUE(read) << test::error_text(read);
  ASSERT_EQ(read->size(), 2u);
  for (std::uint32_t r = 0; r < 2; ++r) {
    const auto& p = (*read)[r];
    EXPECT_EQ(p.id, role_id{r});
    EXPECT_EQ(p.handled, 20'000u);
    EXPECT_EQ(p.dropped, 0u);
    EXPECT_FALSE(p.cut);
    const auto steps = steps_of(p);
    ASSERT_EQ(steps.size(), 20'000u);
    for (std::uint64_t n = 0; n < steps.size(); ++n) ASSERT_EQ(steps[n], n);
  }
  EXPECT_EQ((*read)[1].failure, "out of luck");
}

TEST_F(stream_of_messages, of_a_killed_process_is_read_to_its_last_whole_chunk) {
  write(2'000, false);
  const auto bytes = content(file_);
  std::uint64_t before = 0;
  for (std::size_t size = 26; size <= bytes.size(); size += 97) {
    const auto read = read_stream(bytes.substr(0, size));
    ASSERT_TRUE(read) << test::error_text(read);
    std::uint64_t handled = 0;
    for (const auto& p : *read) {
      EXPECT_TRUE(p.cut);
      handled += p.handled;
      const auto steps = steps_of(p);
      for (std::uint64_t n = 0; n < steps.size(); ++n) ASSERT_EQ(steps[n], n);
    }
    EXPECT_GE(handled, before);
    before = handled;
  }
  EXPECT_GT(before, 2'500u);
}

// A process that is killed neither ends its roles nor closes the file.
TEST_F(stream_of_messages, is_in_the_file_as_soon_as_it_is_written) {
  log_stream s([](const std::string& why) { ADD_FAILURE() << why; });
  ASSERT_EQ(test::error_text(s.open(file_, both_)), "");
  auto read = read_stream(content(file_));
  ASSERT_TRUE(read) << test::error_text(read);
  ASSERT_EQ(read->size(), 2u) << "every role is named";
  for (const auto& p : *read) {
    EXPECT_TRUE(p.cut);
    EXPECT_EQ(p.handled, 0u);
  }
  log_room room(4 * role_log::chunk_bytes);
  role_log log(room);
  log.add(of_step(7));
  s.add(role_id{1}, *log.complete());
  s.ended(role_id{1}, "");
  read = read_stream(content(file_));
  ASSERT_TRUE(read) << test::error_text(read);
  EXPECT_TRUE((*read)[0].cut);
  EXPECT_FALSE((*read)[1].cut);
  EXPECT_EQ(steps_of((*read)[1]), std::vector<std::uint64_t>{7});
}

TEST_F(stream_of_messages, tells_every_flipped_bit_from_a_cut_end) {
  write(120);
  const auto sound = content(file_);
  ASSERT_TRUE(read_stream(sound));
  for (std::size_t at = 26; at < sound.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      auto bytes = sound;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      const auto read = read_stream(bytes);
      ASSERT_FALSE(read) << "bit " << bit << " of byte " << at;
      ASSERT_THAT(read.error().text, HasSubstr("the record at byte ")) << at;
    }
  for (std::size_t size = 26; size < sound.size(); ++size) {
    const auto read = read_stream(sound.substr(0, size));
    ASSERT_TRUE(read) << size << ": " << test::error_text(read);
    ASSERT_TRUE(read->size() < 2 || std::any_of(read->begin(), read->end(), [](const role_part& p) { return p.cut; })) << size;
  }
}

TEST_F(stream_of_messages, names_the_record_that_is_damaged) {
  {
    log_stream s([](const std::string& why) { ADD_FAILURE() << why; });
    ASSERT_EQ(test::error_text(s.open(file_, both_)), "");
    s.add(role_id{0}, std::string(3, '\xff'));
  }
  const auto bytes = content(file_);
  EXPECT_THAT(test::error_text(read_stream(bytes)), HasSubstr("the record at byte 66 is damaged: it has no deliveries"));
  EXPECT_THAT(test::error_text(read_stream(bytes.substr(0, 50) + "x" + bytes.substr(51))), HasSubstr("at byte 46"));
}

TEST_F(stream_of_messages, has_a_message_from_outside_that_is_as_long_as_a_message_may_be) {
  constexpr std::size_t size = (std::size_t{64} << 20) + 1;  // messages have up to 1 GiB
  {
    log_stream s([](const std::string& why) { ADD_FAILURE() << why; });
    ASSERT_EQ(test::error_text(s.open(file_, both_)), "");
    log_room room(4 * role_log::chunk_bytes);
    role_log log(room);
    auto d = of_step(7);
    d.from = no_role;
    d.whole.assign(size, 'w');
    const auto* chunk = log.add(d);
    if (!chunk) chunk = log.complete();
    ASSERT_TRUE(chunk);
    s.add(role_id{0}, *chunk);
    s.ended(role_id{0}, "");
  }
  const auto read = read_stream(content(file_));
  ASSERT_TRUE(read) << test::error_text(read);
  chunk_reader r(read->front().chunks.back());
  const auto d = r.next();
  ASSERT_TRUE(d);
  EXPECT_EQ(d->whole.size(), size);
}

TEST_F(stream_of_messages, refuses_files_of_another_kind) {
  EXPECT_THAT(test::error_text(read_stream("")), HasSubstr("not a recording"));
  EXPECT_THAT(test::error_text(read_stream("troupe messages 2\n")), HasSubstr("not a recording"));
}

TEST_F(stream_of_messages, reports_a_file_that_cannot_be_opened) {
  log_stream s([](const std::string&) {});
  EXPECT_THAT(test::error_text(s.open(folder_.file("none") + "/x", {})), HasSubstr("none/x"));
  log_stream full([](const std::string&) {});
  EXPECT_THAT(test::error_text(full.open("/dev/full", {})), HasSubstr("No space left"));
}

TEST_F(stream_of_messages, reports_the_first_failed_write_once_and_writes_no_more) {
  std::vector<std::string> said;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  {
    log_stream s([&](const std::string& why) { said.push_back(why); });
    ASSERT_EQ(test::error_text(s.open(file_, both_)), "");
    const rlimit small{64'000, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int n = 0; n < 200; ++n) s.add(role_id{0}, std::string(1000, 'x'));
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr(file_));
  EXPECT_THAT(said[0], HasSubstr("not recorded"));
  EXPECT_LE(std::filesystem::file_size(file_), 64'000u);
}

}  // namespace
}  // namespace troupe::replay
