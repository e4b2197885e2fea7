// Turns activities of roles, of one node or several, into the tracks of a trace:
//
//   a process for each node   a track for each role: its messages as instants, its tasks as slices;
//                             more tracks where tasks overlap; counters of queue, packets, credit
//   a process "links"         a track for each pair of nodes: each message as a slice from sending
//                             to arrival; messages that overlap get tracks of their own
//
// The tasks of one packet are linked by its id (header::id), from the loader through the layers and
// back: the life of a packet.
//
// Activities may be added in any order, those of one role in order of time. Of a message between
// nodes of which only one end is known when `most_under_way` others have followed (it was lost, or
// one node was not recorded), or when a role of a later plan uses its number, the link shows
// nothing; it is counted.
// Threads: one at a time. Errors: none; the file has them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/trace/activity.hpp"
#include "runtime/trace/track_events.hpp"

namespace troupe {

// Where an activity took place. The texts must outlive the timeline.
struct activity_place {
  std::string_view node, role;
  std::string_view peer_node, peer;  // of a message
  // When the plans of both roles began that ran at the time of the activity; 0: unknown. Roles of
  // each plan number their messages from the start.
  time_point since{}, peer_since{};
};

class timeline {
 public:
  static constexpr std::size_t most_under_way = 1 << 16;

  explicit timeline(track_event_file& to) : out_(to) {}
  // `shift` is added to the activity's time.
  void add(const activity& a, const activity_place& at, duration shift = {});
  std::uint64_t activities() const { return activities_; }
  std::uint64_t forgotten() const { return forgotten_; }  // messages between nodes of which only one end is known

 private:
  using track = track_event_file::track;
  // Tracks beside each other, for slices that overlap.
  struct lane {
    track on{};
    time_point free{};  // end of its last slice
  };
  using lanes = std::vector<lane>;
  struct role_tracks {
    track messages{}, queued{}, in_flight{}, credit{};
    lanes tasks;
    std::uint32_t last_queued = 0, last_in_flight = 0;
    std::uint64_t last_credit = 0;
    bool counted = false;
  };
  // The end of a message between nodes that became known first.
  struct message_end {
    activity what;
    activity_place place;
    time_point at{};
  };
  using message_key = std::tuple<std::uint32_t, role_id, std::uint64_t>;  // job, source, number

  role_tracks& tracks_of(const activity_place& at);
  void message(const activity& a, const activity_place& at, const role_tracks& t, time_point when);
  void count(const activity& a, role_tracks& t, time_point when);
  void crossed(const message_end& sent, time_point arrived);
  track node(std::string_view name);
  // The track for a slice from `begin` to `end`; `make` makes one more.
  template <class F>
  static track place(lanes& among, time_point begin, time_point end, F make);

  track_event_file& out_;
  std::map<std::string_view, track> nodes_;
  std::map<std::pair<std::string_view, std::string_view>, role_tracks> roles_;  // by node and role
  std::map<std::pair<std::string_view, std::string_view>, lanes> links_;        // from, to
  std::map<message_key, message_end> under_way_;
  std::deque<message_key> order_;
  track links_process_{};
  std::uint64_t activities_ = 0, forgotten_ = 0;
};

}  // namespace troupe
