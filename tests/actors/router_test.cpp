// The router of a daemon, with a transport that takes everything: what it refuses to send, and what it says then.
#include "actors/shell/router.hpp"

#include <gtest/gtest.h>

#include "ops/device.hpp"

namespace troupe {
namespace {

class taking_transport final : public net::transport {
 public:
  net::expected<std::uint16_t> listen(const net::address&) override { return std::uint16_t{1}; }
  void connect(const std::string&, const net::address&, std::chrono::milliseconds) override {}
  bool send(std::string_view, net::outgoing_frame&&) override { return ++taken, up; }
  void disconnect(const std::string&) override {}
  net::transport_stats stats() const override { return {}; }
  void close() override {}
  int taken = 0;
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

}  // namespace
}  // namespace troupe
