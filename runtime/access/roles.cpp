#include "runtime/access/roles.hpp"

#include <array>

#include "runtime/access/names.hpp"

namespace troupe {
namespace {

constexpr std::array<const char*, certificate_roles> role_names = {"node", "admin", "submit", "exchange", "watch"};

// The roles that have a right, for a refusal.
const char* who_may(right what) {
  switch (what) {
    case right::look: return "watch, submit and admin";
    case right::run_jobs: return "submit and admin";
    case right::exchange: return "exchange and admin";
    case right::all: break;
  }
  return "admin";
}

}  // namespace

const char* text_of(certificate_role r) { return role_names[static_cast<std::uint8_t>(r)]; }

std::optional<certificate_role> client_role_named(std::string_view word) {
  for (std::uint8_t i = 1; i < certificate_roles; ++i)
    if (word == role_names[i]) return certificate_role{i};
  return std::nullopt;
}

std::string client_roles_text() {
  std::string text;
  for (std::uint8_t i = 1; i < certificate_roles; ++i) text += (text.empty() ? "" : ", ") + std::string(role_names[i]);
  return text;
}

std::optional<certificate_role> role_of_subject(std::string_view common_name, const std::vector<std::string>& units) {
  if (common_name.empty() || units.size() > 1) return std::nullopt;
  if (!is_operator(common_name)) {
    if (units.empty() || units[0] == text_of(certificate_role::node)) return certificate_role::node;
    return std::nullopt;
  }
  if (!units.empty()) return client_role_named(units[0]);
  if (common_name == client_name) return certificate_role::admin;
  return std::nullopt;
}

bool may(certificate_role r, right what) {
  switch (r) {
    case certificate_role::node: return false;
    case certificate_role::admin: return true;
    case certificate_role::submit: return what == right::look || what == right::run_jobs;
    case certificate_role::exchange: return what == right::exchange;
    case certificate_role::watch: return what == right::look;
  }
  return false;
}

expected<void> check_right(const person& who, right what, const std::string& doing) {
  if (may(who.role, what)) return {};
  if (who.role == certificate_role::node)
    return unexpected(error(doing + ": not allowed for the role node; " + who_may(what) + " may"));
  return unexpected(error("not allowed: " + doing + ": the certificate of " + who.name + " has the role " + text_of(who.role) +
                          "; " + who_may(what) + " may"));
}

}  // namespace troupe
