#include "runtime/cluster/controller/replanning.hpp"

#include <utility>

namespace troupe::control {
namespace {

constexpr std::size_t longest_why = 400;  // of a recovery; further causes are left out

}  // namespace

void failure_cause::add(const failure_cause& further) {
  nodes.insert(further.nodes.begin(), further.nodes.end());
  if (why.size() < longest_why && why.find(further.why) == std::string::npos) why += "; " + further.why;
}

bool successor::uses(const std::string& node) const { return plan && plan->plan.uses(node); }

void replanning::changed_mode(const mode_choice& mode) { set_mode(changes_, mode); }

bool replanning::first_step() { return std::exchange(begins_, false); }

void replanning::restore(const amendments& changes) { changes_ = noted_ = changes; }

std::optional<amendments> replanning::to_note(const std::set<std::string>& away) {
  auto by_users = changes_;
  for (const auto& n : away) by_users.without.erase(n);
  if (by_users == noted_) return std::nullopt;
  noted_ = by_users;
  return by_users;
}

std::uint32_t replanning::change(const command& wish, instant now) {
  next_.emplace();
  next_->plan_generation = ++generations_;
  next_->wish = wish;
  next_->deadline = now + made_timeout;
  return generations_;
}

std::uint32_t replanning::recover(node_loss from, const command& wish, instant now) {
  change(wish, now);
  next_->loss = std::move(from);
  next_->stopped = now;
  return generations_;
}

void replanning::instead_of(const successor& before) {
  next_->stopped = before.stopped;
  if (before.wish.is<lose_command>()) next_->plans = before.plans + 1;
}

void replanning::found(const plan_found& f, instant now) {
  next_->planned = now;
  next_->step = f.from;
  next_->plan = successor::made{f.changes, f.plan, f.mode, f.live};
}

void replanning::prepare(instant now) {
  next_->at = successor::phase::preparing;
  next_->deadline = now + made_timeout;
  const auto& nodes = next_->plan->plan.nodes;
  next_->awaited = {nodes.begin(), nodes.end()};
}

bool replanning::ready(const std::string& node, instant now) {
  if (!next_is(successor::phase::preparing) || next_->awaited.erase(node) == 0) return false;
  next_->deadline = now + made_timeout;
  next_->prepared = now;
  return next_->awaited.empty();
}

bool replanning::swapped(const std::string& node, instant now) {
  if (next_->awaited.erase(node) == 0) return false;
  next_->deadline = now + swap_timeout;
  return true;
}

void replanning::drain(std::optional<instant> deadline) {
  next_->at = successor::phase::draining;
  next_->deadline = deadline;
}

void replanning::swap(std::uint64_t step, std::set<std::string> nodes, instant now) {
  next_->at = successor::phase::swapping;
  next_->swapping = now;
  next_->step = step;
  next_->deadline = now + swap_timeout;
  next_->awaited = std::move(nodes);
}

void replanning::break_swap(const std::string& node, const failure_cause& cause) {
  next_->awaited.erase(node);
  next_->broken = true;
  if (next_->loss) return next_->loss->add(cause);
  adopted_.push_back({next_->wish, next_->node_returns});
  next_->loss = node_loss{cause, {}, {}, {}};
}

successor replanning::begin() {
  auto n = std::move(*next_);
  next_.reset();
  generation_ = n.broken ? std::nullopt : std::optional(n.plan_generation);
  if (!n.broken || !n.wish.is<lose_command>()) changes_ = n.plan->changes;  // a broken recovery is planned anew
  begins_ = true;
  return n;
}

std::optional<successor> replanning::drop() { return std::exchange(next_, std::nullopt); }

}  // namespace troupe::control
