// A filled message of every kind, and buffers for encoded messages. Shared by the codec's tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "runtime/messages/wire.hpp"

namespace troupe::wire_samples {

// Memory like a transport's receive buffer: aligned, and of exactly the message's size, so that
// ASan reports every read beyond it.
struct buffer {
  explicit buffer(std::size_t n)
      : data(static_cast<std::uint8_t*>(::operator new (n, std::align_val_t{wire_alignment})),
             [](std::uint8_t* p) { ::operator delete (p, std::align_val_t{wire_alignment}); }),
        bytes(n) {}
  explicit buffer(const std::vector<std::uint8_t>& v) : buffer(v.size()) {
    if (!v.empty()) std::memcpy(data.get(), v.data(), v.size());
  }
  std::shared_ptr<std::uint8_t> data;
  std::size_t bytes;
};

inline std::vector<std::uint8_t> joined(const std::vector<wire_part>& parts) {
  std::vector<std::uint8_t> out;
  for (const auto& p : parts) {
    const auto* b = static_cast<const std::uint8_t*>(p.data);
    out.insert(out.end(), b, b + p.bytes);
  }
  return out;
}

inline expected<void> decode_bytes(const std::vector<std::uint8_t>& v, envelope& out) {
  const buffer b(v);
  return decode(b.data.get(), b.bytes, b.data, out);
}
inline std::string error_of(const std::vector<std::uint8_t>& v) {
  envelope e;
  const auto read = decode_bytes(v, e);
  return read ? "no error" : read.error().text;
}

// A backed tensor that owns its memory.
template <class T>
tensor made(shape s, T first) {
  auto v = std::make_shared<std::vector<T>>(static_cast<std::size_t>(s.count()));
  for (auto& x : *v) x = first, first = static_cast<T>(first + T{1});
  return tensor::adopt(v, v->data(), s, dtype_of<T>);
}
inline tensors several() {
  return {made<float>({3, 5}, 1),
          tensor{},
          tensor::declare({1 << 20, 1 << 20}, dtype::f64),
          made<std::uint8_t>({7}, 9),
          made<float>({4, 0}, 0),
          made<double>(shape{}, 0.25)};
}

// One filled message of every kind. The tests do not compile if an alternative of `message` has no
// sample.
template <class M>
M sample();
template <>
inline forward sample() {
  return {made<float>({2, 1, 3, 3}, 0.5f), 2, 128};
}
template <>
inline backward sample() {
  return {made<double>({2, 9}, -1)};
}
template <>
inline credit sample() {
  return {3};
}
template <>
inline want_examples sample() {
  return {5};
}
template <>
inline examples sample() {
  return {made<float>({2, 1, 3, 3}, 0.25f), made<std::int32_t>({2}, -1), 5};
}
template <>
inline examples_seed sample() {
  return {0x0123456789abcdefu};
}
template <>
inline gradient sample() {
  return {4, several(), {made<std::int32_t>({2}, -7)}, 2};
}
template <>
inline push sample() {
  return {1, 2, 3, made<float>({17}, 1), true, 18};
}
template <>
inline weights sample() {
  return {6, made<float>({16}, 2), 21};
}
template <>
inline layer_weights sample() {
  return {7, several()};
}
template <>
inline ready sample() {
  return {ready::what_of::work_unit, 22, 23, 24, 25};
}
template <>
inline fetch sample() {
  return {5};
}
template <>
inline quiesce sample() {
  return {7, {0, 2, 5}};
}
template <>
inline inventory sample() {
  return {7, {{0, 41}, {3, 42}}, {{0, 42}, {3, 43}}};
}
template <>
inline norm_partials sample() {
  return {3, {{{1, 2}, 1.0}, {{0, 1}, std::numeric_limits<double>::quiet_NaN()}}};
}
template <>
inline nonfinite_report sample() {
  return {2, {7, 0, 1u << 31}};
}
template <>
inline flush sample() {
  return {26};
}
template <>
inline adopt sample() {
  return {"ssp", {{"staleness", "3"}, {"", ""}}};
}
template <>
inline observe sample() {
  return {};
}
template <>
inline step_time sample() {
  return {0.125};
}
template <>
inline observation sample() {
  return {{{"conv1.weight", {1, 0, 0xfedcba9876543210u}}, {"", {}}}};
}
template <>
inline want_histograms sample() {
  return {500, true};
}
template <>
inline histogram sample() {
  const value_histogram h{4, 1, 1, -0.5, 2, 1.5, 4.25, {{700, 1}, {1500, 2}}};
  return {3, h, {h}};
}
template <>
inline start sample() {
  return {};
}
template <>
inline grant sample() {
  return {0xfedcba9876543210u, 27};
}
template <>
inline work_unit sample() {
  return {7, 2, 3};
}
template <>
inline set_value sample() {
  return {"train.dynamics.lr", 0.001, 77};
}
template <>
inline evaluate sample() {
  return {8, true};
}
template <>
inline report sample() {
  return {{{"loss", 2.302585}, {"accuracy", std::numeric_limits<double>::infinity()}, {"", -0.0}}, 64, {0.5, 64, 0}};
}
template <>
inline collect sample() {
  return {9, true};
}
template <>
inline state sample() {
  return {10, 11, made<float>({5}, 3), several(), 28, 29, 31, 0.375};
}
template <>
inline restore_state sample() {
  return {12, tensor{}, several(), 32};
}
template <>
inline halt sample() {
  return {};
}
template <>
inline command sample() {
  return {mode_command{{"ssp", {{"staleness", "inf"}}}}};
}
template <>
inline user sample() {
  return {13, std::string("a\0b\xff", 4), several(), 33};
}
template <>
inline finished sample() {
  return {14};
}
template <>
inline peer_down sample() {
  return {"n2", "no heartbeat for 2 s"};
}

inline header sample_header() {
  return {.job = 1,
          .src = role_id{2},
          .dst = role_id{3},
          .incarnation = 4,
          .id = make_msg_id(role_id{5}, 6),
          .step = 7,
          .version = 8,
          .packet = 10,
          .packets = 11,
          .port = 12,
          .attempt = 13,
          .phase = 1,
          .flags = 3,
          .mode_epoch = 15,
          .trace = 16};
}

template <std::size_t... I>
std::vector<envelope> all_samples(std::index_sequence<I...>) {
  return {envelope{sample_header(), message{sample<std::variant_alternative_t<I, message>>()}}...};
}
inline std::vector<envelope> all_samples() { return all_samples(std::make_index_sequence<std::variant_size_v<message>>{}); }
inline std::vector<envelope> travelling_samples() {
  auto all = all_samples();
  std::erase_if(all, [](const envelope& e) { return host_only(e.body); });
  return all;
}

}  // namespace troupe::wire_samples
