#include "runtime/cluster/controller/trust.hpp"

#include <array>
#include <variant>

#include "runtime/access/job_access.hpp"
#include "runtime/access/names.hpp"
#include "runtime/cluster/admission.hpp"

namespace troupe::control {
namespace {

// Bounds `notified_`: there may be any number of certified nodes that the cluster file does not
// name.
constexpr std::size_t max_told = 256;

struct spoken {
  const char* name;
  speaker who;
};

// In the order of `message`.
constexpr auto all_spoken = [] {
  using enum speaker;
  return std::array<spoken, std::variant_size_v<message>>{{
      {"join", node},           {"joined", coordinator}, {"submit", client},      {"submitted", coordinator},
      {"prepare", coordinator}, {"prepared", node},      {"trouble", node},       {"end_job", coordinator},
      {"ended", node},          {"leaving", node},       {"report", node},        {"said", coordinator},
      {"follow", client},       {"fetch", client},       {"piece", client},       {"ask", asker},
      {"answer", coordinator},  {"revise", coordinator}, {"revised", node},       {"swap", coordinator},
      {"swapped", node},        {"forget", coordinator}, {"inject", coordinator}, {"look", client},
      {"looked", coordinator},
  }};
}();
static_assert(all_spoken.back().name != nullptr, "a message has no entry");

}  // namespace

speaker speaker_of(const message& m) { return all_spoken[m.index()].who; }
const char* name_of(const message& m) { return all_spoken[m.index()].name; }

expected<void> check_message(const person& who, const message& m, const std::string& owner) {
  if (std::holds_alternative<submit>(m)) return check_right(who, right::run_jobs, "submit a job");
  if (std::holds_alternative<piece>(m)) return check_right(who, right::run_jobs, "send the file that a job begins with");
  if (const auto* f = std::get_if<fetch>(&m)) return check_read(who, job_route::weights, number_of(f->job), owner);
  if (std::holds_alternative<follow>(m)) return check_read(who, job_route::follow);
  if (std::holds_alternative<look>(m)) return check_read(who, job_route::look);
  return {};
}

expected<void> check_command(const person& who, std::uint32_t job, const std::string& owner, const command& c) {
  if (c.is<staleness_command>()) return check_read(who, job_route::query);  // queries, though roles answer them
  if (c.is<histograms_command>()) return check_read(who, job_route::histograms, job, owner);
  return check_steer(who, job, owner, name_of(c));
}

std::optional<message> refusal_of(const message& m, const std::string& why) {
  if (const auto* s = std::get_if<submit>(&m)) return submitted{s->ask, 0, {why}};
  if (std::holds_alternative<follow>(m)) return submitted{0, 0, {why}};
  if (const auto* l = std::get_if<look>(&m)) return looked{.id = l->id, .refusal = why};
  if (const auto* f = std::get_if<fetch>(&m)) return piece{f->job, f->offset, 0, {}, why};
  return std::nullopt;
}

person asker_of(const std::string& peer, certificate_role role, const ask& a) {
  if (role != certificate_role::node) return {operator_of(peer), role};
  if (a.whose.empty() || a.role == 0 || a.role >= certificate_roles) return {peer, certificate_role::node};
  return {a.whose, certificate_role{a.role}};
}

std::optional<std::string> unheeded::note(const std::string& from, const message& m, const std::string& why) {
  ++count_;
  const auto certificate = is_operator(from) ? std::string(client_name) + "." + operator_of(from) : from;
  if (notified_.size() >= max_told || !notified_.insert(certificate).second) return std::nullopt;
  return from + " must not send '" + name_of(m) + "': " + why +
         "; message dropped, further violations by this peer will not be logged";
}

}  // namespace troupe::control
