#include "runtime/loader/batch_tree.hpp"

#include <algorithm>

namespace troupe {

batch_tree::batch_tree(const job_plan& plan, std::uint32_t worker, std::uint32_t job, std::uint32_t keep)
    : self_(plan.loaders[worker]),
      parent_(plan.examples_from(delivery::broadcast, worker)),
      own_packets_(plan.ranges[worker].count),
      job_(job),
      keep_(keep) {
  const auto n = static_cast<std::uint32_t>(plan.loaders.size());
  const auto lowest = worker == 0 ? 0 : worker & (~worker + 1);
  for (std::uint32_t bit = 1; bit < n && (worker == 0 || bit < lowest); bit <<= 1) {
    if (worker + bit >= n) break;
    children_.insert(children_.begin(), plan.loaders[worker + bit]);
    child_packets_.insert(child_packets_.begin(), plan.ranges[worker + bit].count);
  }
}

// The entry of `k`. A new entry is requested from the parent immediately; at the root it is read.
batch_tree::entry& batch_tree::at(key k, effects& out) {
  auto [i, fresh] = entries_.try_emplace(k);
  if (!fresh) return i->second;
  i->second.children.assign(children_.size(), side::open);
  if (!root()) ask(k, out);
  return i->second;
}

void batch_tree::ask(key k, effects& out) const {
  header h;
  h.job = job_;
  h.src = self_;
  h.dst = parent_;
  h.step = k.first;
  out.send({h, want_examples{k.second}});
}

bool batch_tree::want(key k, pair_of_tensors& found, effects& out) {
  auto& e = at(k, out);
  e.own = e.here ? side::has : side::waits;
  if (!e.here) return false;
  found = e.what;
  update();
  return true;
}

bool batch_tree::asked(role_id from, key k, effects& out) {
  const auto child = std::find(children_.begin(), children_.end(), from);
  if (child == children_.end()) return false;
  const auto c = static_cast<std::size_t>(child - children_.begin());
  auto& e = at(k, out);
  e.children[c] = side::waits;
  if (!e.here) return true;
  answer(c, k, e, out);
  update();
  return true;
}

bool batch_tree::arrived(key k, const pair_of_tensors& got, effects& out) {
  const auto i = entries_.find(k);
  if (i == entries_.end() || i->second.here) return false;
  auto& e = i->second;
  e.here = true;
  e.what = got;
  for (std::size_t c = 0; c < children_.size(); ++c)
    if (e.children[c] == side::waits) answer(c, k, e, out);
  const bool mine = e.own == side::waits;
  if (mine) e.own = side::has;
  update();
  return mine;
}

void batch_tree::answer(std::size_t child, key k, entry& e, effects& out) {
  e.children[child] = side::has;
  header h;
  h.job = job_;
  h.src = self_;
  h.dst = children_[child];
  h.step = k.first;
  out.send({h, examples{e.what.data, e.what.label, k.second}});
}

bool batch_tree::next_to_read(key& k) {
  for (auto& [at, e] : entries_) {
    if (e.here || e.reading) continue;
    e.reading = true;
    k = at;
    return true;
  }
  return false;
}

// Drops the packets that the loader and all children have received, and the oldest beyond keep_.
void batch_tree::update() {
  std::erase_if(entries_, [&](const auto& item) {
    const auto& [k, e] = item;
    if (!e.here || (k.second < own_packets_ && e.own != side::has)) return false;
    for (std::size_t c = 0; c < children_.size(); ++c)
      if (needs(c, k.second) && e.children[c] != side::has) return false;
    return true;
  });
  auto held_now = held();
  for (auto i = entries_.begin(); i != entries_.end() && held_now > keep_;) {
    if (!i->second.here) {
      ++i;
      continue;
    }
    i = entries_.erase(i);
    --held_now;
  }
}

std::size_t batch_tree::held() const {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(), [](const auto& item) { return item.second.here; }));
}

}  // namespace troupe
