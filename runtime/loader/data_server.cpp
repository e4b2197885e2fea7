#include "runtime/loader/data_server.hpp"

#include <algorithm>

#include "ops/layer.hpp"

namespace troupe {
namespace {

// Of a worker, not of the tester.
bool is_loader(const job_plan& p, role_id r) {
  return index_of(r) < p.roles.size() && p[r].kind == role_kind::loader && !p[r].tester;
}

}  // namespace

void data_server::on(const envelope& e, time_point, effects& out) {
  if (std::holds_alternative<want_examples>(e.body)) {
    take(e.h, out);
  } else if (const auto* f = std::get_if<finished>(&e.body)) {
    const auto i = reading_.find(f->token);
    if (i == reading_.end()) return drop(drop_reason::unrequested);
    const auto done = std::move(i->second);
    reading_.erase(i);
    open_.erase(key_of(done->h));
    out.send({answer_to(done->h), examples{done->data, done->label}});
  } else if (std::holds_alternative<halt>(e.body)) {
    for (const auto& h : std::exchange(queue_, {})) open_.erase(key_of(h));
    out.stop();
    return;
  } else {
    drop(drop_reason::unexpected);
  }
  read_next(out);
}

void data_server::take(const header& request, effects& out) {
  if (!is_loader(*config_.plan, request.src)) return drop(drop_reason::misaddressed);
  const bool train = request.phase == static_cast<std::uint8_t>(phase::train);
  const auto packets = train ? config_.plan->packets : eval_packets(config_.read.eval->examples(), config_.read.eval_examples);
  if (request.packet >= packets) return drop(drop_reason::malformed);
  if (train) latest_ = std::max(latest_, request.step);
  if (config_.how == delivery::seeds) {
    out.send({answer_to(request), examples_seed{order_of(0).seed_of(request.step)}});
    return;
  }
  if (!open_.insert(key_of(request)).second) return drop(drop_reason::repeated);
  queue_.push_back(request);
}

void data_server::read_next(effects& out) {
  while (reading_.size() < readers_ && !queue_.empty()) {
    auto r = std::make_shared<reading>();
    r->h = queue_.front();
    queue_.pop_front();
    if (r->h.phase == static_cast<std::uint8_t>(phase::train)) {
      const auto n = config_.read.graph->packet_examples;
      r->indices = order_of((*config_.plan)[r->h.src].worker).indices(r->h.step, r->h.packet * n, n);
    } else {
      r->indices = eval_indices(config_.read, r->h);
    }
    std::uint32_t slot = 0;
    while (reading_.count(slot)) ++slot;
    reading_.emplace(slot, r);
    begin_reading(r, config_.read, slot, out, slot);
  }
}

header data_server::answer_to(const header& request) const {
  auto h = request;
  h.src = config_.self;
  h.dst = request.src;
  h.attempt = 0;
  return h;
}

sampler& data_server::order_of(std::uint32_t worker) {
  if (orders_.empty()) orders_.push_back(config_.order(0));
  if (!orders_[0]->by_worker()) return *orders_[0];
  if (worker >= orders_.size()) orders_.resize(worker + 1);
  if (!orders_[worker]) orders_[worker] = config_.order(worker);
  return *orders_[worker];
}

role_status data_server::status() const {
  role_status s;
  s.step = latest_;
  s.queued = static_cast<std::uint32_t>(queue_.size());
  s.in_flight = static_cast<std::uint32_t>(reading_.size());
  if (reading_.empty()) s.wait(wait_kind::answers, "a request from a loader");
  return s;
}

}  // namespace troupe
