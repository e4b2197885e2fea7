#include "runtime/replay/delivery_log.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/messages/wire.hpp"

namespace troupe::replay {
namespace {

// First byte of an entry: its kind, and flags for fields that are mostly 0 and follow only if not.
constexpr std::uint8_t has_place = 64, has_what = 128;

// The encoded numbers of one entry, which are appended to a log at once: the kind and at most seven
// numbers of at most ten bytes each.
struct entry {
  std::array<char, 72> bytes;
  std::size_t size = 0;
  void put(std::uint8_t b) { bytes[size++] = static_cast<char>(b); }
  void number(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) put(static_cast<std::uint8_t>(n | 0x80));
    put(static_cast<std::uint8_t>(n));
  }
};
std::uint64_t folded(std::int64_t n) { return (static_cast<std::uint64_t>(n) << 1) ^ static_cast<std::uint64_t>(n >> 63); }
std::int64_t unfolded(std::uint64_t n) { return static_cast<std::int64_t>(n >> 1) ^ -static_cast<std::int64_t>(n & 1); }

std::uint64_t what_of(const message& m) {
  return std::visit(
      [](const auto& b) -> std::uint64_t {
        if constexpr (requires { b.block; })
          return b.block;
        else if constexpr (requires { b.layer; })
          return b.layer;
        else if constexpr (requires { b.token; })
          return b.token;
        else
          return 0;
      },
      m);
}

std::string whole_of(const envelope& e) {
  std::string all;
  for (const auto& p : encode(e)) all.append(static_cast<const char*>(p.data), p.bytes);
  return all;
}

}  // namespace

delivery delivery_of(const envelope& e, time_point now) {
  delivery d{static_cast<std::uint8_t>(e.body.index()), e.h.src, e.h.step, e.h.packet, e.h.port, what_of(e.body), now};
  if (e.h.src == no_role && !host_only(e.body)) d.whole = whole_of(e);
  return d;
}

bool names(const delivery& d, const envelope& e) {
  return d.kind == e.body.index() && d.step == e.h.step && d.packet == e.h.packet && d.port == e.h.port &&
         d.what == what_of(e.body);
}

const char* kind_name(const delivery& d) {
  static const auto names = []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<const char*, sizeof...(I)>{name_of(message{std::in_place_index<I>})...};
  }
  (std::make_index_sequence<std::variant_size_v<message>>{});
  if (d.kind == task_failed) return "task failure";
  return d.kind < names.size() ? names[d.kind] : "?";
}

std::string to_text(const delivery& d) {
  std::string s = std::string("'") + kind_name(d) + "' of step " + std::to_string(d.step) + ", packet " + std::to_string(d.packet) +
                  ", port " + std::to_string(d.port);
  if (d.what != 0) s += ", number " + std::to_string(d.what);
  return s;
}

// --- writing

void role_log::open_chunk() {
  if (!room_.take(chunk_bytes) && chunks_.size() > 1) {
    dropped_ += chunks_.front().entries;
    chunks_.push_back(std::move(chunks_.front()));
    chunks_.pop_front();
    chunks_.back().bytes.clear();
    chunks_.back().entries = 0;
  } else
    chunks_.emplace_back().bytes.reserve(chunk_bytes + sizeof(entry));
  step_ = 0;
  at_ = {};
  complete_ = false;
}

const std::string* role_log::add(const delivery& d) {
  if (complete_) open_chunk();
  auto& c = chunks_.back();
  const bool place = d.packet != 0 || d.port != 0;
  entry e;
  e.put(static_cast<std::uint8_t>(d.kind | (place ? has_place : 0) | (d.what != 0 ? has_what : 0)));
  e.number((std::uint64_t{index_of(d.from)} + 1) & 0xffffffffu);
  e.number(folded(static_cast<std::int64_t>(d.step - step_)));
  e.number(folded((d.at - at_).count()));
  if (place) e.number(d.packet), e.number(d.port);
  if (d.what != 0) e.number(d.what);
  if (d.from == no_role) e.number(d.whole.size());
  c.bytes.append(e.bytes.data(), e.size);
  if (d.from == no_role) c.bytes += d.whole;
  step_ = d.step;
  at_ = d.at;
  ++c.entries;
  ++handled_;
  return c.bytes.size() >= chunk_bytes ? complete() : nullptr;
}

const std::string* role_log::complete() { return std::exchange(complete_, true) ? nullptr : &chunks_.back().bytes; }

std::vector<std::string> role_log::chunks() const {
  std::vector<std::string> all;
  for (const auto& c : chunks_) all.push_back(c.bytes);
  return all;
}

// --- reading

std::optional<std::uint64_t> chunk_reader::number() {
  std::uint64_t n = 0;
  for (unsigned shift = 0; shift < 64 && !left_.empty(); shift += 7) {
    const auto b = static_cast<std::uint8_t>(left_.front());
    left_.remove_prefix(1);
    n |= std::uint64_t{b & 0x7fu} << shift;
    if (b < 0x80) return n;
  }
  return std::nullopt;
}

std::optional<delivery> chunk_reader::next() {
  if (left_.empty() || damaged_) return std::nullopt;
  const auto first = static_cast<std::uint8_t>(left_.front());
  left_.remove_prefix(1);
  delivery d;
  d.kind = first & 63u;
  if (d.kind >= std::variant_size_v<message> && d.kind != task_failed) return broken();
  const auto from = number(), step = number(), at = number();
  if (!from || !step || !at || *from > 0xffffffffu) return broken();
  d.from = role_id{static_cast<std::uint32_t>(*from - 1)};
  d.step = step_ + static_cast<std::uint64_t>(unfolded(*step));
  d.at = time_point(static_cast<std::int64_t>(static_cast<std::uint64_t>(at_.count()) + static_cast<std::uint64_t>(unfolded(*at))));
  if (first & has_place) {
    const auto packet = number(), port = number();
    if (!packet || !port || *packet > 0xffffffffu || *port > 0xffffu) return broken();
    d.packet = static_cast<std::uint32_t>(*packet);
    d.port = static_cast<std::uint16_t>(*port);
  }
  if (first & has_what) {
    const auto what = number();
    if (!what) return broken();
    d.what = *what;
  }
  if (d.from == no_role) {
    const auto bytes = number();
    if (!bytes || *bytes > left_.size()) return broken();
    d.whole = left_.substr(0, static_cast<std::size_t>(*bytes));
    left_.remove_prefix(d.whole.size());
  }
  step_ = d.step;
  at_ = d.at;
  return d;
}

}  // namespace troupe::replay
