// Who may read what of a job: a law over every certificate role, owner and route.
#include "runtime/access/job_access.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/error_text.hpp"

namespace troupe {
namespace {

constexpr std::uint8_t role_count = certificate_roles;

// Routes that lead to weights, or to what they can be computed from.
bool leads_to_weights(job_route by) {
  switch (by) {
    case job_route::follow:
    case job_route::look:
    case job_route::query: return false;
    case job_route::histograms:
    case job_route::weights:
    case job_route::recording:
    case job_route::resume: return true;
  }
  return true;
}

bool expected_to_read(const person& who, job_route by, const std::string& owner) {
  if (who.role == certificate_role::admin) return true;
  if (who.role == certificate_role::submit) return !leads_to_weights(by) || (!owner.empty() && who.name == owner);
  return who.role == certificate_role::watch && !leads_to_weights(by);
}

TEST(job_access, weights_are_read_by_the_jobs_owner_and_admin_on_every_route) {
  const std::string names[] = {"alice", "bob", "al", "alice2", "Alice", "page", "client", ""};
  int read = 0, refused = 0;
  for (std::uint8_t role = 0; role < role_count; ++role)
    for (const auto& name : names)
      for (const auto& owner : names)
        for (std::uint8_t r = 0; r < job_route_count; ++r) {
          const person who{name, certificate_role{role}};
          const auto by = job_route{r};
          const auto fine = check_read(who, by, 7, owner);
          EXPECT_EQ(fine.has_value(), expected_to_read(who, by, owner))
              << name << " with the role " << text_of(who.role) << ", job of '" << owner << "', route " << int{r};
          (fine ? read : refused) += 1;
          if (!fine && who.role != certificate_role::node) {
            EXPECT_EQ(fine.error().text.rfind("not allowed: ", 0), 0u) << fine.error().text;
          }
        }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

TEST(job_access, a_refusal_names_the_owner_or_says_that_it_is_unknown) {
  const person bob{"bob", certificate_role::submit}, eve{"eve", certificate_role::watch};
  EXPECT_EQ(test::error_text(check_read(bob, job_route::recording, 3, "alice")),
            "not allowed: read a recording: job 3 is alice's, and bob has the role submit; its owner and admin may");
  EXPECT_EQ(test::error_text(check_read(bob, job_route::recording, 3, "")),
            "not allowed: read a recording: job 3 has no known owner; admin may");
  EXPECT_EQ(test::error_text(check_read(eve, job_route::recording, 3, "eve")),
            "not allowed: read a recording: the certificate of eve has the role watch; submit and admin may")
      << "eve had another role when she submitted the job";
}

TEST(job_access, a_job_continues_only_from_checkpoints_of_its_owner) {
  const std::string names[] = {"alice", "bob", "client", ""};
  for (const auto& job : names)
    for (const auto& kept : names)
      EXPECT_EQ(check_read(reader_of_job(job), job_route::resume, 0, kept).has_value(), !kept.empty() && job == kept)
          << "job of '" << job << "', checkpoint of '" << kept << "'";
}

}  // namespace
}  // namespace troupe
