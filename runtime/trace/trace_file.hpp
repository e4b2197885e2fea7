// Reads a trace file of Troupe (track_events.hpp): its slices, and what it says of the job.
// Errors: values. Files may come from anywhere: the reader is total, and the memory that it takes
// is proportional to the file, which has at most `max_trace_file` bytes.
// Threads: functions without state.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/messages/ids.hpp"
#include "runtime/trace/trace_writer.hpp"

namespace troupe {

inline constexpr std::uint64_t max_trace_file = std::uint64_t{4} << 30;

struct trace_file {
  struct track {
    std::string name;
    std::string process;  // the node; "links"
  };
  struct slice {
    std::uint32_t track = 0;  // index in `tracks`
    std::uint32_t name = 0;   // index in `names`
    time_point begin{}, end{};
    std::uint64_t step = 0, packet = 0, bytes = 0;
    bool of_packet = false;  // `step` and `packet` are known
  };
  std::vector<track> tracks;
  std::vector<std::string> names;
  std::vector<slice> slices;  // in order of their ends
  trace_job job;              // its text is empty if the file does not say
};

expected<trace_file> read_trace_file(const std::filesystem::path& file);
// `bytes`: of the file.
expected<trace_file> read_trace(std::string_view bytes);

}  // namespace troupe
