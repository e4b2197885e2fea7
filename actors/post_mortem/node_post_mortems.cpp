#include "actors/post_mortem/node_post_mortems.hpp"

#include "runtime/cluster/admission.hpp"

namespace troupe::control {

void node_post_mortems::roles_end(std::shared_ptr<const prepared_job> j, job_origin from, bool swaps) {
  auto now = std::make_unique<failed_job>(host_, std::move(j), std::move(from));
  if (!swaps)
    last_ = std::move(now);
  else if (now->replays())
    before_ = std::move(now);
}

std::string node_post_mortems::job_ended(const end_job& why) {
  const auto last = std::exchange(last_, nullptr), before = std::exchange(before_, nullptr);
  if (why.error.empty() || !last) return {};
  if (before && !last->replays()) write(why, *before);
  return write(why, *last);
}

std::string node_post_mortems::write(const end_job& why, const failed_job& what) const {
  const auto kept = what.write(why.where, why.error, why.step, said_.after(0, number_of(why.job)));
  log_("job " + std::to_string(number_of(why.job)) +
       (kept ? " has failed; post-mortem: " + *kept : ": no post-mortem: " + kept.error().to_string()));
  return kept ? *kept : std::string();
}

}  // namespace troupe::control
