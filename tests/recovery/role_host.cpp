#include "tests/recovery/role_host.hpp"

#include <stdexcept>

#include "ops/device.hpp"
#include "runtime/base/exception_text.hpp"

namespace troupe::recovery {

void role_host::open(std::uint32_t job, std::vector<std::string> nodes, std::vector<std::uint32_t> node_of) {
  routes_[job] = {std::move(nodes), std::move(node_of)};
}

void role_host::spawn(std::uint32_t job, const std::shared_ptr<const prepared_job>& j, std::uint32_t me,
                      std::uint32_t plan_generation) {
  if (jobs_.count(job)) throw std::invalid_argument("node_host: job " + std::to_string(job) + " is already spawned");
  auto h = std::make_unique<hosted>();
  h->job = j;
  h->id = job;
  h->me = me;
  h->plan_generation = plan_generation;
  h->serial = ++serials_;
  h->began = agenda_.now();
  h->floors.assign(j->plan.roles.size(), plan_generation);
  for (const auto& r : j->plan.roles)
    if (r.node == me) h->seats[r.id].value = make_role(j, r.id);
  jobs_[job] = std::move(h);
}

role_host::hosted* role_host::find(std::uint32_t job, std::uint64_t serial) {
  const auto at = jobs_.find(job);
  return at == jobs_.end() || at->second->serial != serial ? nullptr : at->second.get();
}

// --- messages

void role_host::receive(const std::string& peer, envelope e) {
  const auto route = routes_.find(e.h.job);
  const auto from = index_of(e.h.src);
  if (route == routes_.end() || from >= route->second.node_of.size() || route->second.nodes[route->second.node_of[from]] != peer)
    return void(++unheard_);
  deliver(std::move(e));
}

void role_host::deliver(envelope e) {
  const auto at = jobs_.find(e.h.job);
  if (at == jobs_.end() || !at->second->seats.count(e.h.dst)) return void(++unheard_);
  handle(*at->second, std::move(e));
}

void role_host::command(std::uint32_t job, troupe::command c) {
  envelope e;
  e.h.job = job;
  e.h.dst = role_id{0};
  e.body = std::move(c);
  deliver(std::move(e));
}

void role_host::handle(hosted& h, envelope e) {
  const auto& who = h.job->plan[e.h.dst];
  if (const auto from = index_of(e.h.src); from < h.floors.size()) {
    if (e.h.incarnation < h.floors[from] && !no_fence) {
      ++old_;
      return outside_.on_acted({node_, h.id, h.plan_generation, who, e, true});
    }
    h.floors[from] = e.h.incarnation;
  }
  const auto seen = e;
  if (e.h.incarnation >= h.plan_generation) e.h.incarnation -= h.plan_generation;  // relative to the plan's
  const auto self = e.h.dst;
  react(h, self, std::move(e));
  outside_.on_acted({node_, h.id, h.plan_generation, who, seen, false});
}

void role_host::react(hosted& h, role_id self, envelope e) {
  auto& s = h.seats.at(self);
  if (s.failed || s.stopped) return;
  ++s.messages;
  const auto step = e.h.step;
  try {
    wanted_.clear();
    s.value->on(e, agenda_.now() - h.began, wanted_);
    e.body = finished{};
    perform(h, self);
  } catch (...) {
    fail(h, self, step, current_exception_text());
  }
}

void role_host::fail(hosted& h, role_id self, std::uint64_t step, const std::string& what) {
  auto& s = h.seats.at(self);
  s.failed = true;
  wanted_.clear();
  const role_failure failure{h.job->plan[self].name, what};
  outside_.on_event(h.id, h.plan_generation, {step, error_event{failure.text(), {}, {}, failure}});
}

// --- effects

void role_host::perform(hosted& h, role_id self) {
  auto list = std::move(wanted_.list());
  wanted_.list().clear();
  auto& s = h.seats.at(self);
  for (auto& x : list) {
    if (auto* m = std::get_if<send_effect>(&x)) {
      send(h, self, std::move(m->e));
    } else if (auto* r = std::get_if<run_effect>(&x)) {
      if (r->work) {
        task_context c{dev_};
        r->work(c);
      }
      auto takes = times_.task.drawn(random_);
      if (slow != 1) takes = duration(static_cast<std::int64_t>(static_cast<double>(takes.count()) * slow));
      s.last_task = std::max(s.last_task, agenda_.now() + takes);
      later(h, self, s.last_task - agenda_.now(), finished{r->token});
    } else if (auto* e = std::get_if<event_effect>(&x)) {
      outside_.on_event(h.id, h.plan_generation, *e);
    } else if (auto* st = std::get_if<store_effect>(&x)) {
      for (auto& [name, value] : st->named)
        if (!value.frozen()) value.freeze();
      outside_.on_store(h.id, h.plan_generation, *st);
    } else if (auto* p = std::get_if<shared_effect>(&x)) {
      h.parameters.perform(*p, dev_);
      later(h, self, times_.local.drawn(random_), finished{p->token});
    } else {
      s.stopped = true;
    }
  }
}

void role_host::send(hosted& h, role_id self, envelope e) {
  e.h.job = h.id;
  if (e.h.src == no_role) e.h.src = self;
  if (e.h.src == self) e.h.incarnation = h.plan_generation;
  freeze(e);
  const auto to = index_of(e.h.dst);
  if (to >= h.job->plan.roles.size()) return;
  const auto node = h.job->plan[e.h.dst].node;
  if (node != h.me) {
    const auto route = routes_.find(h.id);
    if (route != routes_.end()) outside_.send(route->second.nodes[node], std::move(e));
    return;
  }
  auto& last = h.last[{e.h.src, e.h.dst}];
  last = std::max(last, agenda_.now() + times_.local.drawn(random_));
  const auto box = std::make_shared<envelope>(std::move(e));
  agenda_.at(last, [this, here = std::weak_ptr<bool>(here_), job = h.id, serial = h.serial, box] {
    if (here.expired()) return;
    if (auto* at = find(job, serial)) handle(*at, std::move(*box));
  });
}

void role_host::later(hosted& h, role_id self, duration after, message body) {
  const auto box = std::make_shared<message>(std::move(body));
  agenda_.in(after, [this, here = std::weak_ptr<bool>(here_), job = h.id, serial = h.serial, self, box] {
    if (here.expired()) return;
    auto* at = find(job, serial);
    if (!at) return;
    envelope e;
    e.h.job = job;
    e.h.dst = self;
    e.h.src = self;
    e.body = std::move(*box);
    react(*at, self, std::move(e));
  });
}

std::vector<control::role_entry> role_host::published() const {
  std::vector<control::role_entry> rows;
  for (const auto& [id, h] : jobs_)
    for (const auto& [r, s] : h->seats) {
      const auto t = s.value->status();
      rows.push_back({id, index_of(r), h->job->plan[r].name, t.waits_for, t.step, t.version, s.messages, t.queued, t.in_flight,
                      t.credit, 0, 0});
    }
  return rows;
}

}  // namespace troupe::recovery
