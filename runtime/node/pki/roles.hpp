// What a certificate says of whom it is made out to: the organizational unit of its subject. The CA
// has none; one certificate has one.
//
//   node       a daemon. Its common name is the node's
//   admin      everything
//   submit     looks, submits jobs, and steers, stops and fetches those that it has submitted
//   exchange   enters rooms of the exchange, and nothing else
//   watch      looks
//
// Clients' common names are "client", or "client.NAME"; no node's is. Certificates from before
// there were roles have no unit: such a one is a node's, or that of the one operator whom there
// was, who may do everything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

enum class certificate_role : std::uint8_t { node, admin, submit, exchange, watch };
constexpr std::uint8_t certificate_roles = 5;

const char* text_of(certificate_role r);
std::optional<certificate_role> client_role_named(std::string_view word);  // any but node
std::string client_roles_text();                                           // "admin, submit, exchange, watch"

// Of a subject with this common name and these units; nothing: no certificate of a cluster looks
// so.
std::optional<certificate_role> role_of_subject(std::string_view common_name, const std::vector<std::string>& units);

// What somebody wants.
enum class right : std::uint8_t {
  look,      // at nodes, jobs, roles; at what jobs say
  run_jobs,  // submit; and of jobs, those of one's own: steer, stop, fetch their weights
  exchange,  // rooms of processes with training loops of their own
  all,       // what is nobody's own
};
bool may(certificate_role r, right what);

// Who says something: a client by the name in its certificate, or a node in a client's stead.
struct person {
  std::string name;
  certificate_role role = certificate_role::node;
};
// Empty: `who` may. Else why not, for people.
std::string why_not(const person& who, right what, const std::string& doing);
std::string why_not_steer(const person& who, std::uint32_t job, const std::string& owner, const std::string& doing);

}  // namespace troupe
