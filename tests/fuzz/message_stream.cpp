// Fuzz target: the log of messages that is written while roles run. If the first byte is 'r', its
// records get valid checksums.
#include "runtime/replay/log_stream.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/checksum/crc32c.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void repair_stream(std::string& t) {
  constexpr std::size_t record_head = 12;
  const auto number = [&](std::size_t at) {
    std::uint32_t v = 0;
    for (std::size_t i = 0; i < 4; ++i) v |= std::uint32_t{static_cast<std::uint8_t>(t[at + i])} << (8 * i);
    return v;
  };
  for (auto at = t.find('\n') + 1; at != 0 && at + record_head + 4 <= t.size();) {
    const auto bytes = std::size_t{record_head} + number(at + 8);
    if (bytes > t.size() - at - 4) return;
    const auto sum = crc32c(0, t.data() + at, bytes);
    for (std::size_t i = 0; i < 4; ++i) t[at + bytes + i] = static_cast<char>(sum >> (8 * i));
    at += bytes + 4;
  }
}

// A stream is read to its first damaged record, so that most changes leave a prefix.
void read_message_stream(input in) {
  reader r(in);
  const bool right = r.number(1) == 'r';
  auto t = text(r.rest());
  if (right) repair_stream(t);
  const auto read = replay::read_stream(t);
  if (!read) return;
  for (const auto& role : *read) {
    std::size_t bytes = 0;
    for (const auto& c : role.chunks) {
      bytes += c.size();
      std::size_t count = 0;
      for (replay::chunk_reader entries(c); const auto d = entries.next();)
        must(++count <= c.size() && !replay::to_text(*d).empty(), "a chunk has more entries than bytes, or one without text");
    }
    must(bytes <= t.size() && role.handled <= bytes, "the stream has more messages than bytes");
  }
}

std::vector<std::string> sound_message_stream() {
  const auto file = std::filesystem::temp_directory_path() / ("troupe-fuzz-stream-" + std::to_string(::getpid()));
  {
    replay::log_stream s([](const std::string&) {});
    must(s.open(file.string(), {role_id{0}, role_id{1}}).has_value(), "cannot write the file of the stream");
    replay::log_room room(1 << 16);
    replay::role_log log(room);
    for (std::uint32_t n = 0; n < 20; ++n) {
      envelope e;
      e.h.src = role_id{n % 3};
      e.h.step = n / 4;
      e.body = finished{n};
      log.add(replay::delivery_of(e, time_point(n * 1000)));
    }
    s.add(role_id{0}, *log.complete());
    s.ended(role_id{0}, "out of luck");
  }
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  return {"r" + bytes, "x" + bytes};
}

const entry message_stream_entry({"message_stream", read_message_stream, sound_message_stream});

}  // namespace
}  // namespace troupe::fuzz
