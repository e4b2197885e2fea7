// Where the roles of activities are, and what they are called: the names that recorders keep
// (activity_names), of one node or several.
// A value. Threads: one at a time. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/trace/recorder.hpp"
#include "runtime/trace/timeline.hpp"

namespace troupe {

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

}  // namespace troupe
