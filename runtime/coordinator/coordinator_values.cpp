// What the coordinator reports about the values of the weights: the weights of the best evaluation
// (best_weights), and histograms of weights and gradients (histogram_sheets).
#include <memory>
#include <utility>

#include "ops/device.hpp"
#include "ops/finite.hpp"
#include "runtime/base/invariant.hpp"
#include "runtime/coordinator/coordinator.hpp"

namespace troupe {

// --- best weights

// A round is complete. If its weights are the best so far, they are stored: the final weights that
// were collected for this round at once; weights of a boundary, at which training is stopped, with
// a collection there; otherwise those that the tester has, while training continues.
void coordinator::rate_round(const verdict& v, effects& out) {
  if (!best_.note({evaluation_.past().evaluated, v.accuracy, v.loss})) return;
  if (written_)
    return store_best(written_->weights_or_average(*config_.graph, config_.average.evaluated), written_->not_finite, out);
  if (evaluation_.weights_evaluated(completed())) return boundary_.want_best();
  best_.fetch(evaluation_.past().rounds);
  out.send({to(config_.plan->tester), collect{evaluation_.past().rounds, false}});
}

void coordinator::store_best(named_tensors named, const std::string& not_finite, effects& out) {
  if (!not_finite.empty()) {
    best_.give_up();
    return out.event(completed(),
                     alert_event{"'" + not_finite + "' is not finite: the weights of the best evaluation are not stored"});
  }
  const auto best = best_.stored();
  out.store({store_effect::kind_of::best, best.step, std::move(named)});
  out.event(best.step, best_event{best.accuracy, best.loss});
}

// The tester sends the weights of a round, layer by layer. They are in host memory (crossing.hpp),
// unless the tester is on this role's device.
void coordinator::take_evaluated(const header& h, const layer_weights& w, effects& out) {
  if (h.src != config_.plan->tester) return drop(drop_reason::misaddressed);
  if (!best_.take(h.version, w, *config_.graph, config_.type)) return drop(drop_reason::outdated);
  if (!best_.complete(*config_.graph)) return;
  fetched_ = std::make_shared<fetched_weights>();
  fetched_->named = best_.named(*config_.graph);
  const auto bytes = 4.0 * static_cast<double>(config_.graph->parameter_count);
  out.run(
      [all = fetched_](task_context& c) {
        for (auto& [name, value] : all->named) {
          look_for_not_finite(c.dev, value, [all, name = name] { all->not_finite = name; });
          value = brought_home(c.dev, value);
        }
      },
      {0, bytes, "collect"}, best_token);
}

void coordinator::evaluated_checked(effects& out) {
  const auto all = std::exchange(fetched_, nullptr);
  if (!all || !best_.fetching()) return drop(drop_reason::unrequested);
  store_best(std::move(all->named), all->not_finite, out);
}

// --- histograms

// Of the state of a paused job, otherwise of the next update that all shards make.
void coordinator::request_next_histograms(effects& out) {
  if (boundary_.paused()) return request_histograms(completed(), true, out);
  if (!boundary_.lockstep()) return request_histograms(progress(), false, out);
  // No shard has the version behind the granted steps, so all count the same update.
  const auto next = ledger_.max_granted() + 1;
  request_histograms(config_.last_step > 0 ? std::min(next, config_.last_step) : next, false, out);
}

// Out of lockstep blocks have versions of their own: each counts its next update.
void coordinator::request_histograms(std::uint64_t step, bool now, effects& out) {
  if (!histograms_.request(step)) return;
  auto h = to(no_role);
  h.step = step;
  h.version = boundary_.lockstep() ? step : 0;
  send_to_masters(h, want_histograms{0, now}, out);
}

void coordinator::request_due_histograms(effects& out) {
  if (!boundary_.lockstep() && histograms_.requested().empty() && histograms_.due(progress()))
    request_histograms(progress(), false, out);
}

// To the shards of server group 0, the master of the others.
void coordinator::send_to_masters(header h, const want_histograms& w, effects& out) const {
  for (auto s : config_.plan->shards) {
    if ((*config_.plan)[s].group != 0) continue;
    h.dst = s;
    out.send({h, w});
  }
}

// After a switch of the mode: the shards of the old one have forgotten the requests.
void coordinator::repeat_histograms_request(effects& out) {
  const bool asked = !histograms_.requested().empty();
  histograms_.forget_requests();
  if (asked) request_next_histograms(out);
}

void coordinator::take_histogram(const header& h, const histogram& got, effects& out) {
  if (const auto why = histograms_.take(h, got, boundary_.lockstep())) return drop(*why);
  auto events = histograms_.complete();
  if (!events.empty() && histograms_.requested().empty()) events.back().answers = open_commands::take(open_.histograms);
  for (auto& e : events)
    if (!config_.before || e.step > config_.before->notified || !e.answers.empty()) out.event(std::move(e));
}

}  // namespace troupe
