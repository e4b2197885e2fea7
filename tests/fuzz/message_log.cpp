// Fuzz target: the log of messages that roles handled. If the first byte is 'r', it gets a valid
// checksum.
#include "runtime/checksum/crc32c.hpp"
#include "runtime/replay/delivery_log.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_message_log(input in) {
  reader r(in);
  const bool right = r.number(1) == 'r';
  auto t = text(r.rest());
  if (right && t.size() >= 4) {
    const auto sum = crc32c(0, t.data(), t.size() - 4);
    for (std::size_t i = 0; i < 4; ++i) t[t.size() - 4 + i] = static_cast<char>(sum >> (8 * i));
  }
  const auto read = replay::from_bytes(t);
  const auto* p = read ? &*read : nullptr;
  if (!p) return;
  must(replay::to_bytes(*p) == t, "reading and writing change the log");
  for (const auto& role : p->roles)
    for (const auto& c : role.chunks) {
      replay::chunk_reader entries(c);
      std::size_t count = 0;
      while (const auto d = entries.next()) {
        must(++count <= c.size() && d->whole.size() <= c.size(), "the log has more entries than bytes");
        must(!replay::to_text(*d).empty(), "an entry without text");
      }
    }
}

std::vector<std::string> sound_message_log() {
  replay::log_room room(1 << 16);
  replay::role_log log(room);
  for (std::uint32_t n = 0; n < 20; ++n) {
    envelope e;
    e.h.src = n % 5 == 0 ? no_role : role_id{n % 3};
    e.h.step = n / 4;
    e.h.packet = n % 4;
    if (n % 5 == 0)
      e.body = command{set_command{"train.dynamics.lr", 0.5}};
    else if (n % 2 == 0)
      e.body = finished{n};
    else
      e.body = credit{1};
    log.add(replay::delivery_of(e, time_point(n * 1000)));
  }
  replay::node_part p{"0123", "n1", {}};
  p.roles.push_back({role_id{0}, log.handled(), 0, "out of luck", log.chunks()});
  p.roles.push_back({role_id{1}, 0, 7, {}, {}});
  return {"r" + replay::to_bytes(p), "x" + replay::to_bytes(p)};
}

const entry message_log_entry({"message_log", read_message_log, sound_message_log});

}  // namespace
}  // namespace troupe::fuzz
