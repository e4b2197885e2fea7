// Fuzz target: the log of messages that is written while roles run.
#include "runtime/replay/log_stream.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

// A stream is read to its first damaged record, so that most changes leave a prefix.
void read_message_stream(input in) {
  reader r(in);
  const auto t = text(r.rest());
  const auto read = replay::read_stream(t);
  if (!read) return;
  for (const auto& role : *read) {
    std::size_t bytes = 0;
    for (const auto& c : role.chunks) bytes += c.size();
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
  return {bytes};
}

const entry message_stream_entry({"message_stream", read_message_stream, sound_message_stream});

}  // namespace
}  // namespace troupe::fuzz
