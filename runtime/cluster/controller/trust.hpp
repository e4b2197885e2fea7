// Which peer may send which message on the control plane. A peer's name is that of its certificate:
// a node, or a client's session (net/hello.hpp). A message without permission changes nothing. It
// gets a refusal if there is an answer to it; else it is dropped, counted, and logged once per
// certificate.
//
//   nodes of the cluster file     join, prepared, trouble, ended, leaving, report, revised, swapped
//   the coordinator's daemon      joined, prepare, end_job, revise, swap, forget, inject, said,
//                                 submitted, answer, looked
//   clients, by role (runtime/access/roles.hpp):
//     submit, piece               submit, admin
//     follow, look                watch, submit, admin
//     fetch                       of weights: the job's owner, admin
//     look                        of a recording: the job's owner, admin (host/looks.cpp)
//     frames of the exchange      exchange, admin
//   clients, and nodes for them   ask: its command decides (actors/repl/command.hpp); commands that
//                                 steer a job: its owner, admin
//
// Who may read what of a job: runtime/access/job_access.hpp.
//
// The owner of a job is the client that submitted it, by the name in its certificate. If a client
// asks at another node, that node reports the client's name; nodes are trusted in this as in
// everything that they compute.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "runtime/access/roles.hpp"
#include "runtime/base/result.hpp"
#include "runtime/cluster/messages.hpp"
#include "runtime/messages/command.hpp"

namespace troupe::control {

enum class speaker : std::uint8_t { client, asker, node, coordinator };
speaker speaker_of(const message& m);
const char* name_of(const message& m);

// An error if a client may not send this message. `owner`: of the job that a `fetch` names; empty
// if it is unknown.
expected<void> check_message(const person& who, const message& m, const std::string& owner = {});
// The answer that refuses the message; nullopt: such a message has no answer.
std::optional<message> refusal_of(const message& m, const std::string& why);

// An error if a client may not send the command to a job of this owner.
expected<void> check_command(const person& who, std::uint32_t job, const std::string& owner, const command& c);

// The person that entered the line. `peer`: the sender, with the role of its certificate; a node
// names the person whose line it forwards.
person asker_of(const std::string& peer, certificate_role role, const ask& a);

// The messages that were dropped for lack of permission.
class unheeded {
 public:
  // Counts one message. Returns a log line for the first one of each certificate.
  std::optional<std::string> note(const std::string& from, const message& m, const std::string& why);
  std::uint64_t count() const { return count_; }

 private:
  std::uint64_t count_ = 0;
  std::set<std::string> notified_;
};

}  // namespace troupe::control
