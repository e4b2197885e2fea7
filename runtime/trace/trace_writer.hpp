// A trace file that is made of the activities of one node or several (timeline.hpp).
// Errors: values; the first one of writing is returned by finish().
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/trace/recorder.hpp"
#include "runtime/trace/timeline.hpp"
#include "runtime/trace/track_events.hpp"

namespace troupe {

// Where the roles of activities are, and what they are called: the names that recorders keep
// (activity_names), of one node or several.
class role_names {
 public:
  // The plans of one node, in order of time; replaces earlier ones of the node. `shift`: added to
  // its times.
  void set(const std::string& node, std::vector<activity_names> plans, duration shift = {});
  // An unknown role is called "role 7 of job 1"; a message from outside the job has no peer. The
  // texts stay until this object ends.
  activity_place place(const std::string& node, const activity& a, duration shift = {});

 private:
  struct named {
    time_point since{};
    std::string_view node, role;  // in texts_
  };
  const named* find(std::uint32_t job, role_id role, time_point at) const;
  // When the plan of that name began; 0: the plan of this time has no name any more.
  static time_point known_since(const named& n, time_point at);
  std::string_view kept(const std::string& text) { return *texts_.insert(text).first; }
  std::set<std::string> texts_;
  std::map<std::string, std::vector<activity_names>> plans_;                 // by node; shifted
  std::map<std::pair<std::uint32_t, role_id>, std::vector<named>> by_role_;  // of plans_, by job and role; in order of time
};

struct trace_summary {
  std::string file;
  std::uint64_t activities = 0;
  std::uint64_t lost = 0;               // overwritten before they were read: roles were faster than the reader
  std::vector<std::string> notes = {};  // for the user, such as a node that is not in the trace
};

// The job of a trace, for `troupe critical`. In the file it is an instant of this name, with both
// texts (runtime/node/trace_jobs.hpp).
struct trace_job {
  static constexpr const char* name = "job";
  std::string text = {};   // of a job file
  std::string nodes = {};  // a line for each node
};
void describe(track_event_file& to, const trace_job& j);

// Lines for the user.
std::string trace_summary_text(const trace_summary& s);

class trace_writer {
 public:
  // Replaces the file.
  static expected<std::unique_ptr<trace_writer>> create(const std::filesystem::path& file);
  trace_writer(const trace_writer&) = delete;
  trace_writer& operator=(const trace_writer&) = delete;

  const std::filesystem::path& file() const { return file_; }
  void describe(const trace_job& j) { troupe::describe(out_, j); }
  // The names of the roles of a node's activities, before these are added. `shift`: of the node's
  // times to those of the file.
  void name(const std::string& node, std::vector<activity_names> plans, duration shift) {
    names_.set(node, std::move(plans), shift);
  }
  // Adds activities of a node, of a time after those added before; sorts them. Those before the
  // beginning of the file are left out. A message between nodes belongs to both.
  void add(const std::string& node, std::vector<activity> all, duration shift);
  void lost(std::uint64_t n) { lost_ += n; }

  // Completes the file.
  expected<trace_summary> finish();

 private:
  trace_writer(std::filesystem::path file, track_event_file&& out) : file_(std::move(file)), out_(std::move(out)), lines_(out_) {}

  std::filesystem::path file_;
  track_event_file out_;
  role_names names_;  // has the texts of lines_
  timeline lines_;
  std::uint64_t lost_ = 0;
};

}  // namespace troupe
