// job_executor: makes the handover with which the next plan starts, from the last saved state, if a
// failed plan cannot hand over.
#include <algorithm>

#include "runtime/coordinator/surviving_state.hpp"
#include "runtime/job/copy.hpp"
#include "runtime/node/executor/job_executor.hpp"

namespace troupe::control {
// Settings that users have made since take effect from the same step as before.
void take_along(handover& h, const going_back& since) {
  h.paused = since.paused;
  for (const auto& s : since.settings) {
    const auto same = [&](const set_value& x) { return x.key == s.key && x.value == s.value && x.from == s.from; };
    if (std::none_of(h.settings.begin(), h.settings.end(), same)) h.settings.push_back(s);
  }
}

// The last saved state: the handover of the running plan if that has made no step; else the newest
// valid checkpoint; else what the job started from, the client's file or the fillers' values.
expected<handover> job_executor::last_kept(const prepared_job& j) {
  if (began_) {
    auto h = *began_->with;
    h.step = began_->step;
    h.named = began_->named;
    return h;
  }
  auto newest = states_->newest(j);
  if (!newest) return unexpected(newest.error().to_string());
  if (*newest) return **std::move(newest);
  if (const auto u = uploads_.find(j.id); u != uploads_.end()) {
    auto own = copy_of(j);
    if (const auto begun = states_->begin(*own, j.id, u->second.what, u->second.overrides); !begun)
      return unexpected(begun.error().to_string());
    return std::move(*own->before);
  }
  handover h;
  if (at_.dev) {
    h.named = initial_weights(j, *at_.dev);
    return h;
  }
  for (const auto& p : j.graph.params) h.named.emplace_back(p.full_name, tensor::declare(p.spec.dims, j.spec.parameter_type()));
  return h;
}

// Returns true if by the plan the surviving nodes have all state that the job needs.
bool job_executor::leaves_enough(const check_move& what) const {
  if (!what.back || !what.back->live) return false;
  const auto& mode = what.so_far.mode.empty() ? job_->spec.train.sync.kind : what.so_far.mode;
  const auto* entry = job_->all->modes.find(mode);
  return entry && check_survivors(job_->plan, job_->graph, entry->left, what.back->silent);
}

// Makes the handover of the plan `j` from the last saved state. Returns its step.
expected<std::uint64_t> job_executor::go_back(const prepared_job& j, const check_move& what) {
  auto kept = last_kept(j);
  if (!kept) return unexpected(kept.error());
  auto h = std::make_shared<handover>(std::move(*kept));
  take_along(*h, *what.back);
  h->seconds = what.back->seconds;
  const auto step = h->step;
  auto named = std::exchange(h->named, {});
  handed_ = {what.plan_generation, {kept_kind::handover, step, std::move(named), std::move(h)}};
  return step;
}

}  // namespace troupe::control
