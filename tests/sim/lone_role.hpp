// One role of a job without a world, message by message: its tasks run at once, its messages are
// kept, and it has a private copy of its node's shared array (hogwild). For tests of sync roles;
// the test sends the messages of their stages, shards and workers.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/mode_job.hpp"

namespace troupe::testing {

class lone_role {
 public:
  lone_role(std::shared_ptr<prepared_job> j, role_id self) : job_(std::move(j)), self_(self), role_(make_role(job_, self)) {}

  const prepared_job& job() const { return *job_; }
  const job_plan& plan() const { return job_->plan; }
  role_id self() const { return self_; }
  device& dev() { return *dev_; }
  drop_counts dropped() const { return role_->dropped(); }

  // Returns the messages that the role sends for this message and for the ends of the tasks that
  // follow from it, in order.
  std::vector<envelope> say(header h, message m) {
    std::vector<envelope> sent, todo{{h, std::move(m)}};
    while (!todo.empty()) {
      const auto next = std::move(todo.front());
      todo.erase(todo.begin());
      effects out;
      role_->on(next, {}, out);
      for (auto& x : out.list()) {
        if (auto* r = std::get_if<run_effect>(&x)) {
          if (holds_) {
            held_.push_back(std::move(*r));
            continue;
          }
          task_context c{*dev_};
          r->work(c);
          todo.push_back({{}, finished{r->token}});
        } else if (auto* s = std::get_if<send_effect>(&x)) {
          freeze(s->e);
          sent.push_back(s->e);
        } else if (auto* a = std::get_if<shared_effect>(&x)) {
          touch(*a);
          todo.push_back({{}, finished{a->token}});
        }
      }
    }
    return sent;
  }

  // After hold(), tasks run only at let_go(), in order, with all that follows from them.
  void hold() { holds_ = true; }
  std::vector<envelope> let_go() {
    holds_ = false;
    std::vector<envelope> sent;
    for (auto& r : std::exchange(held_, {})) {
      task_context c{*dev_};
      r.work(c);
      append(sent, say({}, finished{r.token}));
    }
    return sent;
  }

  double first_of(const tensor& t) const { return at_home(*dev_, t).data<double>()[0]; }
  tensor filled(shape dims, double value) {
    auto t = tensor::allocate(*dev_, dims, job_->spec.parameter_type());
    dev_->fill(value, t);
    return t;
  }

  // --- messages to a worker sync

  // Sends the first values of every block, all `value`.
  std::vector<envelope> give_states(double value) {
    std::vector<envelope> sent;
    const auto group = plan().group_of(worker()).server_group;
    const auto rule = job_->all->rules.find(job_->spec.train.rule.kind)->make(job_->spec.train.rule.values);
    for (const auto& b : plan().blocks) {
      header h;
      h.src = plan().shard_of(b, group);
      state s{0, b.id, filled({b.count}, value), {}};
      for (std::size_t k = 0; k < rule->states().size(); ++k) s.rule.push_back(filled({b.count}, 0));
      append(sent, say(h, std::move(s)));
    }
    return sent;
  }
  // Sends the gradient of one layer and of the worker's first packet (for a worker that gets sums:
  // the sum); all elements are `value`.
  std::vector<envelope> give_gradient(std::uint32_t layer, std::uint64_t step, double value) {
    header h;
    for (auto s : plan().stages[worker()])
      if (const auto& l = plan()[s].layers; std::find(l.begin(), l.end(), layer) != l.end()) h.src = s;
    h.step = step;
    h.packet = plan().range_of(worker()).first;
    tensors grads;
    for (auto p : job_->graph.layers[layer].params) grads.push_back(filled(job_->graph.params[p].spec.dims, value));
    return say(h, gradient{layer, grads, {}});
  }
  // Sends the gradients of all layers.
  std::vector<envelope> give_gradients(std::uint64_t step, double value) {
    std::vector<envelope> sent;
    for (const auto& l : job_->graph.layers)
      if (!l.params.empty()) append(sent, give_gradient(l.index, step, value));
    return sent;
  }

  // The node's shared array, by place, and the accesses to it in order: read, add, write.
  std::map<std::uint32_t, tensor> array;
  std::vector<std::pair<shared_effect::kind_of, std::uint32_t>> touched;

 private:
  std::uint32_t worker() const { return plan()[self_].worker; }
  static void append(std::vector<envelope>& to, std::vector<envelope> more) {
    for (auto& e : more) to.push_back(std::move(e));
  }
  void touch(shared_effect& e) {
    touched.emplace_back(e.kind, e.block);
    auto& here = array[e.block];
    if (!here) here = filled({e.value->count()}, 0);
    if (e.kind == shared_effect::kind_of::read) {
      *e.value = tensor::allocate(*dev_, here.dims(), here.type());
      dev_->copy(here, *e.value);
    } else {
      if (e.kind == shared_effect::kind_of::write) dev_->fill(0, here);
      dev_->axpy(1, *e.value, here);
    }
  }

  std::shared_ptr<device> dev_ = make_cpu_device();
  std::shared_ptr<prepared_job> job_;
  role_id self_;
  std::unique_ptr<role> role_;
  bool holds_ = false;
  std::vector<run_effect> held_;
};

// Returns header and body of the messages that carry a T.
template <class T>
std::vector<std::pair<header, T>> only(const std::vector<envelope>& sent) {
  std::vector<std::pair<header, T>> list;
  for (const auto& e : sent)
    if (const auto* b = std::get_if<T>(&e.body)) list.emplace_back(e.h, *b);
  return list;
}

inline header from(role_id who, std::uint64_t step = 0) {
  header h;
  h.src = who;
  h.step = step;
  return h;
}

}  // namespace troupe::testing
