// Who may say what on the control plane. A peer's name is its certificate's: that of a node, or a
// client's session (net/hello.hpp). What somebody has no right to say changes nothing. Where there
// is an answer that says so it is given; else it is dropped, counted, and told in the log once.
//
//   nodes of the cluster file alone      join, prepared, trouble, ended, leaving, report, revised, swapped
//   the coordinator's daemon alone       joined, prepare, end_job, revise, swap, forget, inject, said, submitted, answer
//   clients alone, as their roles allow (pki/roles.hpp)
//                submit, piece           submit, admin
//                follow                  watch, submit, admin
//                fetch                   of weights: the job's owner, admin
//   clients, and nodes for them          ask: the line's command says who may (actors/repl/command.hpp); what steers a job: its owner, admin
//   frames of the exchange               clients: exchange, admin
//
// A job's owner is who has submitted it, by the name in the certificate. Of what a client asks at
// another node, that node says whose line it is: nodes are believed in this, as in everything that
// they compute.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "actors/control/messages.hpp"
#include "runtime/node/pki/roles.hpp"

namespace troupe::control {

enum class speaker : std::uint8_t { client, asker, node, coordinator };
speaker speaker_of(const message& m);
const char* name_of(const message& m);

// Why a client may not say this, whatever it is about; empty: it may.
std::string why_not(const person& who, const message& m);
// How it is told so; nothing: there is no answer to such a message.
std::optional<message> refusal_of(const message& m, const std::string& why);

// The same of a word to a job, whose owner is known.
std::string why_not_tell(const person& who, std::uint32_t job, const std::string& owner, const std::string& word);

// Whose line it is. `peer`: who has said it, with the role of its certificate; a node says whose
// words it passes on.
person asker_of(const std::string& peer, certificate_role role, const ask& a);

// What nobody had a right to say, so far.
class unheeded {
 public:
  // Counts one. The line for the log: of each certificate the first.
  std::optional<std::string> note(const std::string& from, const message& m, const std::string& why);
  std::uint64_t count() const { return count_; }

 private:
  std::uint64_t count_ = 0;
  std::set<std::string> notified_;
};

}  // namespace troupe::control
