// Shared buffers between nodes of one machine: they are read in place, belong to the reader until
// it returns them or ends, and no input of a peer leads to reads outside them.
#include <sys/syscall.h>
#include <sys/wait.h>

#include "runtime/node/net/memory_sharing.hpp"
#include "tests/node/net_support.hpp"

namespace troupe::net::testing {
namespace {

constexpr std::size_t mebi = std::size_t{1} << 20;

std::shared_ptr<shared_arena> arena_of(std::uint64_t bytes = std::uint64_t{1} << 30) {
  auto made = shared_arena::make(bytes);
  if (!made) throw std::runtime_error(made.error().message);
  return *made;
}
std::function<void(tcp_options&)> shares(const std::shared_ptr<shared_arena>& a) {
  return [a](tcp_options& o) { o.shares = a; };
}

// A frame with a head and `n` bytes in the arena; `owner` shows when the bytes are released.
struct lying {
  slab at;
  std::shared_ptr<int> owner = std::make_shared<int>(0);
  lying(shared_arena& arena, std::size_t n, std::uint64_t seed) : at(arena.take(n)) {
    const auto b = pattern(n, seed);
    std::memcpy(at.data, b.data(), n);
  }
  outgoing_frame frame(std::size_t n) const {
    static const bytes head(64);
    outgoing_frame f{1, 0, 5, 0, {}};
    f.parts = {{head.data(), head.size(), nullptr},
               {nullptr, n, owner, at.region, static_cast<std::size_t>(at.data - at.region->base), true}};
    return f;
  }
};

std::vector<shared_buffer> sound_table() { return {{0, 4096, 100'000, 1}, {128'000, 0, 64, 2}, {192'064, 1 << 20, 1 << 20, 9}}; }

bytes with_rest(const std::vector<shared_buffer>& table, std::size_t rest) {
  auto out = encode_shared_buffers(table);
  out.resize(out.size() + rest);
  return out;
}

TEST(net_shared_buffers, a_table_round_trips) {
  const auto read = decode_shared_buffers(with_rest(sound_table(), 100'000), 2 << 20);
  ASSERT_TRUE(read);
  ASSERT_EQ(read->size(), 3U);
  EXPECT_EQ((*read)[2].at, 192'064U);
  EXPECT_EQ((*read)[2].offset, 1U << 20);
  EXPECT_EQ((*read)[2].bytes, 1U << 20);
  EXPECT_EQ((*read)[2].number, 9U);
  EXPECT_EQ(shared_table_bytes(3) % 64, 0U);
}

// docs/wire.md shows these bytes.
TEST(net_shared_buffers, a_table_has_the_documented_bytes) {
  bytes want(64);
  want[0] = std::byte{1};
  const unsigned char row[] = {0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0xa0, 0x86, 1, 0, 0, 0, 0, 0, 7};
  std::memcpy(want.data() + 32, row, sizeof row);
  EXPECT_EQ(encode_shared_buffers({{64, 4096, 100'000, 7}}), want);
  EXPECT_EQ(static_cast<std::uint16_t>(control_type::reads_shared), 0xff06);
  EXPECT_EQ(static_cast<std::uint16_t>(control_type::returned), 0xff07);
  frame_header h;
  h.type = 1, h.shares = true, h.length = 128;
  header_block raw;
  encode_header(h, raw);
  EXPECT_EQ(raw[3], std::byte{0x40});
}

TEST(net_shared_buffers, entries_outside_the_region_or_the_frame_are_refused) {
  const auto why = [](const std::function<void(std::vector<shared_buffer>&)>& change, std::size_t rest = 100'000) {
    auto t = sound_table();
    change(t);
    const auto read = decode_shared_buffers(with_rest(t, rest), 2 << 20);
    return read ? std::string() : read.error().code;
  };
  EXPECT_EQ(why([](auto&) {}), "");
  EXPECT_EQ(why([](auto& t) { t[0].offset = 4097; }), "bad_loan") << "not aligned";
  EXPECT_EQ(why([](auto& t) { t[0].at = 8; }), "bad_loan");
  EXPECT_EQ(why([](auto& t) { t[0].bytes = 0; }), "bad_loan");
  EXPECT_EQ(why([](auto& t) { t[2].offset += 64; }), "bad_loan") << "beyond the region by 64 bytes";
  EXPECT_EQ(why([](auto& t) { t[2].offset = ~std::uint64_t{63}; }), "bad_loan") << "offset + bytes overflows";
  EXPECT_EQ(why([](auto& t) { t[1].at = 64; }), "bad_loan") << "overlaps the entry before";
  EXPECT_EQ(why([](auto& t) { t[2].at = ~std::uint64_t{63}; }), "bad_loan");
  EXPECT_EQ(why([](auto&) {}, 10), "bad_loan") << "the frame is shorter than its entries state";
  EXPECT_EQ(why([](auto& t) { t.clear(); }), "bad_loan") << "an empty table";
}

// For any table: no buffer outside the region, outside the frame, or over another.
TEST(net_shared_buffers, mutated_tables_never_point_outside) {
  std::mt19937_64 rng(7);
  const std::uint64_t region = 2 << 20;
  int read = 0;
  for (int i = 0; i < 50'000; ++i) {
    auto b = with_rest(sound_table(), rng() % 200'000);
    for (auto n = 1 + rng() % 3; n > 0; --n) {
      auto& at = b[rng() % std::min<std::size_t>(b.size(), 192)];
      at = rng() % 2 ? static_cast<std::byte>(rng()) : at ^ static_cast<std::byte>(1U << (rng() % 8));
    }
    const auto entries = decode_shared_buffers(b, region);
    if (!entries) continue;
    ++read;
    std::uint64_t end = 0, gone = 0;
    const auto rest = b.size() - shared_table_bytes(entries->size());
    for (const auto& l : *entries) {
      ASSERT_LE(l.offset, region);
      ASSERT_LE(l.bytes, region - l.offset);
      ASSERT_GE(l.at, end);
      ASSERT_LE(l.at - gone + l.bytes % 64, rest);
      end = l.at + l.bytes;
      gone += l.bytes / 64 * 64;
    }
  }
  EXPECT_GT(read, 1000) << "some mutated tables must be accepted";
}

TEST(net_sharing, parts_in_the_arena_are_read_in_place) {
  const auto arena = arena_of();
  node a("a", shares(arena)), b("b", shares(arena_of()));
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  ASSERT_TRUE(a.eventually(5s, [&] { return a.stats_of("b").transport == "shm"; }));
  lying there(*arena, 4 * mebi, 3);
  // Frames before the peer's `reads_shared` are sent as bytes.
  frame f;
  for (int i = 0; i < 100 && f.shared.empty(); ++i) {
    ASSERT_TRUE(a.net->send("b", there.frame(4 * mebi)));
    f = b.take();
  }
  ASSERT_EQ(f.shared.size(), 1U);
  EXPECT_EQ(f.shared[0].at, 64U);
  EXPECT_TRUE(std::equal(f.shared[0].data.get(), f.shared[0].data.get() + 4 * mebi, there.at.data));
  there.at.data[1000] ^= std::byte{1};
  EXPECT_EQ(f.shared[0].data.get()[1000], there.at.data[1000]) << "it is the same memory";
  EXPECT_GE(b.stats_of("a").shared_in, 4 * mebi);
  EXPECT_EQ(arena->taken(), 4 * mebi) << "nothing was copied";
}

TEST(net_sharing, a_shared_buffer_is_kept_until_its_last_handle_is_dropped) {
  const auto arena = arena_of();
  node a("a", shares(arena)), b("b", shares(arena_of()));
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  frame f;
  std::weak_ptr<int> owner;
  for (int i = 0; i < 100 && f.shared.empty(); ++i) {
    lying there(*arena, mebi, 3);
    owner = there.owner;
    ASSERT_TRUE(a.net->send("b", there.frame(mebi)));
    f = b.take();
  }
  ASSERT_EQ(f.shared.size(), 1U);
  release_credit(f.payload);
  EXPECT_TRUE(b.eventually(5s, [&] { return b.stats_of("a").held == 0; })) << "the credit is returned while the buffer is read";
  const auto piece = f.shared[0].data;
  f = {};
  EXPECT_FALSE(owner.expired());
  EXPECT_EQ(std::memcmp(piece.get(), pattern(mebi, 3).data(), mebi), 0);
  const_cast<std::shared_ptr<const std::byte>&>(piece).reset();
  EXPECT_TRUE(a.eventually(5s, [&] { return owner.expired(); }));
}

// A reader that is cut off may still read: its buffers are neither freed nor reused until it
// returns them.
TEST(net_sharing, a_disconnected_reader_keeps_its_buffers_and_returns_them_later) {
  const auto arena = arena_of();
  node a("a", shares(arena)), b("b", shares(arena_of()));
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  frame f;
  std::weak_ptr<int> owner;
  for (int i = 0; i < 100 && f.shared.empty(); ++i) {
    lying there(*arena, mebi, 3);
    owner = there.owner;
    ASSERT_TRUE(a.net->send("b", there.frame(mebi)));
    f = b.take();
  }
  ASSERT_EQ(f.shared.size(), 1U);
  a.net->disconnect("b");
  ASSERT_TRUE(a.wait_down("b", 5s));
  ASSERT_TRUE(b.wait_down("a", 5s));
  EXPECT_FALSE(owner.expired());
  a.net->connect("b", {"127.0.0.1", b.port}, 10s);
  ASSERT_TRUE(a.wait_up("b", 2));
  ASSERT_TRUE(b.wait_up("a", 2));
  EXPECT_EQ(std::memcmp(f.shared[0].data.get(), pattern(mebi, 3).data(), mebi), 0);
  EXPECT_FALSE(owner.expired());
  f = {};
  EXPECT_TRUE(a.eventually(5s, [&] { return owner.expired(); }));
  EXPECT_TRUE(a.downs["b"].size() == 1);
}

TEST(net_sharing, buffers_of_a_process_that_has_ended_are_freed) {
  const auto arena = arena_of();
  const auto child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  memory_file::descriptor watch(static_cast<int>(::syscall(SYS_pidfd_open, child, 0U)));
  ASSERT_TRUE(watch);
  const auto l = std::make_shared<shared_buffers>(arena, buffer_pool::make(0, arena), std::move(watch));
  {
    auto f = frame_of(pattern(mebi + 64, 1));
    l->share(f);
    ASSERT_TRUE(f.shared);
    f.shared->sent = true;
  }
  EXPECT_FALSE(l->none());
  EXPECT_FALSE(l->reader_ended());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(l->reader_ended());
  l->forget();
  EXPECT_TRUE(l->none());
  EXPECT_EQ(arena->taken(), 0U);
}

TEST(net_sharing, buffers_of_a_frame_that_is_not_sent_are_taken_back) {
  const auto arena = arena_of();
  const auto l = std::make_shared<shared_buffers>(arena, buffer_pool::make(0, arena), memory_file::descriptor());
  {
    auto f = frame_of(pattern(mebi + 64, 1));
    l->share(f);
    ASSERT_TRUE(f.shared);
    EXPECT_EQ(f.shared->shared, mebi);
    EXPECT_EQ(f.shared->inside, shared_table_bytes(1) + 64);
    EXPECT_FALSE(l->none());
  }
  EXPECT_TRUE(l->none());
  EXPECT_EQ(arena->taken(), 0U);
}

TEST(net_sharing, parts_that_cannot_be_shared_are_sent_as_bytes) {
  const auto arena = arena_of(mebi);
  const auto l = std::make_shared<shared_buffers>(arena, buffer_pool::make(0, arena), memory_file::descriptor());
  auto small = frame_of(pattern(64 + share_from - 1, 1));
  l->share(small);
  EXPECT_FALSE(small.shared);
  auto odd = frame_of(pattern(2 * share_from, 1));
  static const bytes three(3);
  odd.parts.insert(odd.parts.begin(), {three.data(), 3, nullptr});
  l->share(odd);
  EXPECT_FALSE(odd.shared) << "its offset is not a multiple of 64";
  auto unmarked = frame_of(pattern(64 + 2 * share_from, 1));
  unmarked.parts[1].may_be_shared = false;
  l->share(unmarked);
  EXPECT_FALSE(unmarked.shared) << "the part is not marked";
  auto large = frame_of(pattern(64 + 2 * mebi, 1));
  l->share(large);
  EXPECT_FALSE(large.shared) << "larger than the arena";
  EXPECT_EQ(large.parts.size(), 2U);
  EXPECT_TRUE(l->none());
}

TEST(net_sharing, a_peer_without_shared_memory_is_sent_bytes) {
  node a("a", shares(arena_of())), b("b");
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  ASSERT_TRUE(a.net->send("b", frame_of(pattern(mebi, 1))));
  const auto f = b.take();
  EXPECT_TRUE(f.shared.empty());
  EXPECT_EQ(whole(f), pattern(mebi, 1));
  EXPECT_EQ(a.stats_of("b").transport, "tcp");
}

// An authenticated peer that can violate the protocol. `adjust` changes the memory in its hello.
class net_sharing_rude : public ::testing::Test {
 protected:
  std::shared_ptr<shared_arena> theirs = arena_of(16 * mebi);
  node a{"a", shares(arena_of())};
  std::unique_ptr<raw_client> meet(const std::function<void(memory_at&)>& adjust = {}) {
    a.listen();
    auto c = std::make_unique<raw_client>(a.port);
    EXPECT_TRUE(c->handshake(certificates() / "good" / "b"));
    EXPECT_TRUE(c->greet("b", [&](hello& h) {
      h.memory = theirs->where();
      if (adjust) adjust(h.memory);
    }));
    EXPECT_TRUE(a.wait_up("b"));
    return c;
  }
  void send(raw_client& c, const std::vector<shared_buffer>& table, std::size_t rest) {
    frame_header h;
    h.type = 1;
    h.shares = true;
    c.write_frame(h, with_rest(table, rest));
  }
  std::string end() {
    EXPECT_TRUE(a.wait_down("b", 5s));
    return a.downs["b"].empty() ? "" : a.downs["b"][0].code;
  }
};

TEST_F(net_sharing_rude, a_valid_shared_buffer_is_accepted_and_returned) {
  auto c = meet();
  send(*c, {{64, 4096, mebi, 77}}, 64);
  ASSERT_TRUE(a.wait_frames(1));
  auto f = a.take();
  EXPECT_EQ(whole(f).size(), 64 + mebi);
  f = {};
  bool said = false;
  for (int i = 0; i < 20 && !said; ++i)
    if (const auto r = c->read(); r && r->type == static_cast<std::uint16_t>(control_type::returned)) {
      std::uint64_t number = 0;
      std::memcpy(&number, r->payload.get(), sizeof number);
      said = number == 77;
    }
  EXPECT_TRUE(said) << "returned by its number";
}

TEST_F(net_sharing_rude, a_buffer_outside_the_peers_memory_ends_the_connection) {
  auto c = meet();
  send(*c, {{64, 16 * mebi - 64, mebi, 1}}, 64);
  EXPECT_EQ(end(), "bad_loan");
  EXPECT_TRUE(a.frames.empty());
}

TEST_F(net_sharing_rude, a_buffer_of_a_peer_without_memory_ends_the_connection) {
  auto c = meet([](memory_at& m) { m = {}; });
  send(*c, {{64, 0, mebi, 1}}, 64);
  EXPECT_EQ(end(), "bad_loan");
}

TEST_F(net_sharing_rude, returning_an_unknown_buffer_ends_the_connection) {
  auto c = meet();
  bytes number(8);
  number[0] = std::byte{5};
  c->write_control(control_type::returned, number);
  EXPECT_EQ(end(), "bad_loan");
}

TEST_F(net_sharing_rude, memory_that_does_not_match_the_hello_is_not_read) {
  std::size_t round = 0;
  for (const std::function<void(memory_at&)>& lie : std::initializer_list<std::function<void(memory_at&)>>{
           [](memory_at& m) { m.token ^= 1; }, [](memory_at& m) { m.where.machine = "elsewhere"; },
           [](memory_at& m) { m.where.process = 1; }, [](memory_at& m) { m.where.descriptor = 0; },
           [](memory_at& m) { m.bytes += 4096; }, [](memory_at& m) { m.bytes = ~std::uint64_t{4095}; },
           [](memory_at& m) { m.bytes = 100; }}) {
    node n("a", shares(arena_of()));
    n.listen();
    raw_client c(n.port);
    ASSERT_TRUE(c.handshake(certificates() / "good" / "b"));
    ASSERT_TRUE(c.greet("b", [&](hello& h) {
      h.memory = theirs->where();
      lie(h.memory);
    }));
    ASSERT_TRUE(n.wait_up("b"));
    const auto s = n.stats_of("b");
    EXPECT_EQ(s.transport, "tcp") << round;
    EXPECT_NE(s.why_not.find("cannot be read here"), std::string::npos) << round << ": " << s.why_not;
    ++round;
  }
}

TEST(net_arena, slabs_never_overlap_and_their_pages_return_to_the_system) {
  const auto arena = arena_of(64 * mebi);
  std::mt19937_64 rng(3);
  std::vector<std::pair<slab, std::byte>> out;
  for (int i = 0; i < 3000; ++i) {
    if (out.size() > 20 || (!out.empty() && rng() % 2)) {
      const auto k = rng() % out.size();
      const auto [s, mark] = out[k];
      ASSERT_TRUE(s.data[0] == mark && s.data[s.bytes - 1] == mark) << "no other slab wrote there";
      arena->give_back(s);
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(k));
      continue;
    }
    auto s = arena->take(1 + rng() % (rng() % 2 ? 10'000 : 4 * mebi));
    if (!s.data) continue;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(s.data) % 64, 0U);
    const auto mark = static_cast<std::byte>(rng());
    s.data[0] = s.data[s.bytes - 1] = mark;
    out.emplace_back(s, mark);
  }
  for (const auto& [s, mark] : out) arena->give_back(s);
  EXPECT_EQ(arena->taken(), 0U);
  const auto all = arena->take(64 * mebi);
  EXPECT_TRUE(all.data) << "all space is free again";
  EXPECT_EQ(all.data[mebi], std::byte{0}) << "pages have gone back to the system";
}

}  // namespace
}  // namespace troupe::net::testing
