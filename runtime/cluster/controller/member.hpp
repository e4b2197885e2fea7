// Member: the state machine of a daemon as a member of its cluster. It joins the coordinator's
// daemon, makes its part of a job on request, reports `prepared` once it is connected with every
// other node of the job, and reports failures. Pure; the time is passed in.
//
// If the coordinator's daemon falls silent, it may have been suspended: this node retains the job's
// roles for 30 s and names the job when it joins again.
//
//   out -> joined -> [preparing -> hosting -> ending] -> joined
//   any -> out    the connection to the coordinator's daemon was lost; the job is ended
//
// In addition to the plan that it hosts, a node may have made the job's next one (`revise`). At
// `swap` it ends the roles of the former and begins those of the latter. A node that the next plan
// does not use has finished with the job then; a node that only the next plan uses begins with it.
//
// Invariants: one job at a time; `prepared` is sent once per job; a job is over here only when its
// roles have ended.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "runtime/cluster/controller/orders.hpp"

namespace troupe::control {

// How often a node reports its state. The coordinator's daemon handles the reports of all nodes: of
// many nodes each reports less often, and a node without roles has little to report.
constexpr std::chrono::milliseconds report_interval(bool has_roles, std::size_t nodes) {
  constexpr std::size_t many = 32;
  return std::chrono::milliseconds(!has_roles ? 1000 : nodes > many ? 500 : 250);
}

// A plan of a job with roles on this node. Not nested in member: clang 14 considers a nested one
// not constructible.
struct hosted_plan {
  prepare what;
  bool made = false, answered = false, ending = false;
  std::unordered_map<std::string, std::uint64_t> missing;  // peers without a data connection, and the incarnation that is needed
  bool progressed = false;                                 // a missing peer has connected since the last tick
  instant deadline{};                                      // for the next one
  std::uint32_t plan_generation = 0;                       // of this plan
  std::uint32_t left_at = 0;                               // not 0: ends because the plan of this generation does not use this node
  bool swapping = false;
  end_job why = {};  // why it ends
  bool needs(const std::string& peer) const;
  void found(const std::string& peer, std::uint64_t incarnation);  // a data connection is up
  void lost(const std::string& peer);                              // it is down
  void renew_deadline(instant now);                                // if a peer was found since the last call
  std::string first_missing() const;                               // by name; some peer is missing
};

class member {
 public:
  member(std::string self, std::string coordinator) : self_(std::move(self)), coordinator_(std::move(coordinator)) {}
  void introduce(join introduction) { introduction_ = std::move(introduction); }  // called before on_coordinator_up
  void allow_injections() { may_inject_ = true; }

  void on(const message& m, instant now, member_orders& out);
  void on_coordinator_up(member_orders& out);
  void on_coordinator_down(const std::string& reason, member_orders& out);
  void on_data_up(const std::string& peer, std::uint64_t incarnation, member_orders& out);
  void on_data_down(const std::string& peer, const std::string& reason, member_orders& out);
  void on_made(std::uint32_t job, const std::string& error, member_orders& out);
  void on_gone(std::uint32_t job, std::uint64_t tcp_bytes, instant now, member_orders& out, const std::string& post_mortem = {});
  void on_revised(std::uint32_t job, std::uint32_t plan_generation, const std::string& error, member_orders& out);
  void on_swapped(std::uint32_t job, std::uint32_t plan_generation, const std::string& error, member_orders& out);
  void on_tick(instant now, member_orders& out);
  void on_role_error(std::uint32_t job, const error_event& e, member_orders& out);
  void drain(member_orders& out);

  bool joined() const { return joined_; }
  bool hosts() const { return job_.has_value(); }  // true: roles of a job
  bool idle() const { return !job_ && !plan_generation_; }
  const std::string& refusal() const { return refusal_; }

 private:
  void take(const prepare& p, instant now, member_orders& out);
  void take(const revise& r, instant now, member_orders& out);
  void take(const swap& s, member_orders& out);
  void take_end(const end_job& why, member_orders& out);
  void take(const inject& i, instant now, member_orders& out);
  void drop_generation(member_orders& out);
  void connect(hosted_plan& h, member_orders& out);
  void dial_again(const hosted_plan& h, const std::string& peer, member_orders& out) const;
  void answer_generation(std::string error, member_orders& out, const std::string& peer = {});
  void begin(prepare p, instant now, member_orders& out);
  void answer(std::string error, member_orders& out, const std::string& peer = {});
  void end(member_orders& out);
  bool keep_roles(const std::string& reason);
  void drop_kept(instant now, member_orders& out);
  void introduce_again(member_orders& out);
  void look_after_injected(instant now, member_orders& out);
  void say(message m, member_orders& out) { out.push_back(to_peer{coordinator_, std::move(m)}); }

  const std::string self_, coordinator_;
  join introduction_;
  bool joined_ = false;
  struct {
    bool roles = false;        // roles are retained while the coordinator's daemon is silent
    bool just_joined = false;  // with retained roles, and the coordinator has ordered nothing since
    std::optional<instant> until;
    bool joins_again = false;  // when the roles have ended
  } keeps_;
  std::string refusal_;
  std::optional<hosted_plan> job_;
  std::optional<hosted_plan> plan_generation_;  // the job's next plan
  std::optional<prepare> next_;                 // received while the former job's roles were ending
  std::unordered_map<std::string, std::uint64_t> data_up_;
  struct injected {
    injection what;
    instant begins{}, ends{};
    bool begun = false;
  };
  bool may_inject_ = false;
  std::vector<injected> injected_;  // not over yet
};

}  // namespace troupe::control
