// Writes a trace in Perfetto's native format, TrackEvent (perfetto.dev, protos/perfetto/trace),
// which ui.perfetto.dev and trace_processor open. Times are nanoseconds since the trace's
// beginning.
//
//   auto f = track_event_file::create("run.pftrace").value();
//   const auto node = f.process("n1");
//   const auto role = f.track_in(node, "worker0/conv1");
//   f.slice(role, begin, end, "forward", {.flow = id});
//   if (auto ok = f.finish(); !ok) ...
//
// Slices of one track must not overlap, unless one contains the other. Packets may be in any order
// of time. Memory: the names of tracks and slices, and a buffer.
// Errors: values; after the first one nothing more is written, and finish() returns it.
// Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "runtime/base/proto_message.hpp"
#include "runtime/base/result.hpp"
#include "runtime/messages/ids.hpp"

namespace troupe {

// What is shown of a slice or an instant besides its name. Details of a name that is empty are left
// out.
struct track_details {
  std::uint64_t flow = 0;  // slices and instants with the same number are linked, in order of time; 0: none
  std::array<std::pair<std::string_view, std::uint64_t>, 3> numbers = {};
  std::array<std::pair<std::string_view, std::string_view>, 2> texts = {};
};

class track_event_file {
 public:
  enum class track : std::uint64_t {};
  enum class unit : std::uint8_t { none = 0, count = 2, bytes = 3 };

  static expected<track_event_file> create(const std::filesystem::path& file);
  track_event_file(track_event_file&& o) noexcept;
  track_event_file& operator=(track_event_file&&) = delete;
  ~track_event_file();

  track process(std::string_view name);  // top level: a node
  track track_in(track parent, std::string_view name);
  track counter_in(track parent, std::string_view name, unit u);

  void slice(track on, time_point begin, time_point end, std::string_view name, const track_details& d = {});
  void instant(track on, time_point at, std::string_view name, const track_details& d = {});
  void value(track counter, time_point at, std::int64_t v);

  // Completes the file.
  expected<void> finish();

 private:
  explicit track_event_file(int file) : file_(file) {}
  enum class type : std::uint8_t { begin = 1, end = 2, instant = 3, counter = 4 };
  track describe(track parent, std::string_view name, const proto_message* kind, std::uint32_t field);
  void event(track on, time_point at, type t, std::string_view name, const track_details& d);
  std::uint64_t interned(std::uint32_t field, std::string_view text, proto_message& added);
  void packet(const proto_message& content);
  void write();

  int file_;
  std::string buffer_;
  std::uint64_t written_ = 0;  // bytes
  std::uint64_t tracks_ = 0, processes_ = 0;
  struct text_hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  using numbers_of_names = std::unordered_map<std::string, std::uint64_t, text_hash, std::equal_to<>>;
  numbers_of_names event_names_, number_names_;
  proto_message event_, packet_, added_, annotation_, whole_;  // reused
  bool begun_ = false;
  std::optional<error> failed_;
};

}  // namespace troupe
