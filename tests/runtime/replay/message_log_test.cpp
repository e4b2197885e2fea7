// Message logs of roles: limited in size, and read back as they were written.
#include <gtest/gtest.h>

#include "runtime/replay/delivery_log.hpp"

namespace troupe::replay {
namespace {

delivery entry(std::uint64_t step, std::uint32_t from, std::uint64_t what = 0) {
  delivery d;
  d.kind = static_cast<std::uint8_t>(message(push{}).index());
  d.from = role_id{from};
  d.step = step;
  d.packet = static_cast<std::uint32_t>(step % 3);
  d.port = static_cast<std::uint16_t>(step % 2);
  d.what = what;
  d.at = time_point(static_cast<std::int64_t>(step) * 12345);
  return d;
}

std::vector<delivery> entries_of(const std::vector<std::string>& chunks) {
  std::vector<delivery> all;
  for (const auto& c : chunks) {
    chunk_reader r(c);
    while (auto d = r.next()) all.push_back(std::move(*d));
    EXPECT_FALSE(r.damaged());
  }
  return all;
}

void expect_same(const delivery& a, const delivery& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.from, b.from);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.packet, b.packet);
  EXPECT_EQ(a.port, b.port);
  EXPECT_EQ(a.what, b.what);
  EXPECT_EQ(a.at, b.at);
  EXPECT_EQ(a.whole, b.whole);
}

TEST(message_log, reads_the_entries_that_were_written) {
  log_room room(1 << 20);
  role_log log(room);
  std::vector<delivery> said;
  for (const std::uint64_t step : {0ull, 1ull, 2ull, 1ull, ~0ull, 0ull, 1ull << 40, 3ull}) said.push_back(entry(step, 7, step));
  said.push_back(entry(1, 0xfffffffe, ~0ull));
  envelope word;
  word.body = command{set_command{"train.dynamics.lr", 0.5}};
  said.push_back(delivery_of(word, time_point(-5)));
  EXPECT_FALSE(said.back().whole.empty());
  for (const auto& d : said) log.add(d);
  const auto read = entries_of(log.chunks());
  ASSERT_EQ(read.size(), said.size());
  for (std::size_t i = 0; i < read.size(); ++i) expect_same(read[i], said[i]);
}

TEST(message_log, keeps_the_latest_entries_beyond_its_limit_and_counts_dropped) {
  log_room room(8 * role_log::chunk_bytes);
  role_log busy(room), quiet(room);
  quiet.add(entry(1, 2));
  for (std::uint64_t step = 0; step < 20'000; ++step) busy.add(entry(step, 1, step));
  EXPECT_EQ(busy.handled(), 20'000u);
  const auto read = entries_of(busy.chunks());
  EXPECT_GT(busy.dropped(), 0u);
  ASSERT_EQ(read.size() + busy.dropped(), 20'000u);
  for (std::size_t i = 0; i < read.size(); ++i) expect_same(read[i], entry(busy.dropped() + i, 1, busy.dropped() + i));
  std::size_t bytes = 0;
  for (const auto& c : busy.chunks()) bytes += c.size();
  EXPECT_LE(bytes, 8 * (role_log::chunk_bytes + 32));
  EXPECT_EQ(quiet.dropped(), 0u);
  EXPECT_EQ(entries_of(quiet.chunks()).size(), 1u);
}

node_part some_part() {
  log_room room(1 << 20);
  role_log log(room);
  for (std::uint64_t step = 0; step < 1000; ++step) log.add(entry(step, 1));
  return {"abc", "n1", {{role_id{0}, 1000, 0, "out of luck", log.chunks()}, {role_id{3}, 5, 5, {}, {}}}};
}

TEST(message_log, node_part_round_trips) {
  const auto p = some_part();
  const auto read = from_bytes(to_bytes(p));
  const auto& q = *read;
  EXPECT_EQ(q.job, "abc");
  EXPECT_EQ(q.node, "n1");
  ASSERT_EQ(q.roles.size(), 2u);
  EXPECT_EQ(q.roles[0].failure, "out of luck");
  EXPECT_EQ(q.roles[0].chunks, p.roles[0].chunks);
  EXPECT_FALSE(q.complete());
}

TEST(message_log, rejects_damaged_foreign_and_truncated_bytes) {
  const auto sound = to_bytes(some_part());
  const auto why = [](const std::string& bytes) {
    const auto read = from_bytes(bytes);
    return read ? std::string() : read.error().text;
  };
  EXPECT_EQ(why(sound), "");
  EXPECT_NE(why("").find("not a message log"), std::string::npos);
  EXPECT_NE(why("PK\3\4").find("not a message log"), std::string::npos);
  for (std::size_t n = 18; n < sound.size(); n += 101) EXPECT_NE(why(sound.substr(0, n)), "") << n;
  for (std::size_t n = 0; n < sound.size(); n += 101) {
    auto bytes = sound;
    bytes[n] = static_cast<char>(bytes[n] ^ 16);
    EXPECT_NE(why(bytes), "") << n;
  }
  EXPECT_NE(why(sound + "x").find("checksum"), std::string::npos);
}

TEST(message_log, an_invalid_entry_ends_the_chunk) {
  for (const std::string bytes : {"\x3e", "\x01", "\x01\x80\x80", "\x41\x01\x02\x02\xff\xff\xff\xff\xff\x01\x01"}) {
    chunk_reader r(bytes);
    EXPECT_FALSE(r.next());
    EXPECT_TRUE(r.damaged());
  }
}

}  // namespace
}  // namespace troupe::replay
