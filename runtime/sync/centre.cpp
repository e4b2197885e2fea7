#include "runtime/sync/centre.hpp"

namespace troupe {

centre_shard::centre_shard(sync_config c, const update_list& steps)
    : shard_sync(std::move(c), gives::state, steps), lines_(config_.plan->blocks.size()) {
  for (const auto& b : blocks_.list()) lines_[b.plan->id].pushed.assign(workers(), config_.first_step);
}

void centre_shard::on_push(const header& h, const push& p, shard_block& b, effects& out) {
  const auto worker = worker_of(h.src);
  auto& l = lines_[b.plan->id];
  if (worker >= workers()) return drop(drop_reason::misaddressed);
  if (h.step <= l.pushed[worker]) return drop(drop_reason::repeated);
  l.pushed[worker] = h.step;
  l.waiting.push_back({h, p.sum});
  serve(b, out);
}

void centre_shard::on_fetch(const header& h, const fetch&, shard_block& b, effects& out) {
  lines_[b.plan->id].waiting.push_back({h, {}});
  serve(b, out);
}

void centre_shard::serve(shard_block& b, effects& out) {
  auto& l = lines_[b.plan->id];
  while (!l.busy && !l.waiting.empty()) {
    const auto r = std::move(l.waiting.front());
    l.waiting.pop_front();
    if (!r.value && hold(r.h, b)) {
      l.held.push_back(r);
      continue;
    }
    if (!r.value) {
      auto h = to(r.h.src);
      h.version = b.version;
      h.step = r.h.step;
      out.send({h, weights{b.plan->id, b.value}});
      continue;
    }
    l.busy = true;
    apply(r.h, r.value, b, out);
  }
}

void centre_shard::done(shard_block& b, effects& out) {
  auto& l = lines_[b.plan->id];
  l.busy = false;
  // Fetches are held until the exchange is complete, which releases all of them.
  if (!l.held.empty() && !hold(l.held.front().h, b)) {
    l.waiting.insert(l.waiting.begin(), l.held.begin(), l.held.end());
    l.held.clear();
  }
  serve(b, out);
}

bool centre_shard::quiet(std::uint64_t) {
  for (const auto& l : lines_)
    if (l.busy || !l.waiting.empty() || !l.held.empty()) return false;
  return tasks_.size() == 0;
}

role_status centre_shard::status() const {
  auto s = shard_sync::status();
  for (const auto& l : lines_) s.queued += static_cast<std::uint32_t>(l.waiting.size());
  return s;
}

}  // namespace troupe
