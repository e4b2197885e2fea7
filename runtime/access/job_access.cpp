#include "runtime/access/job_access.hpp"

#include <array>

namespace troupe {
namespace {

struct route_access {
  bool values;
  const char* doing;
};
// In the order of job_route.
constexpr std::array<route_access, job_route_count> access_by_route = {{
    {false, "follow a job"},
    {false, "look at what roles did"},
    {false, "ask"},
    {true, "see histograms of weights"},
    {true, "fetch weights"},
    {true, "read a recording"},
    {true, "continue from a checkpoint"},
}};

}  // namespace

expected<void> check_read(const person& who, job_route by, std::uint32_t job, const std::string& owner) {
  const auto& a = access_by_route[static_cast<std::size_t>(by)];
  return a.values ? check_steer(who, job, owner, a.doing) : check_right(who, right::look, a.doing);
}

expected<void> check_steer(const person& who, std::uint32_t job, const std::string& owner, const std::string& doing) {
  if (auto fine = check_right(who, right::run_jobs, doing); !fine) return fine;
  if (who.role == certificate_role::admin || (!owner.empty() && who.name == owner)) return {};
  const auto whose = "not allowed: " + doing + ": job " + std::to_string(job);
  if (owner.empty()) return unexpected(error(whose + " has no known owner; admin may"));
  return unexpected(error(whose + " is " + owner + "'s, and " + who.name + " has the role submit; its owner and admin may"));
}

}  // namespace troupe
