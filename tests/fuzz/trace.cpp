// Fuzz target: trace files.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/trace/trace_file.hpp"
#include "runtime/trace/track_events.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_pftrace(input in) {
  const auto t = read_trace(text(in));
  if (!t) return must(!t.error().text.empty(), "refused without a reason");
  must(t->slices.size() <= in.size() && t->tracks.size() <= in.size(), "more slices or tracks than bytes");
  for (const auto& s : t->slices) must(s.track < t->tracks.size() && s.name < t->names.size(), "a slice without a track or name");
}

std::vector<std::string> sound_trace() {
  const auto file = std::filesystem::temp_directory_path() / ("troupe-fuzz-trace-" + std::to_string(::getpid()));
  {
    auto f = track_event_file::create(file);
    must(f.has_value(), "cannot write the trace");
    const auto node = f->process("n1"), role = f->track_in(node, "worker0/conv1");
    for (int n = 0; n < 5; ++n)
      f->slice(role, time_point(n * 1000), time_point(n * 1000 + 500), n % 2 ? "forward" : "backward",
               {.flow = 3, .numbers = {{{"step", n}, {"packet", 2}, {"bytes", 1 << 20}}}});
    f->instant(role, time_point(5000), trace_job::name, {.texts = {{{"text", "[job]\n"}, {"nodes", "n1 cpu:0\n"}}}});
    f->value(f->counter_in(node, "queue", track_event_file::unit::count), time_point(6000), -3);
    must(f->finish().has_value(), "cannot write the trace");
  }
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(file);
  return {bytes};
}

const entry trace_entry({"trace", read_pftrace, sound_trace});

}  // namespace
}  // namespace troupe::fuzz
