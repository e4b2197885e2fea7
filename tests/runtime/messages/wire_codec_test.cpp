#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>

#include "runtime/messages/wire_fields.hpp"
#include "tests/error_text.hpp"
#include "tests/runtime/messages/wire_samples.hpp"

namespace troupe {
namespace {

using namespace wire_samples;

// Prints a message as text: equal texts mean equal messages, bit for bit.
struct printer {
  std::string out;
  template <class T>
  void operator()(const T& x) {
    if constexpr (std::is_same_v<T, tensor>) {
      out += x ? std::string(name_of(x.type())) + " " + std::to_string(x.dims().rank()) : "empty";
      for (int i = 0; i < x.dims().rank(); ++i) out += "x" + std::to_string(x.dims()[i]);
      out += x.backed() ? "=" + std::string(static_cast<const char*>(x.raw()), x.bytes()) : " not backed";
    } else if constexpr (std::is_same_v<T, std::string>) {
      out += x;
    } else if constexpr (std::is_same_v<T, double>) {
      out += std::string(reinterpret_cast<const char*>(&x), sizeof x);
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      out += std::to_string(static_cast<std::uint64_t>(x));
    } else if constexpr (requires { T::fields(x); }) {
      std::apply([this](const auto&... field) { ((*this)(field), ...); }, T::fields(x));
    } else if constexpr (requires { x.first; }) {
      (*this)(x.first), (*this)(x.second);
    } else {
      out += "[";
      for (const auto& y : x) (*this)(y);
      out += "]";
    }
    out += ";";
  }
};
struct header_printer {
  std::string out;
  void operator()(const auto&... x) { ((out += std::to_string(static_cast<std::uint64_t>(x)) + " "), ...); }
};
std::string text_of(const header& h) {
  header_printer p;
  wire::fields(p, h);
  return p.out;
}
std::string text_of(const message& m) {
  printer p;
  std::visit(overloaded{[&](const forward& b) { p(b.value), p(b.valid), p(b.first_example); },
                        [&](const backward& b) { p(b.grad); },
                        [&](const credit& b) { p(b.count); },
                        [&](const gradient& b) { p(b.layer), p(b.grads), p(b.stats); },
                        [&](const push& b) { p(b.block), p(b.first), p(b.span), p(b.sum), p(b.across), p(b.increment); },
                        [&](const weights& b) { p(b.block), p(b.value), p(b.increment); },
                        [&](const layer_weights& b) { p(b.layer), p(b.values); },
                        [&](const ready& b) { p(b.what), p(b.round), p(b.first), p(b.count), p(b.block); },
                        [&](const fetch& b) { p(b.block); },
                        [&](const norm_partials& b) { p(b.block), p(b.parts); },
                        [&](const nonfinite_report& b) { p(b.group), p(b.bad); },
                        [&](const flush& b) { p(b.round); },
                        [&](const adopt& b) { p(b.mode), p(b.options); },
                        [&](const observe&) {},
                        [&](const observation& b) { p(b.histograms); },
                        [&](const step_time& b) { p(b.seconds); },
                        [&](const want_histograms& b) { p(b.every), p(b.now); },
                        [&](const histogram& b) { p(b.block), p(b.weight), p(b.gradient); },
                        [&](const quiesce& b) { p(b.request), p(b.living); },
                        [&](const inventory& b) { p(b.request), p(b.least), p(b.newest); },
                        [&](const start&) {},
                        [&](const grant& b) { p(b.until), p(b.notice); },
                        [&](const set_value& b) { p(b.key), p(b.value), p(b.from); },
                        [&](const evaluate& b) { p(b.round); },
                        [&](const report& b) { p(b.values), p(b.valid), p(b.weights); },
                        [&](const collect& b) { p(b.request), p(b.with_state); },
                        [&](const state& b) {
                          p(b.request), p(b.block), p(b.value), p(b.rule), p(b.updates), p(b.wanted), p(b.round), p(b.mass);
                        },
                        [&](const restore_state& b) { p(b.block), p(b.value), p(b.rule), p(b.updates); },
                        [&](const halt&) {},
                        [&](const command& b) {
                          p(b.what.index()), std::visit(
                                                 [&](const auto& k) {
                                                   if constexpr (requires { k.fields(k); }) p(k);
                                                 },
                                                 b.what);
                        },
                        [&](const user& b) { p(b.type), p(b.bytes), p(b.values), p(b.number); },
                        [&](const work_unit& b) { p(b.step), p(b.first), p(b.count); },
                        [&](const want_examples& b) { p(b.nth); },
                        [&](const examples& b) { p(b.data), p(b.label), p(b.nth); },
                        [&](const examples_seed& b) { p(b.seed); },
                        [&](const finished& b) { p(b.token); },
                        [&](const peer_down& b) { p(b.node), p(b.reason); }},
             m);
  return std::string(name_of(m)) + ":" + p.out;
}

TEST(wire, decoding_returns_every_body_as_it_was_encoded) {
  std::size_t travelled = 0;
  for (const auto& e : all_samples()) {
    const auto parts = encode(e);
    if (host_only(e.body)) {
      EXPECT_TRUE(parts.empty());
      continue;
    }
    envelope back;
    ASSERT_EQ(test::error_text(decode_bytes(joined(parts), back)), "") << name_of(e.body);
    EXPECT_EQ(text_of(back.h), text_of(e.h));
    EXPECT_EQ(text_of(back.body), text_of(e.body));
    EXPECT_EQ(joined(encode(back)), joined(parts)) << "the encoding must be unique";
    ++travelled;
  }
  EXPECT_EQ(travelled, std::variant_size_v<message> - 1);
}

TEST(wire, push_has_the_golden_bytes) {
  push body{0x01020304, 4, 2, made<float>({1, 3}, 1.0f), true, 6};
  const auto bytes = joined(encode({sample_header(), body}));
  std::vector<std::uint8_t> want = {
      1,  0, 0, 0, 2,  0, 0,  0, 3,  0,  0,  0, 4, 0, 0, 0,              // job, src, dst, incarnation
      6,  0, 0, 0, 5,  0, 0,  0, 7,  0,  0,  0, 0, 0, 0, 0,              // id, step
      8,  0, 0, 0, 0,  0, 0,  0, 10, 0,  0,  0,                          // version, packet
      11, 0, 0, 0, 12, 0, 13, 1, 3,  15, 16, 0, 0, 0,                    // packets, port, attempt, phase, flags, mode_epoch, trace
      11, 4, 0, 0, 41, 0, 0,  0,                                         // wire version, body 4 = push, 41 bytes of fields
      4,  3, 2, 1, 4,  0, 0,  0, 2,  0,  0,  0,                          // block, first, span
      2,  0, 2, 0, 1,  0, 0,  0, 0,  0,  0,  0, 3, 0, 0, 0, 0, 0, 0, 0,  // sum: backed f32 of rank 2, 1 x 3
      1,  6, 0, 0, 0,  0, 0,  0, 0,                                      // across, increment
  };
  want.resize(128);  // zeros up to the payload
  want.insert(want.end(), {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40});
  EXPECT_EQ(bytes, want);
}

TEST(wire, payloads_are_not_copied_by_encode_or_decode) {
  const auto big = made<float>({1000, 1000}, 0);
  const auto parts = encode({{}, layer_weights{1, {big.slice(100, {3}), big}}});
  std::set<const void*> sent;
  for (const auto& p : parts) sent.insert(p.data);
  EXPECT_TRUE(sent.count(big.data<float>() + 100));
  EXPECT_TRUE(sent.count(big.raw()));
  EXPECT_LT(parts[0].bytes, 200u);

  const buffer b(joined(parts));
  envelope e;
  ASSERT_EQ(test::error_text(decode(b.data.get(), b.bytes, b.data, e)), "");
  for (const auto& t : std::get<layer_weights>(e.body).values) {
    const auto at = reinterpret_cast<std::uintptr_t>(t.raw());
    EXPECT_EQ(at % wire_alignment, 0u);
    EXPECT_GE(at, reinterpret_cast<std::uintptr_t>(b.data.get()));
    EXPECT_LE(at + t.bytes(), reinterpret_cast<std::uintptr_t>(b.data.get()) + b.bytes);
    EXPECT_TRUE(t.frozen());
  }
}

TEST(wire, parts_and_tensors_keep_their_memory_alive) {
  std::vector<wire_part> parts;
  {
    envelope e{{}, backward{made<float>({64}, 1)}};
    parts = encode(e);
  }
  auto b = std::make_unique<buffer>(joined(parts));
  std::weak_ptr<std::uint8_t> memory = b->data;
  envelope e;
  ASSERT_EQ(test::error_text(decode(b->data.get(), b->bytes, b->data, e)), "");
  b.reset();
  EXPECT_FALSE(memory.expired());
  EXPECT_EQ(std::get<backward>(e.body).grad.data<float>()[63], 64.0f);
  e = {};
  EXPECT_TRUE(memory.expired());
}

// The bytes of `e` with `change` applied.
template <class F>
std::vector<std::uint8_t> changed(const envelope& e, F change) {
  auto b = joined(encode(e));
  change(b);
  return b;
}

TEST(wire, every_kind_of_malformed_message_is_refused_by_name) {
  using bytes = std::vector<std::uint8_t>;
  const envelope p{sample_header(), push{1, 2, 3, made<float>({2, 3}, 1)}};  // tensor at 78: state, dtype, rank, 0, extents at 82
  const envelope u{sample_header(), user{1, "abc", {}}};                     // type at 66, string at 70, list's count at 77
  const envelope c{sample_header(), collect{1, true}};                       // bool at 74
  const auto set = [](std::size_t at, std::uint8_t v) { return [=](bytes& b) { b[at] = v; }; };
  const auto set64 = [](std::size_t at, std::uint64_t v) { return [=](bytes& b) { std::memcpy(&b[at], &v, 8); }; };
  EXPECT_EQ(error_of({}), "the message is shorter than its prefix");
  EXPECT_EQ(error_of(changed(p, [](bytes& b) { b.resize(65); })), "the message is shorter than its prefix");
  EXPECT_EQ(error_of(changed(p, set(58, 2))), "wire version is 2, must be 11");
  EXPECT_EQ(error_of(changed(p, set(59, 200))), "unknown body 200");
  EXPECT_EQ(error_of(changed(p, set(60, 1))), "a reserved byte is not zero");
  EXPECT_EQ(error_of(changed(p, set(51, 2))), "unknown phase 2");
  EXPECT_EQ(error_of(changed(p, set(65, 1))), "the fields are longer than the message");
  EXPECT_EQ(error_of(changed(p, set(62, 40))), "push: the fields end early");
  EXPECT_EQ(error_of(changed(p, set(62, 42))), "push: trailing bytes after the fields");
  EXPECT_EQ(error_of(changed(p, set(78, 3))), "push: unknown tensor state");
  EXPECT_EQ(error_of(changed(p, set(78, 0))), "push: an empty tensor has a shape");
  EXPECT_EQ(error_of(changed(p, set(78, 1))), "push: trailing bytes after the payload");
  EXPECT_EQ(error_of(changed(p, set(79, 5))), "push: unknown dtype");
  EXPECT_EQ(error_of(changed(p, set(80, 7))), "push: a tensor's rank is too large: 7");
  EXPECT_EQ(error_of(changed(p, set(81, 1))), "push: a reserved byte is not zero");
  EXPECT_EQ(error_of(changed(p, set(89, 0x80))), "push: a tensor's extent is negative");
  EXPECT_EQ(error_of(changed(p, set64(82, std::uint64_t{1} << 62))), "push: a tensor's size overflows");
  EXPECT_EQ(error_of(changed(p, [&](bytes& b) { set64(82, 0)(b), set64(90, std::uint64_t{1} << 62)(b); })),
            "push: a tensor's size overflows")
      << "an extent of 0 must not hide the overflow of the others";
  EXPECT_EQ(error_of(changed(p, set(82, 3))), "push: a tensor's payload ends early");
  EXPECT_EQ(error_of(changed(p, set(108, 1))), "push: padding is not zero");
  EXPECT_EQ(error_of(changed(p, [](bytes& b) { b.push_back(0); })), "push: trailing bytes after the payload");
  EXPECT_EQ(error_of(changed(p, [](bytes& b) { b.pop_back(); })), "push: a tensor's payload ends early");
  EXPECT_EQ(error_of(changed(u, set(73, 1))), "user: a string is longer than the message");
  EXPECT_EQ(error_of(changed(u, set(79, 2))), "user: a list has more tensors than allowed");
  EXPECT_EQ(error_of(changed(u, set(77, 3))), "user: a list has more tensors than allowed");
  EXPECT_EQ(error_of(changed(u, [](bytes& b) { b.push_back(0); })), "user: trailing bytes after the payload");
  EXPECT_EQ(error_of(changed(c, set(74, 2))), "collect: a bool is neither 0 nor 1");
}

TEST(wire, host_only_messages_are_not_encoded_and_refused) {
  for (const auto& e : all_samples()) {
    if (!host_only(e.body)) continue;
    EXPECT_TRUE(encode(e).empty());
    auto b = joined(encode({{}, halt{}}));
    b[59] = static_cast<std::uint8_t>(e.body.index());
    EXPECT_EQ(error_of(b), "a host-only message must not be sent between nodes");
  }
}

TEST(wire, misaligned_buffer_is_refused_only_with_payloads) {
  for (const auto& e : {envelope{{}, credit{5}}, envelope{{}, backward{made<float>({4}, 1)}}}) {
    const auto bytes = joined(encode(e));
    const buffer b(bytes.size() + 8);
    std::memcpy(b.data.get() + 8, bytes.data(), bytes.size());
    envelope back;
    EXPECT_EQ(test::error_text(decode(b.data.get() + 8, bytes.size(), b.data, back)),
              std::holds_alternative<credit>(e.body) ? "" : "backward: the buffer is not aligned");
  }
}

TEST(wire, envelope_is_unchanged_when_bytes_are_refused) {
  envelope e{sample_header(), credit{5}};
  EXPECT_FALSE(decode_bytes({1, 2, 3}, e));
  EXPECT_EQ(text_of(e.h), text_of(sample_header()));
  EXPECT_EQ(std::get<credit>(e.body).count, 5u);
}

}  // namespace
}  // namespace troupe
