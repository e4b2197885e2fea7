// Further conformance tests: parts in regions, order within pairs and overtaking, the limit of the
// queue, counters.
#include <sys/mman.h>

#include <atomic>
#include <future>

#include "tests/node/transport_conformance.hpp"
#include "tests/ops/mapped_arena.hpp"

namespace troupe::net::testing {
namespace {

using namespace std::chrono_literals;
using troupe::test::mapped_arena;
using troupe::test::mapped_region;

std::shared_ptr<mapped_region> filled_region(std::size_t n, std::uint64_t seed) {
  auto r = std::make_shared<mapped_region>(n);
  const auto p = pattern(n, seed);
  std::copy(p.begin(), p.end(), r->base);
  return r;
}
const_part piece(const std::shared_ptr<mapped_region>& r, std::size_t offset, std::size_t n) {
  return {nullptr, n, nullptr, r, offset, true};
}

outgoing_frame frame_to(std::uint32_t destination, std::size_t size, std::uint64_t id, std::uint32_t source = 0) {
  auto f = frame_of(pattern(size, id), id, 1, destination);
  f.source = source;
  return f;
}

// Blocks the callback thread of node `at` until open(): frames that are sent meanwhile wait.
class gate {
 public:
  explicit gate(node& at) {
    at.when_frame = [this, &at](const std::string& peer, frame&& f) -> expected<void, coded_error> {
      if (f.id == id) {
        inside_.set_value();
        opened_.get_future().wait();
        return {};
      }
      const std::lock_guard lock(at.mutex);
      at.frames.push_back({peer, std::move(f)});
      at.changed.notify_all();
      return {};
    };
  }
  bool closed() { return inside_.get_future().wait_for(10s) == std::future_status::ready; }
  void open() { opened_.set_value(); }
  static constexpr std::uint64_t id = 123456;

 private:
  std::promise<void> inside_, opened_;
};

// The sums of each transport, by its name.
std::map<std::string, peer_stats> by_transport(const transport_stats& s) {
  std::map<std::string, peer_stats> out;
  for (const auto& p : s.peers) {
    auto& sum = out[p.transport];
    sum.transport = p.transport;
    sum.up = sum.up || p.up;
    sum.bytes_in += p.bytes_in, sum.bytes_out += p.bytes_out;
    sum.frames_in += p.frames_in, sum.frames_out += p.frames_out;
    sum.shared_in += p.shared_in;
    sum.queued_bytes += p.queued_bytes, sum.queued_frames += p.queued_frames;
    sum.unreturned += p.unreturned;
    sum.held += p.held;
  }
  return out;
}

TEST_P(transport_conformance, parts_by_pointer_and_in_regions_make_one_payload) {
  node a("a"), b("b");
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  const auto r = filled_region(4 << 20, 1);
  const auto head = std::make_shared<const bytes>(pattern(777, 2));
  outgoing_frame f;
  f.type = 1;
  f.parts = {{head->data(), 70, head},       piece(r, 100, 5000),     piece(r, r->bytes, 0), {nullptr, 0, nullptr},
             {head->data() + 70, 707, head}, piece(r, 12345, 3 << 20)};
  bytes want;
  for (const auto& p : f.parts) {
    const auto* at = p.region ? p.region->base + p.offset : static_cast<const std::byte*>(p.data);
    if (p.bytes > 0) want.insert(want.end(), at, at + p.bytes);
  }
  ASSERT_TRUE(a.net->send("b", std::move(f)));
  EXPECT_TRUE(same(b.take(), want));
  ASSERT_TRUE(a.net->send("b", {1, 0, 5, 9, {piece(r, 64, 0)}}));
  EXPECT_TRUE(same(b.take(), {}));
}

TEST_P(transport_conformance, parts_outside_their_region_are_refused_and_never_read) {
  node a("a"), b("b");
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  const auto r = std::make_shared<mapped_region>(4096);
  ASSERT_EQ(::mprotect(r->base, r->bytes, PROT_NONE), 0);  // a read would crash
  const auto refused = [&](const const_part& p) { return !a.net->send("b", {1, 0, 5, 9, {piece(r, 0, 0), p}}); };
  EXPECT_TRUE(refused(piece(r, 0, 4097)));
  EXPECT_TRUE(refused(piece(r, 4096, 1)));
  EXPECT_TRUE(refused(piece(r, 5000, 0)));
  EXPECT_TRUE(refused(piece(r, ~std::size_t{0}, 2))) << "offset + bytes overflows to 1";
  EXPECT_TRUE(refused(piece(r, 1, ~std::size_t{0})));
  EXPECT_TRUE(refused({nullptr, 1, nullptr}));
  const auto device = std::make_shared<mapped_region>(4096, memory_kind::device);
  ASSERT_EQ(::mprotect(device->base, device->bytes, PROT_NONE), 0);
  EXPECT_TRUE(refused(piece(device, 0, 4096)));
  EXPECT_TRUE(a.wait_log("exceed a region of 4096", 1s));
  ASSERT_TRUE(a.net->send("b", frame_of(pattern(100, 1), 7)));
  EXPECT_EQ(b.take().id, 7U) << "only the frame was refused";
  EXPECT_TRUE(a.eventually(5s, [&] { return a.stats_of("b").queued_bytes == 0; }));
  EXPECT_TRUE(a.downs.empty());
}

TEST_P(transport_conformance, a_region_is_kept_until_the_last_handle_of_its_bytes_is_dropped) {
  node b("b");
  b.listen();
  std::weak_ptr<mapped_region> watch;
  frame got;
  {
    node a("a");
    ASSERT_TRUE(join(a, b, "a", "b"));
    auto r = filled_region(1 << 20, 5);
    watch = r;
    auto owner = std::make_shared<int>(1);
    const std::weak_ptr<int> owned = owner;
    ASSERT_TRUE(a.net->send("b", {1, 0, 5, 9, {{nullptr, r->bytes, owner, r, 0, true}}}));
    r.reset();
    owner.reset();
    got = b.take();
    EXPECT_EQ(b.stats_of("a").shared_in, got.shared.empty() ? 0U : 1U << 20);
    EXPECT_TRUE(a.eventually(5s, [&] { return watch.expired() && owned.expired(); })) << "the payload is a copy";
    a.net->close();
  }
  b.net->close();
  EXPECT_TRUE(same(got, pattern(1 << 20, 5))) << "the payload may outlive both transports";
  auto copy = got.payload;
  got = {};
  EXPECT_TRUE(watch.expired());
  release_credit(copy);
  copy.reset();
  EXPECT_TRUE(watch.expired());
}

TEST_P(transport_conformance, payloads_are_aligned_at_any_offset_in_a_region) {
  node a("a"), b("b");
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  const auto r = filled_region(1 << 16, 5);
  for (const std::size_t offset : {0, 1, 63, 64, 4096}) {
    ASSERT_TRUE(a.net->send("b", {1, 0, 5, 9, {piece(r, offset, 1000)}}));
    const frame f = b.take();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(f.payload.get()) % 64, 0U);
    EXPECT_TRUE(same(f, bytes(r->base + offset, r->base + offset + 1000))) << offset;
  }
}

TEST_P(transport_conformance, parts_in_regions_are_charged_to_the_window) {
  node a("a"), b("b", [](tcp_options&o) { o.window = 4 << 20; });
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  const auto r = filled_region(1 << 20, 5);
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(a.net->send("b", {1, 0, 5, i, {piece(r, 0, r->bytes)}}));
  for (std::size_t done = 0; done < 20;) {
    ASSERT_TRUE(b.wait(10s, [&] { return b.frames.size() > done; }));
    EXPECT_LE(b.stats_of("a").held, 5U << 20);
    EXPECT_LE(a.stats_of("b").unreturned, 5U << 20);
    const std::lock_guard lock(b.mutex);
    for (; done < b.frames.size(); ++done) release_credit(b.frames[done].f.payload);
  }
  EXPECT_TRUE(a.eventually(5s, [&] { return a.stats_of("b").unreturned < 2U << 20; }));
}

TEST_P(transport_conformance, received_payloads_are_in_the_given_arena_while_it_has_space) {
  const auto arena = std::make_shared<mapped_arena>(1 << 20);
  {
    node a("a"), b("b", [&](tcp_options&o) { o.memory = arena; });
    b.listen();
    ASSERT_TRUE(join(a, b, "a", "b"));
    std::vector<frame> held;
    for (std::uint64_t i = 0; i < 8; ++i) {
      // A part at an odd offset is not shared.
      auto sent = frame_of(pattern(200000, i), i);
      sent.parts = {const_part{sent.parts[0].data, 1, sent.parts[0].owner},
                    const_part{static_cast<const std::byte*>(sent.parts[0].data) + 1, 199999, sent.parts[0].owner}};
      ASSERT_TRUE(a.net->send("b", std::move(sent)));
      held.push_back(b.take());
      EXPECT_TRUE(same(held.back(), pattern(200000, i)));
    }
    std::size_t inside = 0;
    for (const auto& f : held)
      inside += f.payload.get() >= arena->region()->base && f.payload.get() < arena->region()->base + (1 << 20);
    EXPECT_EQ(inside, 4U) << "there is room for four, the others are on the heap";
    a.net->close();
    b.net->close();
    EXPECT_GT(arena->taken(), 0U);
  }
  EXPECT_TRUE(arena->whole());
}

TEST_P(transport_conformance, order_is_kept_for_each_pair_of_source_and_destination) {
  node a("a"), b("b");
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  std::mt19937_64 rng(11);
  constexpr std::uint64_t all = 600;
  for (std::uint64_t id = 0; id < all; ++id) {
    const std::size_t size = id % 10 == 0 ? rng() % (4 << 20) : id % 3 == 0 ? rng() % 100000 : rng() % 200;
    const auto source = static_cast<std::uint32_t>(rng() % 3);
    ASSERT_TRUE(a.net->send("b", frame_to(static_cast<std::uint32_t>(rng() % 3), size, id * 4 + source, source)));
  }
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint64_t> last;
  for (std::uint64_t i = 0; i < all; ++i) {
    const frame f = b.take();
    const auto came = whole(f);
    ASSERT_TRUE(came == pattern(came.size(), f.id)) << i;
    auto& before = last[{f.id % 4, f.destination}];
    EXPECT_LT(before, f.id + 1);
    before = f.id + 1;
  }
  EXPECT_EQ(last.size(), 9U);
}

TEST_P(transport_conformance, a_small_frame_does_not_wait_behind_a_huge_one_of_another_pair) {
  arena_bytes_ = 1 << 20;  // too small for the large frame: a shared one would not wait for its bytes
  node a("a"), b("b");
  gate g(b);
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  ASSERT_TRUE(a.net->send("b", frame_to(1, 10, gate::id)));
  ASSERT_TRUE(g.closed());
  ASSERT_TRUE(a.net->send("b", frame_to(2, 64 << 20, 1)));
  ASSERT_TRUE(a.net->send("b", frame_to(2, 100, 2)));
  ASSERT_TRUE(a.net->send("b", frame_to(3, 100, 3)));
  ASSERT_TRUE(a.net->send("b", frame_to(2, 100, 4, 1)));
  g.open();
  ASSERT_TRUE(b.wait_frames(4));
  EXPECT_EQ(b.frames[0].f.id, 3U);
  EXPECT_EQ(b.frames[1].f.id, 4U) << "from another source to the same destination";
  EXPECT_EQ(b.frames[2].f.id, 1U);
  EXPECT_EQ(b.frames[3].f.id, 2U) << "frames of one pair stay in order";
  EXPECT_TRUE(same(b.frames[2].f, pattern(64 << 20, 1)));
}

TEST_P(transport_conformance, small_frames_arrive_while_large_ones_wait_for_the_window) {
  node a("a"), b("b", [](tcp_options&o) { o.window = 4 << 20; });
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(a.net->send("b", frame_to(1, 1 << 20, i)));
  ASSERT_TRUE(b.wait_frames(4));  // all of them are held
  for (std::uint64_t i = 10; i < 15; ++i) ASSERT_TRUE(a.net->send("b", frame_to(2, 1000, i)));
  ASSERT_TRUE(b.wait(10s, [&] { return b.frames.size() >= 9 && b.frames.back().f.id == 14; }));
  EXPECT_EQ(b.frames.size(), 9U);
}

TEST_P(transport_conformance, empty_frames_count_for_the_queue_limit) {
  node a("a", [](tcp_options&o) { o.max_queued = 1 << 20; }), b("b", [](tcp_options&o) { o.window = 1 << 16; });
  b.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  bool took = true;
  for (std::uint64_t i = 0; took && i < 100000; ++i) took = a.net->send("b", frame_to(1, 0, i));
  EXPECT_FALSE(took);
  ASSERT_TRUE(a.wait_down("b", 5s));
  EXPECT_EQ(a.downs["b"][0].code, "queue_full");
}

TEST_P(transport_conformance, counters_are_summed_for_each_transport) {
  node a("a"), b("b"), c("c");
  b.listen();
  c.listen();
  ASSERT_TRUE(join(a, b, "a", "b"));
  ASSERT_TRUE(join(a, c, "a", "c"));
  ASSERT_TRUE(a.net->send("b", frame_to(1, 1000, 1)));
  ASSERT_TRUE(a.net->send("c", frame_to(1, 3000, 2)));
  ASSERT_TRUE(b.wait_frames(1) && c.wait_frames(1));
  const auto sums = [&] { return by_transport(a.net->stats()); };
  ASSERT_TRUE(a.eventually(5s, [&] { return sums()[GetParam()].frames_out == 2; }));
  ASSERT_EQ(sums().size(), 1U);
  const auto s = sums().begin()->second;
  EXPECT_TRUE(s.up);
  EXPECT_EQ(s.bytes_out, 4000 + 2 * header_bytes);
  EXPECT_EQ(s.unreturned, 4000 + 2 * frame_overhead) << "both are held";
  EXPECT_EQ(s.queued_bytes + s.queued_frames + s.frames_in + s.bytes_in + s.held, 0U);
  EXPECT_EQ(by_transport(b.net->stats()).begin()->second.held, 1000 + frame_overhead);
}

}  // namespace
}  // namespace troupe::net::testing
