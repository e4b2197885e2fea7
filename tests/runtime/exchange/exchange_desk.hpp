// A hub, its clients and all that each client has received. No sockets: a message is a function
// call.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/exchange/hub/arithmetic.hpp"
#include "runtime/exchange/hub/hub.hpp"

namespace troupe::exchange::testing {

struct reply {
  answer what;
  std::vector<std::byte> data;
};

class desk {
 public:
  explicit desk(hub_limits limits = {}) : h(limits) {}

  static std::string name(std::uint32_t rank) { return "c" + std::to_string(rank); }

  void say(const std::string& client, const message& m) {
    hub_effects out;
    h.on(client, m, out);
    receive(out);
  }
  void gone(const std::string& client, const std::string& why = "end of stream") {
    hub_effects out;
    h.on_gone(client, why, out);
    receive(out);
  }
  code open(std::uint32_t rank, std::uint32_t size, averaging_method how = averaging_method::average, double alpha = 0,
            const std::string& session = "s", std::string client = {}) {
    if (client.empty()) client = name(rank);
    calls[client] = 0;
    say(client, open_session{protocol, session, rank, size, how, alpha});
    return take(client).what.code;
  }
  void open_all(std::uint32_t size, averaging_method how = averaging_method::average, double alpha = 0) {
    for (std::uint32_t r = 0; r < size; ++r) ASSERT_EQ(open(r, size, how, alpha), code::ok);
  }
  template <class T>
  void declare_all(std::uint32_t size, std::uint64_t count, const std::string& buffer = "w") {
    for (std::uint32_t r = 0; r < size; ++r) {
      say(name(r), declare{next(name(r)), buffer, sizeof(T) == 4 ? element::f32 : element::f64, count});
      ASSERT_EQ(take(name(r)).what.code, code::ok);
    }
  }
  void declare_as(std::uint32_t size, std::uint64_t count, element type, const std::string& buffer = "w") {
    for (std::uint32_t r = 0; r < size; ++r) {
      say(name(r), declare{next(name(r)), buffer, type, count});
      ASSERT_EQ(take(name(r)).what.code, code::ok);
    }
  }
  std::uint64_t next(const std::string& client) { return ++calls[client]; }
  std::uint64_t start(const std::string& client, collective_op v, std::uint32_t buffer = 0, std::uint32_t argument = 0) {
    const auto call = next(client);
    say(client, begin{call, v, buffer, argument});
    return call;
  }
  void start_in_memory(std::uint32_t rank, collective_op v, std::uint32_t argument) {
    say(name(rank), begin{next(name(rank)), v, 0, argument, meeting::in_memory});
  }
  // Values [from, to) of `v`.
  template <class T>
  void give(const std::string& client, std::uint64_t call, const std::vector<T>& v, std::size_t from, std::size_t to) {
    const auto copy = std::make_shared<std::vector<T>>(v.begin() + static_cast<std::ptrdiff_t>(from),
                                                       v.begin() + static_cast<std::ptrdiff_t>(to));
    say(client, piece{call, from * sizeof(T), {copy, reinterpret_cast<const std::byte*>(copy->data()), (to - from) * sizeof(T)}});
  }
  template <class T>
  void call(std::uint32_t rank, collective_op v, const std::vector<T>& values, std::uint32_t argument = 0,
            std::uint32_t buffer = 0) {
    const auto n = start(name(rank), v, buffer, argument);
    give(name(rank), n, values, 0, values.size());
  }

  bool has_reply(const std::string& client) const { return boxes.contains(client) && !boxes.at(client).empty(); }
  reply take(const std::string& client) {
    if (!has_reply(client)) {
      ADD_FAILURE() << client << " has received no reply";
      return {};
    }
    auto t = std::move(boxes[client].front());
    boxes[client].erase(boxes[client].begin());
    EXPECT_EQ(t.data.size(), t.what.bytes);
    return t;
  }
  reply take(std::uint32_t rank) { return take(name(rank)); }
  // The values of the answer to a rank's latest call; empty if it has none. Expects code ok.
  template <class T>
  std::vector<T> values(std::uint32_t rank) {
    const auto t = take(rank);
    EXPECT_EQ(t.what.code, code::ok) << t.what.text;
    EXPECT_EQ(t.what.call, calls[name(rank)]);
    std::vector<T> v(t.data.size() / sizeof(T));
    if (!v.empty()) std::memcpy(v.data(), t.data.data(), t.data.size());
    return v;
  }
  // One elastic step: the hub's part and the worker's part.
  template <class T>
  void pull_towards(std::uint32_t rank, std::vector<T>& w) {
    call(rank, collective_op::exchange, w);
    apply(rank, w);
  }
  template <class T>
  void apply(std::uint32_t rank, std::vector<T>& w) {
    const auto t = take(rank);
    ASSERT_EQ(t.what.code, code::ok) << t.what.text;
    if (!t.data.empty()) push(sizeof(T) == 4 ? element::f32 : element::f64, w.data(), t.data.data(), w.size());
  }

  hub h;
  std::map<std::string, std::uint64_t> calls;
  std::map<std::string, std::vector<reply>> boxes;
  std::vector<std::string> dropped, notes;
  std::map<std::string, std::vector<share_effect>> handed;  // shares handed out, which the host would send
  std::vector<std::uint64_t> unshared;

 private:
  void receive(const hub_effects& out) {
    for (const auto& e : out) {
      if (const auto* d = std::get_if<drop_effect>(&e)) dropped.push_back(d->who);
      if (const auto* n = std::get_if<note_effect>(&e)) notes.push_back(n->line);
      if (const auto* x = std::get_if<share_effect>(&e)) handed[x->to].push_back(*x);
      if (const auto* x = std::get_if<unshare_effect>(&e)) unshared.push_back(x->id);
      const auto* s = std::get_if<send_effect>(&e);
      if (!s) continue;
      auto& box = boxes[s->to];
      if (const auto* a = std::get_if<answer>(&s->what)) {
        box.push_back({*a, {}});
      } else {
        const auto& p = std::get<piece>(s->what);
        ASSERT_FALSE(box.empty());
        ASSERT_EQ(p.call, box.back().what.call);
        ASSERT_EQ(p.offset, box.back().data.size());
        ASSERT_LE(p.data.size, piece_bytes);
        box.back().data.insert(box.back().data.end(), p.data.data, p.data.data + p.data.size);
      }
    }
  }
};

}  // namespace troupe::exchange::testing
