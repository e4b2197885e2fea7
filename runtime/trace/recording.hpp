// Writes what the roles of one host do into a trace file (track_events.hpp), from start() until
// stop(): a thread takes the activities from the recorder 20 times a second.
//
//   auto r = trace_recording::start("run.pftrace", *host.activities(), "local").value();
//   ...
//   auto s = r->stop();          // before the host ends
//
// Threads: one of its own; start() and stop() by one at a time. Errors: values.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/base/result.hpp"
#include "runtime/trace/recorder.hpp"
#include "runtime/trace/trace_writer.hpp"

namespace troupe {

class trace_recording {
 public:
  // `from` must outlive the object. Replaces the file.
  static expected<std::unique_ptr<trace_recording>> start(const std::filesystem::path& file, const activity_recorder& from,
                                                          const std::string& node, const trace_job& job = {});
  ~trace_recording();
  trace_recording(const trace_recording&) = delete;
  trace_recording& operator=(const trace_recording&) = delete;

  const std::filesystem::path& file() const;
  // Writes what is left and completes the file. Later calls return the same.
  expected<trace_summary> stop();

 private:
  struct impl;
  explicit trace_recording(std::unique_ptr<impl> i);
  std::unique_ptr<impl> impl_;
};

// Writes what roles did in the last `span` into a file, as far as the recorder still knows.
expected<trace_summary> write_latest(const std::filesystem::path& file, const activity_recorder& from, const std::string& node,
                                     duration span);

}  // namespace troupe
