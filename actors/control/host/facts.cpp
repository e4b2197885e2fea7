// What this daemon knows for its page /metrics, without waiting for an actor.
#include "actors/control/host/actors.hpp"
#include "actors/metrics/page.hpp"
#include "ops/cpu/block_pool.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe::control {

metrics_facts facts_of(const shared& s) {
  metrics_facts f;
  f.view = s.published.get();
  f.view.node = s.options.node;
  f.view.gpus = shown(s.gpus->latest());
  f.view.dropped = s.host->counts();
  f.frames = s.route.counts();
  f.view.dropped.unknown_job += f.frames.unknown_job;
  f.view.unreadable = f.frames.unreadable;
  f.view.wrong_source = f.frames.wrong_source;
  f.coordinates = s.coordinates();
  f.roles = s.host->published();
  f.totals = s.totals.all();
  for (const auto& n : s.options.cluster.nodes) f.nodes.insert(n.name);
  f.planes = {{"data", s.data_net->stats()}, {"control", s.control_net->stats()}};
  const auto tensors = cpu::block_pool::statistics_of_all();
  f.pools.push_back({"tensors", tensors.bytes_held, tensors.bytes_in_use, tensors.peak_bytes_in_use});
  for (const auto& p : f.planes) f.pools.push_back({p.name, p.stats.pooled_bytes});
  return f;
}

}  // namespace troupe::control
