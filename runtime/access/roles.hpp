// The role in a certificate: the organizational unit of its subject. The CA has none; every other
// certificate has one.
//
//   node       a daemon; its common name is the node's
//   admin      everything
//   submit     look, submit jobs, and steer, stop and fetch the jobs that it has submitted
//   exchange   enter rooms of the exchange, and nothing else
//   watch      look
//
// The common name of a client is "client" or "client.NAME"; a node cannot have such a name.
// Certificates made before there were roles have no unit. Such a certificate belongs to a node or,
// with the common name "client", to the only operator, which has the role admin.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe {

enum class certificate_role : std::uint8_t { node, admin, submit, exchange, watch };
constexpr std::uint8_t certificate_roles = 5;

const char* text_of(certificate_role r);
std::optional<certificate_role> client_role_named(std::string_view word);  // any but node
std::string client_roles_text();                                           // "admin, submit, exchange, watch"

// The role of a subject with this common name and these units. Empty if no certificate of a cluster
// has such a subject.
std::optional<certificate_role> role_of_subject(std::string_view common_name, const std::vector<std::string>& units);

// A right that a command needs.
enum class right : std::uint8_t {
  look,      // at nodes, jobs, roles and the results of jobs (job_access.hpp)
  run_jobs,  // submit; and of the client's jobs: steer, stop, read their weights
  exchange,  // rooms of processes with training loops outside Troupe
  all,       // everything else
};
bool may(certificate_role r, right what);

// The sender of a command: a client by the name in its certificate, or a node on behalf of a
// client.
struct person {
  std::string name;
  certificate_role role = certificate_role::node;
};
// An error, for users, if `who` may not do it.
expected<void> check_right(const person& who, right what, const std::string& doing);

}  // namespace troupe
