// Tests of a daemon's router with a transport that accepts everything: which messages it refuses,
// and which errors it reports.
#include "actors/shell/router.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/cpu/block_pool.hpp"
#include "ops/device.hpp"
#include "ops/region_of.hpp"
#include "tests/error_text.hpp"
#include "tests/ops/mapped_arena.hpp"

namespace troupe {
namespace {

class taking_transport final : public net::transport {
 public:
  expected<std::uint16_t, coded_error> listen(const net::address&) override { return std::uint16_t{1}; }
  void connect(const std::string&, const net::address&, std::chrono::milliseconds) override {}
  bool send(std::string_view, net::outgoing_frame&& f) override { return last = std::move(f), ++taken, up; }
  void disconnect(const std::string&) override {}
  void limit(const std::string&, std::uint64_t) override {}
  net::transport_stats stats() const override { return {}; }
  void close() override {}
  int taken = 0;
  net::outgoing_frame last;
  bool up = true;
};

envelope weights_of(const std::shared_ptr<device>& dev, std::int64_t elements) {
  envelope e;
  e.h.job = 7;
  e.h.src = role_id{0};
  e.h.dst = role_id{1};
  auto t = tensor::allocate(dev->host(), {elements}, dtype::f32);
  dev->host().fill(0, t);
  t.freeze();
  e.body = weights{3, std::move(t)};
  return e;
}

// A received message: its bytes, in one block.
struct outgoing {
  std::uint16_t type = 0;
  std::vector<std::byte> bytes;

  std::shared_ptr<std::byte> block() const {
    std::shared_ptr<std::byte> at(static_cast<std::byte*>(::operator new (bytes.size(), std::align_val_t{wire_alignment})),
                                  [](std::byte* p) { ::operator delete (p, std::align_val_t{wire_alignment}); });
    std::copy(bytes.begin(), bytes.end(), at.get());
    return at;
  }
};
outgoing bytes_of(const envelope& e) {
  outgoing out{1, {}};
  for (const auto& p : encode(e)) {
    const auto* at = static_cast<const std::byte*>(p.data);
    out.bytes.insert(out.bytes.end(), at, at + p.bytes);
  }
  return out;
}

// If such a message were dropped silently, the job would wait without end.
TEST(router, send_returns_an_error_when_a_message_is_too_large) {
  const std::shared_ptr<device> dev = make_cpu_device();
  taking_transport net;
  router r(4096);
  r.attach(&net, nullptr);
  r.open(7, {"n1", "n2"}, {0, 1});
  EXPECT_TRUE(r.send(1, weights_of(dev, 900)));
  EXPECT_EQ(net.taken, 1);
  const auto why = test::error_text(r.send(1, weights_of(dev, 1024)));
  EXPECT_NE(why.find("role 0: its message 'weights' to node n2 has 4"), std::string::npos) << why;
  EXPECT_NE(why.find("the maximum is 4096"), std::string::npos) << why;
  EXPECT_EQ(net.taken, 1);
  net.up = false;
  EXPECT_TRUE(r.send(1, weights_of(dev, 900))) << "the end of a peer is reported elsewhere";
  EXPECT_EQ(r.counts().unsent, 2u);
}

TEST(router, sends_a_tensor_in_a_region_as_a_part_with_its_pair_of_roles) {
  const auto pool = std::make_shared<cpu::block_pool>(std::make_shared<test::mapped_arena>(1 << 20));
  taking_transport net;
  router r;
  r.attach(&net, nullptr);
  r.open(7, {"n1", "n2"}, {0, 1, 1, 1});
  envelope e;
  e.h.job = 7;
  e.h.src = role_id{2};
  e.h.dst = role_id{3};
  auto t = tensor::view(pool->allocate(4096), 0, {1024}, dtype::f32);
  std::fill_n(t.mutable_data<float>(), 1024, 1.5F);
  t.freeze();
  const auto* const at = static_cast<const std::byte*>(t.raw());
  const auto region = region_of(t);
  e.body = weights{3, std::move(t)};
  EXPECT_TRUE(r.send(1, std::move(e)));
  EXPECT_EQ(std::make_pair(net.last.source, net.last.destination), std::make_pair(2U, 3U));
  const auto& p = net.last.parts.back();
  ASSERT_EQ(p.region, region);
  EXPECT_EQ(p.region->base + p.offset, at);
  EXPECT_EQ(p.bytes, 4096U);
  EXPECT_EQ(net.last.parts.front().region, nullptr) << "the header is in heap memory";
}

net::frame received(const outgoing& sent) { return {sent.type, 0, 0, 0, sent.bytes.size(), sent.block()}; }

// If a frame that cannot be decoded were dropped silently, the job would wait without end, so it
// ends the connection.
TEST(router, names_peer_message_and_sizes_when_a_frame_cannot_be_decoded) {
  router r;
  r.open(7, {"n1", "n2"}, {0, 1});
  auto sent = bytes_of({{.job = 7, .src = role_id{1}, .dst = role_id{0}}, inventory{7, {{1, 2}}, {}}});
  sent.bytes.push_back(std::byte{0});
  const auto refused = r.receive("n2", received(sent));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, net::unreadable_frame);
  EXPECT_EQ(refused.error().message, "[net] n2 sent a frame that cannot be decoded (type 1, " + std::to_string(sent.bytes.size()) +
                                         " bytes, 0 of them shared): inventory: trailing bytes after the payload");
  sent.type = 2;
  EXPECT_FALSE(r.receive("n2", received(sent)));
  auto without = bytes_of({{.job = 7, .src = role_id{1}, .dst = role_id{0}}, weights{3, tensor::declare({4}, dtype::f32)}});
  const auto empty = r.receive("n2", received(without));
  ASSERT_FALSE(empty);
  EXPECT_NE(empty.error().message.find("weights: a tensor has no values"), std::string::npos) << empty.error().message;
  EXPECT_EQ(r.counts().unreadable, 3U);
}

// Both happen in working clusters: a job has just ended, or its roles have just moved.
TEST(router, counts_and_drops_a_message_when_its_job_or_its_source_is_not_known) {
  host_config config;
  config.threads = 1;
  const auto host = std::make_unique<node_host>(std::move(config));
  taking_transport net;
  router r;
  r.attach(&net, host.get());
  r.open(7, {"n1", "n2", "n3"}, {0, 1, 2});
  const auto sound = [](std::uint32_t job, std::uint32_t from) {
    return received(bytes_of({{.job = job, .src = role_id{from}, .dst = role_id{0}}, credit{1}}));
  };
  EXPECT_TRUE(r.receive("n2", sound(8, 1)));
  EXPECT_TRUE(r.receive("n2", sound(7, 2))) << "this role runs on n3";
  EXPECT_TRUE(r.receive("n2", sound(7, 9))) << "there is no such role";
  EXPECT_TRUE(r.receive("n2", sound(7, 1)));
  EXPECT_EQ(r.counts().unknown_job, 1U);
  EXPECT_EQ(r.counts().wrong_source, 2U);
  EXPECT_EQ(r.counts().received, 1U);
  EXPECT_EQ(r.counts().unreadable, 0U);
}

}  // namespace
}  // namespace troupe
