// Messages over every transport: each type, with each of its fields of variable size at sizes from
// 0 to 64 MiB, is decoded to the value that was sent. TROUPE_LAW=all tries every power of two
// and every type; the default leaves most of the large ones out.
#include <algorithm>
#include <cstdlib>

#include "runtime/exchange/client/frames.hpp"
#include "runtime/messages/wire_fields.hpp"
#include "runtime/node/net/memory_sharing.hpp"
#include "runtime/node/role_frames.hpp"
#include "tests/error_text.hpp"
#include "tests/node/transport_conformance.hpp"
#include "tests/runtime/exchange/exchange_samples.hpp"
#include "tests/runtime/messages/wire_samples.hpp"

namespace troupe::net::testing {
namespace {

constexpr std::size_t largest = std::size_t{64} << 20;

bool all_sizes() {
  const char* wish = std::getenv("TROUPE_LAW");
  return wish != nullptr && std::string_view(wish) == "all";
}
std::vector<std::size_t> sizes_tried() {
  const bool all = all_sizes();
  std::vector<std::size_t> sizes{0};
  for (std::size_t n = 1; n <= largest; n *= 2) {
    const bool threshold = n == share_from || n == small_frame || n == max_chunk;
    if (threshold) sizes.insert(sizes.end(), {n - 1, n, n + 1});
    if (!threshold && (all || n <= small_frame)) sizes.push_back(n);
  }
  return sizes;
}

std::string letters(std::size_t n) {
  const auto p = pattern(n, n);
  return {reinterpret_cast<const char*>(p.data()), p.size()};
}

tensor tensor_of(std::size_t n) {
  auto owner = std::make_shared<const bytes>(pattern(n, n));
  return tensor::adopt(owner, owner->data(), {static_cast<std::int64_t>(n)}, dtype::u8);
}

void grow(std::string& s, std::size_t n) { s = letters(n); }
void grow(tensor& t, std::size_t n) { t = tensor_of(n); }
void grow(std::integral auto&, std::size_t) {}
template <class B>
void grow(std::pair<std::string, B>& p, std::size_t n) {
  grow(p.first, n);
}
template <class T>
void grow(std::vector<T>& list, std::size_t n);
void grow(value_histogram& h, std::size_t n);
void grow(std::pair<std::string, std::vector<std::uint64_t>>& p, std::size_t n) {
  p.first = "conv1.weight";
  grow(p.second, n);
}

// Fills the list with `n` bytes: that many numbers, or three elements of variable size that share
// the bytes.
template <class T>
void grow(std::vector<T>& list, std::size_t n) {
  list.clear();
  constexpr bool numbers = std::is_arithmetic_v<T> || std::is_same_v<T, square_sum> ||
                           std::is_same_v<T, std::pair<std::uint64_t, std::uint64_t>> ||
                           std::is_same_v<T, std::pair<std::uint16_t, std::uint64_t>>;
  if constexpr (numbers) {
    list.resize(n / sizeof(T));
  } else {
    for (const auto each : {n / 2, n / 4, n - n / 2 - n / 4}) grow(list.emplace_back(), each);
  }
}
void grow(value_histogram& h, std::size_t n) { grow(h.buckets, n); }
void grow(decltype(command::what)& c, std::size_t n) { grow(std::get<mode_command>(c).mode.name, n); }
// Counts the fields of variable size, and makes field number `wanted` `bytes` large.
struct grower {
  std::size_t wanted = ~std::size_t{0}, bytes = 0;
  std::size_t seen = 0;

  template <class... F>
  void operator()(F&... f) {
    (one(f), ...);
  }
  template <class F>
  void one(F& f) {
    if constexpr (!std::is_arithmetic_v<F> && !std::is_enum_v<F>)
      if (seen++ == wanted) grow(f, bytes);
  }
};

std::size_t growing_fields(envelope& e, std::size_t wanted, std::size_t bytes) {
  grower g{wanted, bytes};
  std::visit(
      [&]<class M>(M& body) {
        if constexpr (!std::is_same_v<M, finished>) wire::fields(g, body);
      },
      e.body);
  return g.seen;
}

// Removes tensors without values. The samples have them for the codec, but no router accepts them.
void give_values(tensors& list) {
  std::erase_if(list, [](const tensor& t) { return t && !t.backed(); });
}
std::vector<envelope> samples_with_values() {
  auto all = wire_samples::travelling_samples();
  for (auto& e : all)
    std::visit(overloaded{[](gradient& g) { give_values(g.grads); }, [](layer_weights& w) { give_values(w.values); },
                          [](state& s) { give_values(s.rule); }, [](restore_state& s) { give_values(s.rule); },
                          [](user& u) { give_values(u.values); }, [](auto&) {}},
               e.body);
  return all;
}

bool same_bytes(const std::vector<wire_part>& a, const std::vector<wire_part>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const wire_part& x, const wire_part& y) {
    return x.bytes == y.bytes && (x.bytes == 0 || std::memcmp(x.data, y.data, x.bytes) == 0);
  });
}

void takes_large_ones(tcp_options& o) { o.max_frame = wire_max_message; }

class transport_messages : public transport_conformance {
 protected:
  void SetUp() override {
    transport_conformance::SetUp();
    a_ = std::make_unique<node>("a", takes_large_ones);
    b_ = std::make_unique<node>("b", takes_large_ones);
    b_->listen();
    ASSERT_TRUE(join(*a_, *b_, "a", "b"));
    ASSERT_TRUE(GetParam() != "shm" || shares()) << "otherwise sharing is not tested";
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    transport_conformance::TearDown();
  }

  // Sends a message and checks that it arrives unchanged. Returns its bytes in shared buffers.
  std::size_t travels(const envelope& e) {
    if (!a_->net->send("b", to_frame(e))) return ADD_FAILURE() << "not sent", 0;
    const auto f = b_->take();
    if (!f.payload) return ADD_FAILURE() << "did not arrive", 0;
    envelope back;
    EXPECT_EQ(test::error_text(from_frame(f, back)), "");
    EXPECT_TRUE(back.body.index() == e.body.index() && same_bytes(encode(back), encode(e)));
    std::size_t shared = 0;
    for (const auto& p : f.shared) shared += p.bytes;
    return shared;
  }

  std::unique_ptr<node> a_, b_;

 private:
  // Frames before the peer's `reads_shared` are sent as bytes.
  bool shares() {
    return a_->eventually(10s, [&] { return travels({{}, push{0, 0, 1, tensor_of(share_from)}}) > 0; });
  }
};

TEST_P(transport_messages, every_type_is_decoded_to_the_same_value_at_every_size) {
  std::size_t fields = 0, shared = 0;
  for (auto& sample : samples_with_values()) {
    const auto count = growing_fields(sample, ~std::size_t{0}, 0);
    if (count == 0) travels(sample);
    for (std::size_t k = 0; k < count; ++k) {
      for (const auto n : sizes_tried()) {
        SCOPED_TRACE(std::string(name_of(sample.body)) + ", field " + std::to_string(k) + " with " + std::to_string(n) + " bytes");
        auto e = sample;
        growing_fields(e, k, n);
        shared += travels(e);
        if (HasFailure()) return;
      }
      ++fields;
    }
  }
  EXPECT_GE(fields, 30U);
  EXPECT_EQ(shared > 0, GetParam() == "shm");
}

// By default only types with a tensor, with a string and with a list of numbers.
TEST_P(transport_messages, the_largest_of_a_type_is_decoded_to_the_same_value) {
  for (auto& e : samples_with_values()) {
    SCOPED_TRACE(name_of(e.body));
    const bool chosen = std::holds_alternative<push>(e.body) || std::holds_alternative<command>(e.body) ||
                        std::holds_alternative<observation>(e.body);
    if (!chosen && !all_sizes()) continue;
    if (growing_fields(e, 0, largest) > 0) travels(e);
  }
}

TEST_P(transport_messages, every_message_of_the_exchange_is_decoded_to_the_same_value) {
  const auto travels_too = [&](const exchange::message& m) {
    ASSERT_TRUE(a_->net->send("b", exchange::to_frame(m)));
    const auto back = exchange::from_frame(b_->take());
    ASSERT_TRUE(back);
    EXPECT_EQ(exchange::testing::joined(exchange::encode(*back)), exchange::testing::joined(exchange::encode(m)));
  };
  for (const auto& m : exchange::testing::message_samples()) travels_too(m);
  for (const auto n : sizes_tried()) {
    SCOPED_TRACE(n);
    if (n > 0 && n <= exchange::piece_bytes) {
      const auto owner = std::make_shared<const bytes>(pattern(n, n));
      travels_too(exchange::piece{5, 64, {owner, owner->data(), n}});
    }
    if (n <= exchange::max_text) travels_too(exchange::answer{9, exchange::code::peer_lost, letters(n), 3, 4000});
  }
}

INSTANTIATE_TEST_SUITE_P(of, transport_messages, ::testing::Values("tcp", "shm"), [](const auto& p) { return p.param; });

}  // namespace
}  // namespace troupe::net::testing
