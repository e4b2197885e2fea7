#include "runtime/cost/suggest.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "runtime/cost/plan_traffic.hpp"

namespace troupe {
namespace {

using std::size_t;

// By layer: 0 by batch, 1 by feature, 2 + k whole on node `hosts[k]`.
using choices = std::vector<size_t>;

double flops_of(const model_graph& g, const role_plan& r) {
  double sum = 0;
  for (size_t i = 0; i < r.layers.size(); ++i) {
    const auto* part = r.parts.empty() ? nullptr : r.parts[i].get();
    const auto& l = part ? part->as : g.layers[r.layers[i]];
    if (l.in_train) sum += 3 * l.maths->flops(l.in);  // backward takes twice the work of forward
  }
  return sum;
}

class search {
 public:
  search(const job_spec& job, const model_graph& g, const std::vector<node_spec>& nodes, const suggest_rates& rates,
         const plan_options& options)
      : job_(job), g_(g), nodes_(nodes), rates_(rates), options_(options) {
    job_.pipeline.fuse = "auto";  // fewer roles, the same bytes
    for (auto& l : job_.layers) {
      l.partition = "batch";
      l.place.clear();
      l.fraction.clear();
      for (const char* key : {"partition", "place", "fraction"}) l.key_at.erase(key);
    }
    for (auto& l : g_.layers)
      if (l.spec) l.spec = &job_.layers[static_cast<size_t>(l.spec - job.layers.data())];
    for (const auto& l : g_.layers)
      if (l.spec && std::any_of(l.params.begin(), l.params.end(), [&](auto p) { return g_.params[p].spec.trainable; }))
        layers_.push_back(l.index);
    for (size_t n = 0; n < nodes_.size(); ++n) {
      nodes_[n].memory_limit = 0;
      const auto& roles = nodes_[n].roles;
      const bool works = std::find(roles.begin(), roles.end(), "worker") != roles.end();
      if (!works || !seen_worker_) hosts_.push_back(n);  // nodes with a worker are interchangeable
      seen_worker_ = seen_worker_ || works;
    }
  }

  suggestion run() {
    suggestion s;
    choices now(layers_.size(), 0);
    const auto as_it_is = price(now);
    if (!as_it_is) return s;
    s.by_batch = s.suggested = *as_it_is;
    while (improve(now, s.suggested)) {
    }
    s.plans = plans_;
    entries(now, s);
    return s;
  }

 private:
  layer_spec& spec_of(size_t k) { return job_.layers[static_cast<size_t>(g_.layers[layers_[k]].spec - job_.layers.data())]; }

  // Empty if there is no such plan.
  std::optional<suggestion::cost> price(const choices& c) {
    for (size_t k = 0; k < c.size(); ++k) {
      auto& l = spec_of(k);
      l.partition = c[k] == 0 ? "batch" : c[k] == 1 ? "feature" : "none";
      l.place.clear();
      if (c[k] >= 2) l.place = {nodes_[hosts_[c[k] - 2]].name};
      l.key_at["partition"] = l.at;
    }
    ++plans_;
    const auto plan = make_plan(job_, g_, nodes_, options_);
    if (!plan) return std::nullopt;
    const auto traffic = bytes_by_node(*plan, g_, job_);
    suggestion::cost out;
    for (const auto* side : {&traffic.sent, &traffic.received})
      for (const auto bytes : *side) out.bytes = std::max(out.bytes, bytes);
    std::vector<double> work(nodes_.size(), 0);
    for (const auto& r : plan->roles)
      if (r.trains())
        work[r.node] += flops_of(g_, r) * static_cast<double>(plan->placed ? r.packets.count : plan->range_of(r.worker).count);
    out.flops = *std::max_element(work.begin(), work.end());
    out.seconds = out.bytes / rates_.bytes_per_second + out.flops / rates_.flops_per_second;
    return out;
  }

  // Applies the best single change to `now`, if that is better by more than a thousandth.
  bool improve(choices& now, suggestion::cost& cost) {
    auto best = now;
    auto least = cost;
    for (size_t k = 0; k < now.size(); ++k)
      for (size_t way = 0; way < 2 + hosts_.size(); ++way)
        for (const bool rest : {false, true}) {
          auto next = now;
          std::fill(next.begin() + static_cast<std::ptrdiff_t>(k),
                    rest ? next.end() : next.begin() + static_cast<std::ptrdiff_t>(k) + 1, way);
          if (next == now) continue;
          const auto c = price(next);
          if (c && c->seconds < least.seconds * 0.999) best = next, least = *c;
        }
    if (best == now) return false;
    now = best;
    cost = least;
    return true;
  }

  void entries(const choices& c, suggestion& s) const {
    const auto size = static_cast<double>(size_of(job_.type())),
               of_parameters = static_cast<double>(size_of(job_.parameter_type()));
    const auto packets = static_cast<double>(job_.pipeline.packets);
    const auto workers =
        static_cast<double>(std::max<std::int64_t>(1, job_.topology.worker_groups * job_.topology.workers_per_group));
    bool left = false;  // a layer so far is not by batch
    for (size_t k = 0; k < c.size(); ++k) {
      const auto& l = g_.layers[layers_[k]];
      suggestion::entry r;
      r.layer = l.index;
      for (auto p : l.params) r.data_parallel += 2 * of_parameters * static_cast<double>(g_.params[p].spec.dims.count());
      for (size_t i = 0; i < l.in.size(); ++i)
        r.model_parallel += (l.grad_in_wanted[i] ? 2 : 1) * size * static_cast<double>(l.in[i].count()) * packets / workers;
      r.flops = 3 * l.maths->flops(l.in) * packets;
      r.partition = c[k] == 0 ? "batch" : c[k] == 1 ? "feature" : "none";
      if (c[k] >= 2) r.place = nodes_[hosts_[c[k] - 2]].name;
      left = left || c[k] != 0;
      r.write = left;
      s.entries.push_back(std::move(r));
    }
  }

  job_spec job_;
  model_graph g_;
  std::vector<node_spec> nodes_;
  suggest_rates rates_;
  plan_options options_;
  std::vector<std::uint32_t> layers_;  // with parameters
  std::vector<size_t> hosts_;          // nodes that may have whole layers
  bool seen_worker_ = false;
  size_t plans_ = 0;
};

}  // namespace

suggestion suggest_places(const job_spec& job, const model_graph& g, const std::vector<node_spec>& nodes,
                          const suggest_rates& rates, const plan_options& options) {
  return search(job, g, nodes, rates, options).run();
}

}  // namespace troupe
