#include "actors/page/rights.hpp"

#include <array>

namespace troupe {
namespace {

constexpr std::array<const char*, 3> page_role_names = {"observer", "operator", "admin"};

}  // namespace

const char* text_of(page_role r) { return page_role_names[static_cast<std::size_t>(r)]; }

std::optional<page_role> page_role_named(std::string_view word) {
  for (std::size_t i = 0; i < page_role_names.size(); ++i)
    if (word == page_role_names[i]) return static_cast<page_role>(i);
  return std::nullopt;
}

std::string page_roles_text() {
  std::string text;
  for (const auto* name : page_role_names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

bool may(page_role r, right what) {
  switch (what) {
    case right::look: return true;
    case right::run_jobs: return r != page_role::observer;
    case right::exchange:
    case right::all: return r == page_role::admin;
  }
  return false;
}

expected<void> page_backend::check(right what, const std::string& doing) const {
  if (may(role_, what)) return inner_.check(what, doing);
  return unexpected(error("not allowed: " + doing + ": this page has the role " + text_of(role_) + "; " +
                          (what == right::run_jobs ? "operator and admin" : "admin") + " may"));
}

expected<command_id> page_backend::tell(std::uint32_t job, command c) {
  const bool asks = c.is<staleness_command>() || c.is<histograms_command>();  // queries, though roles answer them
  if (auto fine = check(asks ? right::look : right::run_jobs, "steer a job"); !fine) return unexpected(std::move(fine).error());
  return inner_.tell(job, std::move(c));
}

expected<std::uint32_t> page_backend::submit(const repl_submission&) {
  return unexpected(error("jobs cannot be submitted from the page: use `troupe train --cluster`, or `submit` in the REPL"));
}

expected<void> page_backend::inject(const injection& i) {
  if (auto fine = check(right::all, "inject"); !fine) return fine;
  return inner_.inject(i);
}

}  // namespace troupe
