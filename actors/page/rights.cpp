#include "actors/page/rights.hpp"

#include <array>

namespace troupe {
namespace {

constexpr std::array<const char*, 3> page_role_names = {"observer", "operator", "admin"};

// A page is no job's owner: an observer reads as the certificate role watch, the others as admin.
person reader_of_page(page_role r) {
  return {"page", r == page_role::observer ? certificate_role::watch : certificate_role::admin};
}

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

expected<void> page_backend::check_read(job_route by, std::uint32_t job) const {
  if (auto fine = troupe::check_read(reader_of_page(role_), by, job); !fine)
    return unexpected(error("not allowed: this page has the role " + std::string(text_of(role_)) + "; operator and admin may"));
  return inner_.check_read(by, job);
}

expected<command_id> page_backend::tell(std::uint32_t job, command c) {
  expected<void> fine;  // queries are commands too, because roles answer them
  if (c.is<staleness_command>())
    fine = check_read(job_route::query, job);
  else if (c.is<histograms_command>())
    fine = check_read(job_route::histograms, job);
  else
    fine = check(right::run_jobs, "steer a job");
  if (!fine) return unexpected(std::move(fine).error());
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
