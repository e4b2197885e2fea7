// Writes what the roles on all nodes of a cluster do into one trace file (docs/traces.md), from
// start() until stop(): a thread reads the nodes' records 20 times a second.
// Threads: one of its own; start() and stop() by one at a time. Errors: values. A node that does
// not answer is named in the summary's notes.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>

#include "actors/control/client/node_links.hpp"
#include "runtime/base/result.hpp"
#include "runtime/spec/job_spec.hpp"
#include "runtime/trace/trace_writer.hpp"

namespace troupe {

class cluster_recording {
 public:
  // An error if the file cannot be made or no node answers. Replaces the file.
  // `job`: that the trace is of, if it is known.
  static expected<std::unique_ptr<cluster_recording>> start(const std::filesystem::path& file, const cluster_spec& c,
                                                            const trace_job& job = {});
  ~cluster_recording();
  cluster_recording(const cluster_recording&) = delete;
  cluster_recording& operator=(const cluster_recording&) = delete;

  const std::filesystem::path& file() const;
  // Writes what is left and completes the file. Later calls return the same.
  expected<trace_summary> stop();

 private:
  struct impl;
  explicit cluster_recording(std::unique_ptr<impl> i);
  std::unique_ptr<impl> impl_;
};

// Writes what the roles of all nodes did in the last `span` into a file, as far as the nodes still
// know.
expected<trace_summary> write_latest(const std::filesystem::path& file, node_links& from, std::chrono::seconds span);

}  // namespace troupe
