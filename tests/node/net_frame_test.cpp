// The wire format without I/O: CRC, headers, parser, send queue, pool.
#include "runtime/node/net/frame.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "runtime/checksum/crc32c.hpp"
#include "runtime/node/net/buffer_pool.hpp"
#include "runtime/node/net/send_queue.hpp"

namespace troupe::net {
namespace {

using bytes = std::vector<std::byte>;

bytes random_bytes(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  bytes out(n);
  for (std::size_t i = 0; i < n; i += 8) {
    const std::uint64_t v = rng();
    std::memcpy(out.data() + i, &v, std::min<std::size_t>(8, n - i));
  }
  return out;
}

outgoing_frame make_frame(std::uint16_t type, std::uint64_t id, const bytes& payload, std::size_t part = 0) {
  outgoing_frame f{type, 3, 42, id, {}};
  const auto owner = std::make_shared<bytes>(payload);
  if (part == 0) part = std::max<std::size_t>(payload.size(), 1);
  for (std::size_t at = 0; at < payload.size(); at += part)
    f.parts.push_back({owner->data() + at, std::min(part, payload.size() - at), owner});
  return f;
}

// The bytes that a connection would write for these frames.
bytes drain(send_queue& q) {
  bytes out;
  for (auto batch = q.next_batch(); !batch.empty(); batch = q.next_batch()) {
    for (const auto& b : batch) {
      const auto* p = static_cast<const std::byte*>(b.data());
      out.insert(out.end(), p, p + b.size());
    }
    q.written();
  }
  return out;
}

bytes stream_of(const std::vector<bytes>& payloads) {
  send_queue q;
  q.open(~std::uint64_t{0});
  for (std::size_t i = 0; i < payloads.size(); ++i) q.push(make_frame(7, i, payloads[i]), payloads[i].size());
  return drain(q);
}

struct collector {
  std::shared_ptr<buffer_pool> pool = buffer_pool::make(1 << 20);
  std::size_t asked = 0, largest = 0;
  frame_parser parser;
  std::vector<frame> got;

  explicit collector(std::uint64_t cap = 64 << 20)
      : parser(cap, [this](const frame_header& h) -> expected<std::shared_ptr<std::byte>, coded_error> {
          const auto n = static_cast<std::size_t>(h.length);
          ++asked;
          largest = std::max(largest, n);
          return pool->take(n, nullptr);
        }) {
    parser.allow_data(true);
  }
  // Returns false when the parser has failed.
  bool feed(std::span<const std::byte> in) {
    frame f;
    while (true) {
      const auto r = parser.next(in, f);
      if (r == frame_parser::result::need_more) return true;
      if (r == frame_parser::result::failed) return false;
      got.push_back(std::move(f));
    }
  }
};

bool same(const frame& f, const bytes& payload) {
  return f.bytes == payload.size() && std::equal(payload.begin(), payload.end(), f.payload.get());
}

TEST(crc32c, software_and_hardware_agree_and_match_known_values) {
  EXPECT_EQ(crc32c_software(0, "123456789", 9), 0xe3069283U);
  const bytes zeros(32);
  EXPECT_EQ(crc32c_software(0, zeros.data(), 32), 0x8a9136aaU);  // RFC 3720, B.4
  if (!has_hardware_crc32c()) GTEST_SKIP();
  const bytes data = random_bytes(20000, 1);
  std::mt19937_64 rng(2);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t from = rng() % data.size(), n = rng() % (data.size() - from), cut = n == 0 ? 0 : rng() % n;
    const std::uint32_t whole = crc32c_software(0, data.data() + from, n);
    ASSERT_EQ(crc32c_hardware(0, data.data() + from, n), whole);
    ASSERT_EQ(crc32c_hardware(crc32c_hardware(0, data.data() + from, cut), data.data() + from + cut, n - cut), whole);
  }
}

TEST(net_frame, header_round_trip) {
  const frame_header h{0x1234, 0x5678, 0x9abcdef0, 0x11223344, 0x0102030405060708, 0xffffffffff};
  header_block raw;
  encode_header(h, raw);
  EXPECT_EQ(raw[0], std::byte{'T'});
  EXPECT_EQ(raw[1], std::byte{'P'});
  const auto back = decode_header(raw);
  ASSERT_TRUE(back);
  EXPECT_EQ(std::tie(back->type, back->flags, back->destination, back->crc, back->id, back->length),
            std::tie(h.type, h.flags, h.destination, h.crc, h.id, h.length));
}

TEST(net_frame, frames_do_not_depend_on_how_the_stream_is_sliced) {
  const std::vector<bytes> sent = {random_bytes(0, 0), random_bytes(1, 1), random_bytes(5000, 2), random_bytes(3 << 20, 3),
                                   random_bytes((1 << 20) + 1, 4)};
  const bytes stream = stream_of(sent);
  std::mt19937_64 rng(5);
  for (const std::size_t slice : {std::size_t{1} << 30, std::size_t{33}, std::size_t{4097}}) {
    collector c;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t n = std::min(stream.size() - at, 1 + rng() % slice);
      ASSERT_TRUE(c.feed(std::span(stream).subspan(at, n))) << c.parser.failure().message;
      at += n;
    }
    ASSERT_EQ(c.got.size(), sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(c.got[i].id, i);
      EXPECT_EQ(c.got[i].flags, 3);
      EXPECT_EQ(c.got[i].destination, 42U);
      EXPECT_TRUE(same(c.got[i], sent[i]));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c.got[i].payload.get()) % 64, 0U);
    }
  }
}

TEST(net_frame, payloads_are_received_in_place) {
  const bytes sent = random_bytes(3 << 20, 9), stream = stream_of({sent});
  collector c;
  std::size_t copied = 0;
  for (std::size_t at = 0; at < stream.size();) {
    if (const auto into = c.parser.window(); !into.empty()) {
      const std::size_t n = std::min(into.size(), std::size_t{16000});
      std::memcpy(into.data(), stream.data() + at, n);
      c.parser.commit(n);
      at += n;
      ASSERT_TRUE(c.feed({}));
    } else {
      const std::size_t n = std::min(stream.size() - at, header_bytes);
      ASSERT_TRUE(c.feed(std::span(stream).subspan(at, n)));
      at += n;
      copied += n;
    }
  }
  ASSERT_EQ(c.got.size(), 1U);
  EXPECT_TRUE(same(c.got[0], sent));
  EXPECT_LT(copied, 20000U);
}

TEST(net_frame, control_frames_are_sent_between_the_chunks_of_a_large_frame) {
  send_queue q;
  q.open(64 << 20);
  const bytes sent = random_bytes(4 << 20, 1);
  q.push(make_frame(7, 1, sent, 1000), sent.size());
  bytes out;
  const auto take = [&] {
    for (const auto& b : q.next_batch()) {
      const auto* p = static_cast<const std::byte*>(b.data());
      out.insert(out.end(), p, p + b.size());
    }
    q.written();
  };
  take();
  q.push_control(control_type::heartbeat);
  take();
  const bytes rest = drain(q);
  out.insert(out.end(), rest.begin(), rest.end());
  collector c;
  ASSERT_TRUE(c.feed(out));
  ASSERT_EQ(c.got.size(), 2U);
  EXPECT_EQ(c.got[0].type, static_cast<std::uint16_t>(control_type::heartbeat));
  EXPECT_TRUE(same(c.got[1], sent));
}

// Peers of protocol 1 must be able to read this greeting, and this node theirs, so that both report
// the other version.
TEST(net_frame, a_greeting_has_the_header_of_protocol_1) {
  header_block raw;
  encode_header({static_cast<std::uint16_t>(control_type::hello), 0, 0, 0x01020304, 0, 0x42}, raw);
  const unsigned char as_ever[header_bytes] = {'T', 'P', 1, 0, 0x00, 0xff, 0, 0, 0, 0, 0, 0,   4,
                                               3,   2,   1, 0, 0,    0,    0, 0, 0, 0, 0, 0x42};
  EXPECT_EQ(std::memcmp(raw.data(), as_ever, header_bytes), 0);
  EXPECT_EQ(static_cast<std::uint16_t>(control_type::refuse), 0xff02);
  hello old;
  old.protocol = 1;
  old.cluster = "c", old.node = "n1", old.window = 1;
  const auto why = decode_hello(encode_hello(old));
  ASSERT_FALSE(why);
  EXPECT_EQ(why.error().code, "protocol_version");
  EXPECT_EQ(why.error().message, "[hello] the peer speaks protocol 1, this node speaks 4");
}

bytes bare_header(const frame_header& h) {
  bytes out(header_bytes);
  encode_header(h, std::span<std::byte, header_bytes>(out.data(), header_bytes));
  return out;
}

TEST(net_frame, lengths_are_checked_before_memory_is_allocated) {
  for (const std::uint64_t claim : {std::uint64_t{1} << 32, ~std::uint64_t{0}, (std::uint64_t{64} << 20) + 1}) {
    collector c;
    EXPECT_FALSE(c.feed(bare_header({1, 0, 0, 0, 0, claim})));
    EXPECT_EQ(c.parser.failure().code, "frame_too_large");
    EXPECT_EQ(c.asked, 0U);
  }
  collector c;
  EXPECT_FALSE(c.feed(bare_header({first_reserved_type, 0, 0, 0, 0, max_control + 1})));
  EXPECT_EQ(c.parser.failure().code, "frame_too_large");
}

TEST(net_frame, errors_have_codes_and_the_parser_stays_failed) {
  const bytes good = stream_of({random_bytes(2 << 20, 1)});
  const auto failure = [&](std::size_t at, std::byte flip) {
    bytes bad = good;
    bad[at] ^= flip;
    collector c;
    EXPECT_FALSE(c.feed(bad));
    EXPECT_TRUE(c.got.empty());
    EXPECT_FALSE(c.feed(good));
    return c.parser.failure().code;
  };
  EXPECT_EQ(failure(0, std::byte{1}), "bad_magic");
  EXPECT_EQ(failure(2, std::byte{1}), "bad_version");
  EXPECT_EQ(failure(3, std::byte{1}), "bad_stream") << "stream 0 is for whole frames";
  EXPECT_EQ(failure(3, std::byte{0x40}), "bad_stream");
  EXPECT_EQ(failure(12, std::byte{1}), "bad_crc");
  EXPECT_EQ(failure(8, std::byte{1}), "bad_crc");  // the header is covered, too
  EXPECT_EQ(failure(100, std::byte{1}), "bad_crc");
  EXPECT_EQ(failure(header_bytes + max_chunk + 16, std::byte{1}), "bad_chunk");
  EXPECT_EQ(failure(header_bytes + max_chunk + 24, std::byte{1}), "bad_chunk");

  collector early;
  early.parser.allow_data(false);
  EXPECT_FALSE(early.feed(good));
  EXPECT_EQ(early.parser.failure().code, "unexpected_frame");

  frame_parser poor(1 << 30, [](const frame_header&) -> expected<std::shared_ptr<std::byte>, coded_error> {
    return unexpected(coded_error{"credit_exceeded", ""});
  });
  poor.allow_data(true);
  frame f;
  std::span<const std::byte> in = good;
  EXPECT_EQ(poor.next(in, f), frame_parser::result::failed);
  EXPECT_EQ(poor.failure().code, "credit_exceeded");
}

// 10^5 streams, each damaged in a few places and fed in random slices: only frames that were sent
// are delivered.
TEST(net_frame, mutated_streams_deliver_only_frames_that_were_sent) {
  const std::vector<bytes> sent = {random_bytes(0, 0), random_bytes(17, 1), random_bytes(300, 2), random_bytes(1500, 3)};
  const bytes good = stream_of(sent);
  const std::uint64_t seed = 20240607;
  std::mt19937_64 rng(seed);
  std::size_t failed = 0, delivered = 0;
  for (int round = 0; round < 100000; ++round) {
    bytes bad = good;
    for (std::uint64_t k = 1 + rng() % 3; k > 0 && !bad.empty(); --k) {
      const auto at = static_cast<std::ptrdiff_t>(rng() % bad.size());
      switch (rng() % 5) {
        case 0: bad[static_cast<std::size_t>(at)] ^= static_cast<std::byte>(1U << (rng() % 8)); break;
        case 1: bad[static_cast<std::size_t>(at)] = static_cast<std::byte>(rng()); break;
        case 2: bad.resize(static_cast<std::size_t>(at)); break;
        case 3: bad.erase(bad.begin() + at); break;
        default: std::rotate(bad.begin(), bad.begin() + at, bad.end());
      }
    }
    collector c(1 << 20);
    bool alive = true;
    for (std::size_t at = 0; at < bad.size() && alive;) {
      const std::size_t n = std::min<std::size_t>(bad.size() - at, 1 + rng() % 700);
      alive = c.feed(std::span(bad).subspan(at, n));
      at += n;
    }
    failed += alive ? 0 : 1;
    ASSERT_LE(c.largest, std::size_t{1} << 20);
    for (const frame& f : c.got) {
      if (f.type >= first_reserved_type) continue;
      ++delivered;
      ASSERT_LT(f.id, sent.size()) << "seed " << seed << ", round " << round;
      ASSERT_TRUE(same(f, sent[f.id])) << "seed " << seed << ", round " << round;
    }
  }
  EXPECT_GT(failed, 50000U);
  EXPECT_GT(delivered, 10000U);
}

TEST(net_send_queue, a_frame_starts_only_while_the_window_has_room) {
  send_queue q;
  const bytes kib = random_bytes(1000, 1);
  for (std::uint64_t i = 0; i < 5; ++i) q.push(make_frame(7, i, kib), kib.size());
  q.push_control(control_type::heartbeat);
  EXPECT_EQ(drain(q).size(), header_bytes) << "only control before open()";
  q.open(8 * (2 * frame_cost(1000) + 1));
  collector c;
  c.feed(drain(q));
  EXPECT_EQ(c.got.size(), 3U) << "the third starts while some window is left";
  EXPECT_EQ(q.outstanding(), 3 * frame_cost(1000));
  EXPECT_FALSE(q.credit(frame_class::large, 1)) << "only small frames used credit";
  EXPECT_TRUE(q.credit(frame_class::small, frame_cost(1000)));
  c.feed(drain(q));
  EXPECT_EQ(c.got.size(), 4U);
  EXPECT_FALSE(q.credit(frame_class::small, ~std::uint64_t{0}));
}

TEST(net_send_queue, owners_are_released_once_written) {
  send_queue q;
  q.open(1 << 20);
  auto owner = std::make_shared<bytes>(10);
  const std::weak_ptr<bytes> watch = owner;
  q.push({7, 0, 0, 0, {{owner->data(), 10, owner}}}, 10);
  owner.reset();
  ASSERT_FALSE(q.next_batch().empty());
  EXPECT_FALSE(watch.expired());
  const auto t = q.written();
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(t.frames, 1U);
  EXPECT_EQ(t.bytes, 10 + header_bytes);
}

TEST(net_buffer_pool, blocks_are_aligned_reused_and_bounded) {
  const auto pool = buffer_pool::make(3 << 20);
  auto a = pool->take(1 << 20, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.get()) % 64, 0U);
  const std::byte* where = a.get();
  a.reset();
  EXPECT_EQ(pool->take(1 << 20, nullptr).get(), where);
  {
    std::vector<std::shared_ptr<std::byte>> many;
    for (int i = 0; i < 10; ++i) many.push_back(pool->take(1 << 20, nullptr));
  }
  EXPECT_LE(pool->kept_bytes(), 3U << 20);
  for (const std::size_t n : {0, 1, 256, 257, 300, 4096, 5000, 1 << 20, (1 << 20) + 1}) {
    EXPECT_GE(buffer_pool::class_size(n), n);
    EXPECT_LE(buffer_pool::class_size(n), std::max<std::size_t>(256, n + n / 4 + 64));
  }
}

TEST(net_buffer_pool, credit_is_returned_once_at_the_last_drop_or_at_release) {
  auto pool = buffer_pool::make(1 << 20);
  const auto account = std::make_shared<credit_account>(1000);
  int reports = 0;
  account->on_report([&] { ++reports; });
  auto a = pool->take(1000, account), copy = a;
  auto b = pool->take(500, account);
  a.reset();
  EXPECT_EQ(account->collect(), 0U);
  copy.reset();
  EXPECT_EQ(reports, 1);
  EXPECT_EQ(account->collect(), frame_cost(1000));
  release_credit(std::shared_ptr<const int>(b, nullptr));  // an aliased pointer works too
  release_credit(b);
  EXPECT_EQ(account->collect(), frame_cost(500));
  pool.reset();  // blocks may outlive the pool
  std::thread([&] { b.reset(); }).join();
  EXPECT_EQ(account->collect(), 0U);
  EXPECT_EQ(account->held(), 0U);
  release_credit(std::make_shared<int>(1));  // not from a pool: no effect
}

}  // namespace
}  // namespace troupe::net
