// The send order without I/O: order within each pair, overtaking, the two parts of the window. And
// the parser on interleaved chunks of several frames.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "runtime/node/net/buffer_pool.hpp"
#include "runtime/node/net/send_queue.hpp"
#include "tests/node/net_support.hpp"

namespace troupe::net::testing {
namespace {

constexpr std::uint64_t MiB = 1 << 20;

// The payload is pattern(size, id).
outgoing_frame drawn(std::uint32_t source, std::uint32_t destination, std::size_t size, std::uint64_t id) {
  auto f = frame_of(pattern(size, id), id, 1, destination);
  f.source = source;
  return f;
}
void push(send_queue& q, std::uint32_t destination, std::size_t size, std::uint64_t id) {
  q.push(drawn(0, destination, size, id), size);
}

struct receiver {
  std::size_t open_bytes = 0, largest_sum = 0;
  frame_parser parser{1 << 30, [this](const frame_header& h) -> expected<std::shared_ptr<std::byte>, coded_error> {
                        const auto n = static_cast<std::size_t>(h.length);
                        largest_sum = std::max(largest_sum, open_bytes += n);
                        return std::shared_ptr<std::byte>(new std::byte[n + 1], [this, n](const std::byte* p) {
                          open_bytes -= n;
                          delete[] p;
                        });
                      }};
  std::vector<frame> got;

  receiver() { parser.allow_data(true); }
  bool feed(std::span<const std::byte> in) {
    frame f;
    while (true) {
      const auto r = parser.next(in, f);
      if (r == frame_parser::result::need_more) return true;
      if (r == frame_parser::result::failed) return false;
      got.push_back(std::move(f));
    }
  }
  // Feeds one batch of `q` to the parser. Returns its size in bytes.
  std::size_t batch(send_queue& q) {
    std::size_t n = 0;
    for (const auto& b : q.next_batch()) {
      EXPECT_TRUE(feed({static_cast<const std::byte*>(b.data()), b.size()})) << parser.failure().message;
      n += b.size();
    }
    q.written();
    return n;
  }
  bool has(std::uint64_t id) const {
    return std::any_of(got.begin(), got.end(), [&](const frame& f) { return f.id == id; });
  }
};

bool is_pattern(const frame& f) {
  const auto want = pattern(f.bytes, f.id);
  return std::equal(want.begin(), want.end(), f.payload.get());
}

TEST(net_send_order, random_frames_of_a_pair_stay_in_order_and_credit_is_exact) {
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 rng(seed);
    const std::uint64_t window = MiB << (rng() % 4);
    send_queue q;
    q.open(window);
    receiver r;
    std::map<std::uint64_t, std::uint32_t> source_of;
    std::array<std::uint64_t, frame_classes> owed{};
    std::uint64_t next = 0, credited = 0, cost_of_largest = 0;
    const std::uint64_t all = 60;
    while (r.got.size() < all) {
      for (std::uint64_t k = rng() % 4; k > 0 && next < all; --k, ++next) {
        const std::size_t size = rng() % 3 == 0 ? rng() % (3 * MiB) : rng() % 3 == 0 ? rng() % 70000 : rng() % 300;
        source_of[next] = static_cast<std::uint32_t>(rng() % 3);
        cost_of_largest = std::max<std::uint64_t>(cost_of_largest, frame_cost(size));
        q.push(drawn(source_of[next], static_cast<std::uint32_t>(rng() % 3), size, next), size);
      }
      const auto before = r.got.size();
      r.batch(q);
      for (auto i = before; i < r.got.size(); ++i)
        owed[static_cast<std::size_t>(class_of(r.got[i].bytes))] += frame_cost(r.got[i].bytes);
      EXPECT_LE(q.outstanding(), window + cost_of_largest + frame_cost(small_frame));
      for (std::size_t c = 0; c < frame_classes; ++c) {
        if (rng() % 2 == 0 || owed[c] == 0) continue;
        ASSERT_TRUE(q.credit(static_cast<frame_class>(c), owed[c]));
        owed[c] = 0;
      }
      ++credited;
      ASSERT_LT(credited, 10000U) << "no progress";
    }
    for (std::size_t c = 0; c < frame_classes; ++c) ASSERT_TRUE(q.credit(static_cast<frame_class>(c), owed[c]));
    EXPECT_EQ(q.outstanding(), 0U);
    EXPECT_TRUE(q.empty());
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> last;
    for (const frame& f : r.got) {
      ASSERT_TRUE(is_pattern(f)) << f.id;
      auto& before = last[{source_of[f.id], f.destination}];
      EXPECT_LT(before, f.id + 1);
      before = f.id + 1;
    }
  }
}

TEST(net_send_order, a_small_frame_behind_64_mib_is_sent_with_the_next_batch) {
  send_queue q;
  q.open(64 * MiB);
  receiver r;
  push(q, 1, 64 * MiB, 1);
  for (std::uint64_t id = 2; id < 30; ++id) {
    if (id > 2) r.batch(q);
    push(q, 2, 100, id);
    r.batch(q);
    EXPECT_TRUE(r.has(id)) << id;
    EXPECT_FALSE(r.has(1));
  }
  push(q, 1, 100, 77);
  r.batch(q);
  EXPECT_FALSE(r.has(77)) << "same pair: waits";
  while (r.batch(q) > 0) {
  }
  ASSERT_TRUE(r.has(1) && r.has(77));
  EXPECT_EQ(r.got.back().id, 77U);
}

TEST(net_send_order, small_frames_start_while_large_ones_have_used_up_their_part) {
  send_queue q;
  q.open(8 * MiB);
  receiver r;
  for (std::uint64_t id = 0; id < 10; ++id) push(q, 1, 2 * MiB, id);
  while (r.batch(q) > 0) {
  }
  EXPECT_EQ(r.got.size(), 4U) << "large frames have 7 MiB; one starts while 1 MiB is left";
  for (std::uint64_t id = 100; id < 200; ++id) push(q, 2, 60000, id);
  while (r.batch(q) > 0) {
  }
  EXPECT_EQ(r.got.size(), 4U + 18U) << "small frames have 1 MiB";
  EXPECT_FALSE(q.credit(frame_class::large, 4 * frame_cost(2 * MiB) + 1));
  EXPECT_TRUE(q.credit(frame_class::large, 4 * frame_cost(2 * MiB)));
  while (r.batch(q) > 0) {
  }
  EXPECT_EQ(r.got.size(), 8U + 18U) << "credit of large frames is for large frames";
}

TEST(net_send_order, equal_frames_are_sent_in_turn_and_a_shorter_one_overtakes) {
  send_queue q;
  q.open(1024 * MiB);
  receiver r;
  for (std::uint32_t i = 0; i < 4; ++i) push(q, i, 4 * MiB, i);
  for (int i = 0; i < 4; ++i) r.batch(q);
  ASSERT_EQ(r.got.size(), 1U) << "a whole frame, not a quarter of each";
  EXPECT_EQ(r.got[0].id, 0U);
  push(q, 7, 200 * MiB, 50);
  while (r.got.size() < 4) r.batch(q);
  r.batch(q);
  push(q, 8, 3 * MiB, 51);
  for (int i = 0; i < 7; ++i) r.batch(q);
  EXPECT_TRUE(r.has(51)) << "it gets half of the bytes";
  EXPECT_FALSE(r.has(50));
}

TEST(net_send_order, no_frame_starves) {
  send_queue q;
  q.open(~std::uint64_t{0} / 2);
  receiver r;
  push(q, 1, 20 * MiB, 1);
  int batches = 0;
  for (std::uint64_t id = 2; !r.has(1); ++batches) {
    for (int k = 0; k < 40; ++k) push(q, 2, 60000, id++);  // more small frames than a batch holds
    push(q, 3, 2 * MiB, id++);
    r.batch(q);
    ASSERT_LT(batches, 200);
  }
  EXPECT_GE(batches, 20);
  EXPECT_LE(batches, 60) << "the oldest frame gets about half";
}

TEST(net_send_order, at_most_eight_streams_are_open) {
  send_order o(true);
  o.open(std::uint64_t{1} << 40);
  // Each frame is shorter than all before it, so each would be sent first.
  for (std::uint32_t i = 0; i < 30; ++i) {
    const std::size_t size = (100 - 3 * i) * MiB;
    outgoing_frame f{1, 0, i, i, {}};
    o.push(std::move(f), size);
    auto* e = o.next();
    ASSERT_NE(e, nullptr);
    EXPECT_LE(e->stream, max_streams);
    EXPECT_GE(e->stream, 1);
    o.sent(MiB);
    EXPECT_LE(o.open_streams(), max_streams);
  }
  EXPECT_EQ(o.open_streams(), max_streams);
  std::size_t done = 0;
  while (auto* e = o.next()) done += o.sent(std::min<std::uint64_t>(e->left, MiB)) ? 1 : 0;
  EXPECT_EQ(done, 30U);
  EXPECT_TRUE(o.empty());
  EXPECT_EQ(o.open_streams(), 0U);
}

// --- chunks of several frames

struct chunk {
  frame_header h;
  bytes payload;
};

bytes sealed(const chunk& c) {
  bytes out(header_bytes);
  seal_header(c.h, std::array<std::span<const std::byte>, 1>{c.payload},
              std::span<std::byte, header_bytes>(out.data(), header_bytes));
  out.insert(out.end(), c.payload.begin(), c.payload.end());
  return out;
}

const bytes& original(std::uint64_t id, std::size_t size) {
  static std::map<std::pair<std::uint64_t, std::size_t>, bytes> made;
  auto& all = made[{id, size}];
  if (all.empty()) all = pattern(size, id);
  return all;
}

std::vector<chunk> chunks_of(std::uint64_t id, std::size_t size, std::uint8_t stream) {
  const auto& all = original(id, size);
  std::vector<chunk> out;
  for (std::size_t at = 0; at == 0 || at < size; at += max_chunk) {
    chunk c;
    c.h = {1, 0, static_cast<std::uint32_t>(id), 0, id, size - at, stream, at > 0};
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(at);
    c.payload.assign(from, from + static_cast<std::ptrdiff_t>(c.h.chunk()));
    out.push_back(std::move(c));
  }
  return out;
}

// Chunks of several streams, interleaved at random; each stream in order.
std::vector<chunk> mixed(std::mt19937_64& rng) {
  std::vector<std::deque<chunk>> ways;
  for (std::uint8_t s = 0; s <= 3; ++s) {
    auto& way = ways.emplace_back();
    for (std::uint64_t k = 0; k < 2; ++k)
      for (auto& c : chunks_of(s * 10U + k, s == 0 ? 100 + k : MiB * (k + 1) + s * 1000U, s)) way.push_back(std::move(c));
  }
  std::vector<chunk> out;
  for (std::size_t left = 0; true; left = 0) {
    for (const auto& w : ways) left += w.size();
    if (left == 0) return out;
    auto& way = ways[rng() % ways.size()];
    if (way.empty()) continue;
    out.push_back(std::move(way.front()));
    way.pop_front();
  }
}

TEST(net_streams, interleaved_chunks_become_the_frames_that_were_sent) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    std::mt19937_64 rng(seed);
    receiver r;
    for (const auto& c : mixed(rng)) ASSERT_TRUE(r.feed(sealed(c))) << r.parser.failure().message;
    EXPECT_EQ(r.got.size(), 8U);
    for (const auto& f : r.got) EXPECT_TRUE(is_pattern(f)) << f.id;
    r.got.clear();
    EXPECT_EQ(r.open_bytes, 0U);
  }
}

// Chunks with correct checksums in wrong places: dropped, repeated, swapped, moved to another
// stream, or with a changed header. Only frames that were sent are delivered, and at most eight are
// held.
TEST(net_streams, misplaced_chunks_deliver_only_frames_that_were_sent) {
  std::size_t failed = 0, delivered = 0;
  std::map<std::string, int> codes;
  for (std::uint64_t seed = 0; seed < 250; ++seed) {
    std::mt19937_64 rng(seed);
    auto all = mixed(rng);
    const auto at = rng() % all.size(), other = rng() % all.size();
    switch (rng() % 6) {
      case 0: all.erase(all.begin() + static_cast<std::ptrdiff_t>(at)); break;
      case 1: all.insert(all.begin() + static_cast<std::ptrdiff_t>(other), chunk(all[at])); break;
      case 2: std::swap(all[at], all[other]); break;
      case 3: all[at].h.stream = static_cast<std::uint8_t>(rng()); break;
      case 4: all[at].h.id = all[other].h.id; break;
      case 5: all[at].h.destination ^= 1U; break;
    }
    receiver r;
    bool alive = true;
    for (std::size_t i = 0; alive && i < all.size(); ++i) alive = r.feed(sealed(all[i]));
    if (!alive) ++failed, ++codes[r.parser.failure().code];
    ASSERT_LE(r.largest_sum, 30 * MiB);
    for (const auto& f : r.got) {
      ++delivered;
      // A frame of one chunk whose id or destination was changed is valid: the parser cannot know
      // better.
      if (f.bytes > max_chunk) {
        const auto& want = original(f.id, f.bytes);
        ASSERT_TRUE(std::equal(want.begin(), want.end(), f.payload.get())) << seed;
      }
    }
    r.got.clear();
    if (!alive) {
      ASSERT_EQ(r.open_bytes, 0U) << "a failed parser holds no memory";
    }
  }
  EXPECT_GT(failed, 100U);
  EXPECT_GT(delivered, 500U);
  EXPECT_GT(codes["bad_chunk"], 50);
  EXPECT_GT(codes["bad_stream"], 20);
}

TEST(net_streams, parser_fails_and_frees_all_streams_when_memory_is_refused) {
  std::size_t given = 0;
  std::vector<std::weak_ptr<std::byte>> watch;
  frame_parser p(1 << 30, [&](const frame_header& h) -> expected<std::shared_ptr<std::byte>, coded_error> {
    const auto n = static_cast<std::size_t>(h.length);
    if ((given += n) > 10 * MiB) return unexpected(coded_error{"credit_exceeded", ""});
    const std::shared_ptr<std::byte> made(new std::byte[n], std::default_delete<std::byte[]>());
    watch.push_back(made);
    return made;
  });
  p.allow_data(true);
  auto r = frame_parser::result::need_more;
  for (std::uint8_t s = 1; s <= max_streams && r != frame_parser::result::failed; ++s) {
    const bytes raw = sealed(chunks_of(s, 3 * MiB, s).front());
    std::span<const std::byte> in = raw;
    frame f;
    r = p.next(in, f);
  }
  EXPECT_EQ(p.failure().code, "credit_exceeded");
  EXPECT_EQ(watch.size(), 3U);
  for (const auto& w : watch) EXPECT_TRUE(w.expired());
}

}  // namespace
}  // namespace troupe::net::testing
