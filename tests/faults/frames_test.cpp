// Promise 16 (docs/promises.md): mutated frames at every port of a running daemon, from
// unauthenticated clients, from clients and from a node with a valid certificate. The daemon
// continues and needs no more memory and no more descriptors. TROUPE_LIVE_FRAMES sets the number of
// frames; nightly 1000000.
#include <cstdlib>

#include "runtime/messages/fits.hpp"
#include "tests/cluster/message_samples.hpp"
#include "tests/cluster/processes.hpp"
#include "tests/environment.hpp"
#include "tests/faults/memory_of.hpp"
#include "tests/mutated.hpp"
#include "tests/node/net_support.hpp"
#include "tests/runtime/exchange/exchange_samples.hpp"
#include "tests/runtime/messages/wire_samples.hpp"

namespace troupe::testing_cluster {
namespace {

using net::testing::raw_client;
using bytes = net::testing::bytes;

bytes as_bytes(const std::string& s) {
  bytes b(s.size());
  std::memcpy(b.data(), s.data(), s.size());
  return b;
}

class cluster_frames : public cluster_test {
 protected:
  void SetUp() override {
    make_cluster(2);  // the test acts as n2
    start("n1");
    for (const auto& m : control::message_samples()) control_.push_back(control::encode(m));
    for (const auto& m : exchange::testing::message_samples()) exchange_.push_back(exchange::testing::joined(exchange::encode(m)));
    for (const auto& e : wire_samples::travelling_samples()) data_.push_back(as_text(wire_samples::joined(encode(e))));
    net::hello h;
    h.incarnation = 1, h.window = 1 << 20, h.max_frame = 1 << 30;
    h.cluster = "lab", h.node = "n2", h.wanted = "n1";
    const auto greeting = net::encode_hello(h);
    hellos_.push_back(as_text(greeting));
  }
  template <class Bytes>
  static std::string as_text(const Bytes& b) {
    return {reinterpret_cast<const char*>(b.data()), b.size()};
  }

  std::uint64_t below(std::uint64_t n) { return random_.draw_below(n); }

  // A client without a certificate: mutated first bytes of several protocols.
  std::uint64_t stranger(std::uint16_t port) {
    static const std::vector<std::string> firsts{
        std::string("\x16\x03\x01\x00\xc4\x01\x00\x00\xc0\x03\x03", 11) + std::string(185, '\x5a'),
        std::string("PT\x01\x00\x00\xff", 6) + std::string(26, '\0'), "GET / HTTP/1.1\r\n\r\n"};
    raw_client c(port);
    c.send_plain(test::mutated(firsts, random_, 4096));
    return 1;
  }

  // A session with a valid certificate and a valid, sometimes mutated, hello. Null if the daemon
  // rejected it.
  std::unique_ptr<raw_client> session(std::uint16_t port, bool node) {
    auto c = std::make_unique<raw_client>(port);
    if (!c->handshake(folder_ / "certs" / (node ? "n2" : "client"))) return nullptr;
    if (below(16) == 0) {
      c->write_control(net::control_type::hello, as_bytes(test::mutated(hellos_, random_, 4000)));
      return nullptr;
    }
    const auto hello = [&](net::hello& h) { h.cluster = "lab", h.wanted = "n1", h.incarnation = ++lives_; };
    if (!c->greet(node ? "n2" : "client.x" + std::to_string(++lives_), hello) || !c->read() || !c->read()) return nullptr;
    return c;
  }
  // Sends a frame with an invalid header or checksum, which ends the session.
  std::uint64_t broken(raw_client& c, const bytes& payload) {
    bytes out(net::header_bytes);
    net::frame_header h;
    h.type = static_cast<std::uint16_t>(1 + below(22));
    h.length = payload.size();
    net::seal_header(h, std::array<std::span<const std::byte>, 1>{payload},
                     std::span<std::byte, net::header_bytes>(out.data(), net::header_bytes));
    out.insert(out.end(), payload.begin(), payload.end());
    for (auto n = 1 + below(3); n > 0; --n) out[below(out.size())] = static_cast<std::byte>(random_.next());
    return c.write(out) ? 1 : 0;
  }
  // Sends up to `most` mutated frames that the daemon accepts, then an invalid one. Returns how
  // many.
  template <class Type, class Sound>
  std::uint64_t talk(std::uint16_t port, bool node, std::uint64_t most, const std::vector<std::string>& of, Type type,
                     Sound sound) {
    const auto c = session(port, node);
    if (!c) return 1;
    std::uint64_t sent = 0;
    for (bool open = true; open && sent < most;) {
      const auto which = below(of.size());
      auto b = test::mutated(of, random_, 60000);
      if (below(2)) b = test::mutated(std::vector<std::string>{of[which]}, random_, 60000);
      net::frame_header h;
      h.type = type(which);
      h.destination = static_cast<std::uint32_t>(random_.next());
      if (h.type >= net::first_reserved_type || b.empty() || !sound(h.type, b)) continue;
      open = c->write_frame(h, as_bytes(b));
      sent += open ? 1 : 0;
    }
    return sent + broken(*c, as_bytes(test::mutated(of, random_, 60000)));
  }

  std::uint64_t round() {
    const auto control = control_port("n1"), data = data_port("n1");
    std::uint64_t sent = 0;
    for (const auto port : {control, data})
      for (int i = 0; i < 20; ++i) sent += stranger(port);
    const auto readable = [](std::uint16_t type, const std::string& b) {
      return control::decode(type, b.data(), b.size()).has_value();
    };
    const auto any = [](std::uint16_t, const std::string&) { return true; };
    const auto index = [&](std::size_t i) { return static_cast<std::uint16_t>(i + 1); };
    for (const bool node : {false, true}) {
      sent += talk(control, node, 300, control_, index, readable);
      sent += talk(control, node, 1, control_, index, any);
    }
    const auto received = [](std::uint16_t type, const std::string& b) {
      const auto owner = std::make_shared<const std::string>(b);
      return exchange::decode(type, std::as_bytes(std::span(owner->data(), owner->size())), owner).has_value();
    };
    const auto exchanged = [&](std::size_t i) { return static_cast<std::uint16_t>(exchange::first_type + i); };
    sent += talk(control, false, 20, exchange_, exchanged, received);
    sent += talk(control, false, 1, exchange_, exchanged, any);
    const auto taken = [](std::uint16_t, const std::string& b) {
      envelope e;
      return wire_samples::decode_bytes({b.begin(), b.end()}, e) && has_values(e);
    };
    sent += talk(
        data, true, 1500, data_, [](std::size_t) { return std::uint16_t{1}; }, taken);
    sent += talk(
        data, true, 1, data_, [&](std::size_t) { return static_cast<std::uint16_t>(below(2) ? 1 : below(65536)); }, any);
    daemon("n1").wait_log("\x01", 0ms);
    return sent;
  }

  std::vector<std::string> control_, exchange_, data_, hellos_;
  counter_rng random_{16};
  std::uint64_t lives_ = 0;
};

TEST_F(cluster_frames, mutated_frames_leave_memory_and_descriptors_of_a_daemon_unchanged) {
  const auto most = from_environment("TROUPE_LIVE_FRAMES", 10'000);
  std::uint64_t sent = 0;
  while (sent < std::max<std::uint64_t>(most / 4, 5'000)) sent += round();  // memory reaches its maximum
  ASSERT_EQ(run(tiny_job(), workers(1, 1)).outcome.exit_code(), 0);
  const auto descriptors = daemon("n1").descriptors();
  // Memory that is leaked grows with every batch of frames. Memory that the allocator keeps (an
  // arena of another thread, a buffer for the longest frame yet) grows once.
  double more = 0;
  for (int batch = 0; batch < 4; ++batch) {
    const auto memory = memory_of(daemon("n1"));
    const auto begun = clock::now();
    std::uint64_t rounds = 0;
    for (sent = 0; sent < most; ++rounds) sent += round();
    const auto took = since(begun), over = millis(10'000);
    const auto end = clock::now();
    while (daemon("n1").descriptors() > descriptors && since(end) < over) daemon("n1").wait_log("\x01", 20ms);
    EXPECT_LE(daemon("n1").descriptors(), descriptors) << "leaked descriptors";
    EXPECT_EQ(run(tiny_job(), workers(1, 1)).outcome.exit_code(), 0) << "still runs jobs";
    more = memory_of(daemon("n1")) - memory;
    std::printf("%llu mutated frames on live ports in %.1f s (%llu sessions): %.2f MiB more, no more descriptors\n",
                static_cast<unsigned long long>(sent), std::chrono::duration<double>(took).count(),
                static_cast<unsigned long long>(rounds) * 46, more);
    if (more <= 1.0) return;
  }
  FAIL() << "each of four batches of frames adds memory, the last " << more << " MiB";
}

}  // namespace
}  // namespace troupe::testing_cluster
