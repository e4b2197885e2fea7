// The router of a daemon, with a transport that takes everything: what it refuses to send, and what it says then.
#include "actors/shell/router.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/cpu/block_pool.hpp"
#include "ops/device.hpp"
#include "ops/region_of.hpp"
#include "tests/ops/mapped_arena.hpp"

namespace troupe {
namespace {

class taking_transport final : public net::transport {
 public:
  net::expected<std::uint16_t> listen(const net::address&) override { return std::uint16_t{1}; }
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
  auto t = tensor::allocate(*dev, {elements}, dtype::f32);
  dev->fill(0, t);
  t.freeze();
  e.body = weights{3, std::move(t)};
  return e;
}

// A message that is dropped without a word leaves a job waiting for ever.
TEST(router, a_message_that_is_too_large_is_an_error_of_the_job) {
  const std::shared_ptr<device> dev = make_cpu_device();
  taking_transport net;
  router r(4096);
  r.attach(&net, nullptr);
  r.open(7, {"n1", "n2"}, {0, 1});
  EXPECT_EQ(r.send(1, weights_of(dev, 900)), "");
  EXPECT_EQ(net.taken, 1);
  const auto why = r.send(1, weights_of(dev, 1024));
  EXPECT_NE(why.find("role 0: its message 'weights' to node n2 has 4"), std::string::npos) << why;
  EXPECT_NE(why.find("one may have 4096"), std::string::npos) << why;
  EXPECT_EQ(net.taken, 1);
  net.up = false;
  EXPECT_EQ(r.send(1, weights_of(dev, 900)), "") << "others know of a peer that is gone";
  EXPECT_EQ(r.counts().unsent, 2u);
}

TEST(router, a_tensor_in_a_region_goes_as_a_piece_of_it_and_the_pair_of_roles_decides_the_order) {
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
  EXPECT_EQ(r.send(1, std::move(e)), "");
  EXPECT_EQ(std::make_pair(net.last.source, net.last.destination), std::make_pair(2U, 3U));
  const auto& p = net.last.parts.back();
  ASSERT_EQ(p.region, region);
  EXPECT_EQ(p.region->base + p.offset, at);
  EXPECT_EQ(p.bytes, 4096U);
  EXPECT_EQ(net.last.parts.front().region, nullptr) << "the head lies on the heap";
}

}  // namespace
}  // namespace troupe
