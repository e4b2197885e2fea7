#include "runtime/trace/trace_writer.hpp"

#include <algorithm>

namespace troupe {

void describe(track_event_file& to, const trace_job& j) {
  if (j.text.empty()) return;
  to.instant(to.track_in(to.process("troupe"), "job"), {}, trace_job::name, {.texts = {{{"text", j.text}, {"nodes", j.nodes}}}});
}

std::string trace_summary_text(const trace_summary& s) {
  auto text = s.file + ": " + std::to_string(s.activities) + " messages, tasks and states; open it in ui.perfetto.dev";
  if (s.lost > 0) text += "\n" + std::to_string(s.lost) + " are missing: roles were faster than the trace could be written";
  for (const auto& note : s.notes) text += "\n" + note;
  return text;
}

expected<std::unique_ptr<trace_writer>> trace_writer::create(const std::filesystem::path& file) {
  auto out = track_event_file::create(file);
  if (!out) return unexpected(std::move(out).error());
  return std::unique_ptr<trace_writer>(new trace_writer(file, *std::move(out)));
}

void trace_writer::add(const std::string& node, std::vector<activity> all, duration shift) {
  std::stable_sort(all.begin(), all.end(), [](const activity& a, const activity& b) { return a.at < b.at; });
  for (const auto& a : all)
    if (a.at + shift >= time_point{}) lines_.add(a, names_.place(node, a, shift), shift);
}

expected<trace_summary> trace_writer::finish() {
  if (const auto written = out_.finish(); !written) return unexpected(error(file_.string() + ": " + written.error().text));
  return trace_summary{file_.string(), lines_.activities(), lost_};
}

}  // namespace troupe
