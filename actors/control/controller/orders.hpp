// Orders: the actions that cluster_controller and member request of their host, and the results of
// those that take time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/control/client/client.hpp"
#include "actors/control/messages.hpp"
#include "actors/view/injection.hpp"
#include "actors/view/view.hpp"
#include "runtime/job/amend.hpp"

namespace troupe::control {

using instant = std::chrono::steady_clock::time_point;

// Result of the check of a submission, or the facts about a next plan.
struct checked {
  std::vector<std::string> messages;  // not empty: the mistakes; nothing else is set
  std::string name, plan_hash;
  std::vector<std::string> nodes, head = {};  // of the plan; head: lines of job_head(), for clients
  std::uint64_t last_step = 0, steps_per_epoch = 0, batch = 0;
  bool deterministic = true;
  std::shared_ptr<const repl_about> about = {};
  // Keys of the job's text that the coordinator chose ([job] convolution = "measured").
  std::vector<std::string> overrides = {};
  std::vector<std::string> notes = {};  // for the log
  std::string alert = {};               // for those who follow the job, as an event; empty: none
  std::uint64_t room = 0;               // maximum bytes of a file that it starts from
  // With resume = "auto": the newest checkpoint of a job of this name, already at given_path().
  std::optional<given_file> found = {};
  bool continued = false;  // it starts from a file, at step `from`
  std::uint64_t from = 0;
  std::optional<std::uint64_t> max_failures = 0;  // node failures that it survives; none: any number
  std::int64_t replicas = 1;
  std::set<std::string> costly = {};  // nodes whose failure loses state that no other node has
};
using kept_kind = store_effect::kind_of;
struct stored {
  std::uint32_t job = 0;
  kept_kind what = kept_kind::checkpoint;
  std::string path, sha256, error;
};

struct to_peer {
  std::string peer;
  message what;
};
// To the job executor: write a piece of an uploaded file. Answered by on_piece_kept.
struct keep_piece {
  std::uint32_t job = 0;
  std::uint64_t offset = 0;
  std::string bytes;
  given_file given = {};
};
struct drop_given {
  std::uint32_t job = 0;
};
struct drop_beginning {  // a plan has made its first step: its handover is not needed again
  std::uint32_t job = 0;
};
// State after the checkpoint that a job retains when it restarts from that checkpoint.
struct going_back {
  std::vector<set_value> settings;  // by users
  bool paused = false;
  double seconds = 0;                 // since the job began
  bool live = true;                   // surviving state of the remaining nodes may be used
  std::set<std::string> silent = {};  // nodes that cannot report surviving state
};
struct check_text {
  std::uint32_t job = 0;
  job_text what;
  given_file given = {};  // the file that the job starts from
  bool received = false;  // the file is complete on this node
};
// To the job executor: plan a requested change of a running job. Answered by plan_found.
struct check_move {
  std::uint32_t job = 0;
  amendments so_far;
  command wish;
  job_text what = {};  // set if the job's roles have never been made here
  std::uint32_t plan_generation = 0;
  std::optional<going_back> back = {};  // set in recovery: the running plan cannot hand over
};
struct plan_found {
  std::uint32_t job = 0;
  std::string error;  // not empty: why there is no plan; nothing else is set
  amendments changes;
  checked plan;
  mode_choice mode;  // of the plan
  std::uint32_t plan_generation = 0;
  std::uint64_t from = 0;  // in recovery: the step of the saved state
  bool live = false;       // in recovery: surviving state suffices; the coordinator role reports its step
};
struct begin_job {
  std::uint32_t job = 0;
};
struct tell_job {
  std::uint32_t job = 0;
  command what;
};
struct log_line {
  std::string text;
};
// Must be on disk before the orders after it are carried out.
struct journal_line {
  std::string line;
};
struct followed_event {  // an event that was sent to the job's followers
  job_event what;
};
// Of the cluster controller; carried out in the order of the list.
using order = std::variant<to_peer, check_text, keep_piece, drop_given, drop_beginning, check_move, begin_job, tell_job,
                           followed_event, log_line, journal_line>;
using orders = std::vector<order>;

// --- of members

struct connect_data {
  std::string peer, address;
};
struct make_roles {  // answered by on_made
  prepare what;
};
struct end_roles {  // answered by on_gone
  std::uint32_t job = 0;
  end_job why = {};
};
struct make_plan_order {  // answered by on_revised
  revise what;
};
struct swap_roles {  // answered by on_swapped
  swap what;
};
struct forget_plan {
  std::uint32_t job = 0, plan_generation = 0;
};
struct suffer {  // the fault begins now
  injection what;
};
using member_order =
    std::variant<to_peer, connect_data, make_roles, end_roles, make_plan_order, swap_roles, forget_plan, suffer, log_line>;
using member_orders = std::vector<member_order>;

}  // namespace troupe::control
