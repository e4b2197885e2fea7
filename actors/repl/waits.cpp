#include "actors/repl/waits.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>

#include "actors/repl/tables.hpp"
#include "actors/repl/text.hpp"
#include "runtime/cluster/supervision/task_watch.hpp"
#include "runtime/cluster/view/about.hpp"

namespace troupe {
namespace {

using indices = std::vector<std::size_t>;

// Shorter waits of a role that computes nothing are an effect of the different times of
// publication.
constexpr double least_idle = 0.4;
// A task of that many seconds is long.
constexpr double least_long = 1;
// A node with roles reports every 0.25 s, of many nodes every 0.5 s; after this time what its roles
// do is unknown.
constexpr double least_silent = 1;

// What a role is, by its name: "worker0/conv1+relu1", "worker0/loader", "worker0", "shard1", ...
struct role_place {
  std::string worker, part;  // "worker0", "loader"; a role without '/': its name, ""
  bool is(const char* name) const { return part == name; }
  bool is_stage() const { return !part.empty() && part != "loader" && part != "reducer"; }
  bool is_sync() const { return part.empty() && (worker.starts_with("worker") || worker.starts_with("host")); }
  bool is_shard() const { return worker.starts_with("shard") || worker.starts_with("replica"); }
};

role_place place_of(const std::string& name) {
  const auto slash = name.find('/');
  return slash == std::string::npos ? role_place{name, {}} : role_place{name.substr(0, slash), name.substr(slash + 1)};
}

// The layers that a stage hosts: "a", "a+b", "a..d" (by the order of layers), with ".K" for part K.
std::set<std::size_t> layers_of(std::string part, const std::vector<std::string>& names) {
  const auto index = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  const auto known = [&](const std::string& name) { return index(name) < names.size(); };
  std::set<std::size_t> found;
  const auto add = [&](const std::string& name) {
    if (known(name)) found.insert(index(name));
  };
  for (int attempt = 0; attempt < 2 && found.empty(); ++attempt) {
    if (const auto dots = part.find(".."); dots != std::string::npos) {
      const auto first = index(part.substr(0, dots)), last = index(part.substr(dots + 2));
      for (auto i = first; i <= last && last < names.size(); ++i) found.insert(i);
    } else {
      for (std::size_t at = 0; at <= part.size();) {
        const auto end = std::min(part.find('+', at), part.size());
        add(part.substr(at, end - at));
        at = end + 1;
      }
    }
    part = part.substr(0, part.find_last_of('.'));
  }
  return found;
}

indices joined_indices(indices a, const indices& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class wait_graph {
 public:
  explicit wait_graph(const repl_view& v) : v_(v) {
    const repl_about* about = nullptr;
    for (const auto& j : v.jobs)
      if (j.about && !j.over() && j.state != job_state::queued) about = j.about.get();
    std::vector<std::string> names;
    if (about)
      for (const auto& l : about->layers) names.push_back(l.name);
    if (about)
      for (std::size_t l = 0; l < names.size(); ++l)
        if (!about->layers[l].in_train) test_only_.insert(l);
    for (const auto& r : v.roles) {
      places_.push_back(place_of(r.what.name));
      hosted_.push_back(places_.back().is_stage() ? layers_of(places_.back().part, names) : std::set<std::size_t>());
    }
    inputs_.resize(names.size());
    for (std::size_t l = 0; l < names.size(); ++l)
      for (const auto& input : about->layers[l].inputs) {
        auto at = std::find(names.begin(), names.end(), input);
        if (at == names.end()) at = std::find(names.begin(), names.end(), input.substr(0, input.find_last_of('.')));
        inputs_[l].insert(static_cast<std::size_t>(at - names.begin()));  // names.size(): the data
      }
  }

  indices next_of(std::size_t role) const;
  const role_published& at(std::size_t role) const { return v_.roles[role].what; }
  bool waits(std::size_t role) const {
    return at(role).status.waits != wait_kind::none && at(role).status.waits != wait_kind::user;
  }
  bool failed(std::size_t role) const { return at(role).status.waits_for.starts_with("nothing, it failed"); }
  // No step of training waits for such a role.
  bool tests_only(std::size_t i) const {
    const auto& h = hosted_[i];
    return places_[i].worker == "tester" ||
           (!h.empty() && std::all_of(h.begin(), h.end(), [&](auto l) { return test_only_.contains(l); }));
  }
  // Nothing to do and nothing to wait for, e.g. a data server that nobody asks.
  bool at_rest(std::size_t role) const { return at(role).status.waits_for == "a request from a loader"; }

 private:
  template <class Which>
  indices all(Which which) const {
    indices found;
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (!tests_only(i) && which(i)) found.push_back(i);
    return found;
  }
  // The workers that shards wait for.
  indices missing_workers() const {
    indices found;
    for (auto i : of_kind(&role_place::is_shard))
      if (at(i).status.waits == wait_kind::gradients)
        found = joined_indices(std::move(found), named_workers(at(i).status.waits_for));
    return found;
  }
  // The workers that a shard names: "gradients of step 12 from worker1, worker3".
  indices named_workers(const std::string& text) const {
    const auto from = text.find(" from ");
    if (from == std::string::npos) return {};
    const auto list = text.substr(from + 6) + ",";
    return all([&](std::size_t i) {
      return places_[i].is_sync() && (list.starts_with(places_[i].worker + ",") || list.starts_with(places_[i].worker + " ") ||
                                      list.find(" " + places_[i].worker + ",") != std::string::npos ||
                                      list.find(" " + places_[i].worker + " ") != std::string::npos);
    });
  }
  indices of_kind(bool (role_place::*is)() const) const {
    return all([&](std::size_t i) { return (places_[i].*is)(); });
  }
  indices named(const std::string& name) const {
    return all([&](std::size_t i) { return at(i).name == name; });
  }
  indices loaders_of(const std::string& worker) const {
    auto own = all([&](std::size_t i) { return places_[i].is("loader") && places_[i].worker == worker; });
    return own.empty() ? all([&](std::size_t i) { return places_[i].is("loader"); }) : own;
  }
  // The stages that host one of these layers: of the worker, or of any if it has none.
  indices stages_with(const std::set<std::size_t>& layers, const std::string& worker) const;
  indices producers(std::size_t role) const;
  indices consumers(std::size_t role) const;
  indices starved_by(std::size_t role) const;
  indices of_worker(std::size_t role) const {
    return all([&](std::size_t i) { return i != role && places_[i].worker == places_[role].worker && !places_[i].part.empty(); });
  }
  // Stages and loaders of training.
  indices trainers() const {
    return all([&](std::size_t i) { return places_[i].is_stage() || places_[i].is("loader"); });
  }
  // Those that are behind: of the least step.
  indices last_ones(indices list) const {
    std::uint64_t least = ~0ull;
    for (auto i : list) least = std::min(least, at(i).status.step);
    std::erase_if(list, [&](auto i) { return at(i).status.step != least; });
    return list;
  }

  const repl_view& v_;
  std::vector<role_place> places_;             // by role
  std::vector<std::set<std::size_t>> hosted_;  // by role: layers
  std::set<std::size_t> test_only_;            // layers
  std::vector<std::set<std::size_t>> inputs_;  // by layer: layers, or their number for the data
};

indices wait_graph::stages_with(const std::set<std::size_t>& layers, const std::string& worker) const {
  const auto hosts = [&](std::size_t i) {
    return std::any_of(hosted_[i].begin(), hosted_[i].end(), [&](auto l) { return layers.contains(l); });
  };
  auto own = all([&](std::size_t i) { return places_[i].worker == worker && hosts(i); });
  return own.empty() ? all(hosts) : own;
}

indices wait_graph::producers(std::size_t role) const {
  std::set<std::size_t> from;
  for (auto l : hosted_[role]) from.insert(inputs_[l].begin(), inputs_[l].end());
  const bool data = hosted_[role].empty() || from.contains(inputs_.size());
  for (auto l : hosted_[role]) from.erase(l);
  auto found = data ? loaders_of(places_[role].worker) : indices();
  return joined_indices(std::move(found), hosted_[role].empty() ? of_worker(role) : stages_with(from, places_[role].worker));
}

indices wait_graph::consumers(std::size_t role) const {
  if (!places_[role].is("loader") && hosted_[role].empty()) return of_worker(role);
  std::set<std::size_t> to;
  for (std::size_t l = 0; l < inputs_.size(); ++l) {
    const bool takes = places_[role].is("loader") ? inputs_[l].contains(inputs_.size())
                                                  : std::any_of(hosted_[role].begin(), hosted_[role].end(),
                                                                [&](auto h) { return inputs_[l].contains(h); });
    if (takes && !hosted_[role].contains(l)) to.insert(l);
  }
  return inputs_.empty() ? of_worker(role) : stages_with(to, places_[role].worker);
}

// Of a stage with nothing to do: the producers, if one of them, or one before them, has been in a
// task for long. A stage whose workers do not wait for each other has no other sign of that.
indices wait_graph::starved_by(std::size_t role) const {
  std::set<std::size_t> passed{role};
  const std::function<bool(std::size_t)> starves = [&](std::size_t r) {
    if (at(r).task.seconds >= least_long) return true;
    if (!passed.insert(r).second || !places_[r].is_stage() || at(r).task.serial != 0 || waits(r)) return false;
    const auto before = producers(r);
    return std::any_of(before.begin(), before.end(), starves);
  };
  auto found = producers(role);
  std::erase_if(found, [&](std::size_t r) { return !starves(r); });
  return found;
}

indices wait_graph::next_of(std::size_t role) const {
  const auto& p = places_[role];
  const auto& text = at(role).status.waits_for;
  switch (at(role).status.waits) {
    case wait_kind::user: return {};
    case wait_kind::none:
      if (at(role).task.serial != 0) return {};
      return p.is_sync() ? of_worker(role) : p.is_stage() ? starved_by(role) : indices();
    case wait_kind::grant: return named("coordinator");
    case wait_kind::data:
      return text.starts_with("examples") ? named("worker0/loader")
                                          : all([&](std::size_t i) { return places_[i].worker.starts_with("data"); });
    case wait_kind::inputs: return producers(role);
    case wait_kind::credit: return consumers(role);
    case wait_kind::weights:
      if (p.is_stage()) {
        auto own = named(p.worker);
        return own.empty() ? of_kind(&role_place::is_shard) : own;
      }
      return joined_indices(of_kind(&role_place::is_shard), all([&](std::size_t i) { return places_[i].is("reducer"); }));
    case wait_kind::gradients:
      if (p.is_stage()) return consumers(role);
      if (auto named = named_workers(text); !named.empty()) return named;
      return last_ones(of_kind(&role_place::is_sync));
    case wait_kind::answers:
      if (p.is_shard()) return of_kind(&role_place::is_sync);
      if (auto named = missing_workers(); !named.empty() && text.find("losses") != std::string::npos) return named;
      if (text.find("evaluation") != std::string::npos || text.find("losses") != std::string::npos) return last_ones(trainers());
      return joined_indices(of_kind(&role_place::is_shard), of_kind(&role_place::is_sync));
  }
  return {};
}

std::string cause_text(const wait_graph& g, const wait_root& root) {
  const auto& r = g.at(root.role);
  switch (root.what) {
    case wait_root::kind::failed: return "failed: " + r.status.waits_for;
    case wait_root::kind::silent: return "has sent no report for " + repl_duration(root.seconds);
    case wait_root::kind::user: return "is paused until `" + r.status.waits_for + "`";
    case wait_root::kind::task: return (r.task.kind == "load" ? "reads data: " : "computes: ") + task_text(r.task);
    case wait_root::kind::idle:
    case wait_root::kind::connection:
      return (g.waits(root.role) ? "waits for " + r.status.waits_for : std::string("has nothing to do")) + ", no message for " +
             repl_duration(r.age_seconds);
  }
  return {};
}

class root_finder {
 public:
  explicit root_finder(const repl_view& v) : v_(v), g_(v), waiters_(v.roles.size()), claimed_(v.roles.size(), false) {
    for (std::size_t i = 0; i < v.roles.size(); ++i)
      for (auto to : g_.tests_only(i) ? indices() : g_.next_of(i))
        if (to != i) waiters_[to].push_back(i);
  }

  std::vector<wait_root> find() {
    const auto by_kind = [&](wait_root::kind what, auto which) {
      indices list;
      for (std::size_t i = 0; i < v_.roles.size(); ++i)
        if (which(i)) list.push_back(i);
      std::stable_sort(list.begin(), list.end(),
                       [&](auto a, auto b) { return seconds_of_root(a, what) > seconds_of_root(b, what); });
      for (auto i : list) claim(i, what);
    };
    by_kind(wait_root::kind::failed, [&](auto i) { return g_.failed(i); });
    for (const auto& n : v_.nodes)
      if (n.unheard_seconds >= least_silent) claim_node(n);
    by_kind(wait_root::kind::user, [&](auto i) { return g_.at(i).status.waits == wait_kind::user; });
    by_kind(wait_root::kind::task, [&](auto i) { return g_.at(i).task.serial != 0; });
    by_kind(wait_root::kind::idle, [&](auto i) { return !claimed_[i] && g_.next_of(i).empty() && !g_.at_rest(i); });
    for (std::size_t i = 0; i < v_.roles.size(); ++i)
      if (!claimed_[i] && g_.waits(i) && !g_.at_rest(i)) claim(circle_from(i), wait_root::kind::idle);
    // Which message is late is less certain than what computes: of these roots, first the one for
    // which most roles wait.
    const auto late = [](const wait_root& r) { return r.what == wait_root::kind::idle || r.what == wait_root::kind::connection; };
    std::stable_sort(std::find_if(roots_.begin(), roots_.end(), late), roots_.end(),
                     [](const auto& a, const auto& b) { return a.held_up.size() > b.held_up.size(); });
    return std::move(roots_);
  }

 private:
  double seconds_of_root(std::size_t i, wait_root::kind what) const {
    return what == wait_root::kind::task ? g_.at(i).task.seconds : g_.at(i).age_seconds;
  }

  // A role of the circle of waits that the role leads to.
  std::size_t circle_from(std::size_t role) const {
    std::set<std::size_t> passed;
    while (passed.insert(role).second) {
      const auto next = g_.next_of(role);
      const auto open = std::find_if(next.begin(), next.end(), [&](auto n) { return !claimed_[n] && g_.waits(n); });
      if (open == next.end()) return role;
      role = *open;
    }
    return role;
  }

  // Makes `root` the cause of all roles that lead to it and have none yet.
  void claim(std::size_t root, wait_root::kind what) {
    if (!claimed_[root]) claim({root}, {what, root, {}, seconds_of_root(root, what), {}, {}, {}});
  }
  // Makes the roles of a silent node one root.
  void claim_node(const repl_node& n) {
    indices roles;
    for (std::size_t i = 0; i < v_.roles.size(); ++i)
      if (v_.roles[i].node == n.name && !claimed_[i]) roles.push_back(i);
    if (!roles.empty()) claim(roles, {wait_root::kind::silent, roles[0], {}, n.unheard_seconds, {}, {}, {n.name}});
  }
  void claim(const indices& from, wait_root r) {
    for (const auto i : from) claimed_[i] = true;
    std::map<std::size_t, std::size_t> towards;
    std::deque<std::size_t> open(from.begin(), from.end());
    double longest = -1;
    std::size_t begin = r.role;
    std::vector<std::string> ends;  // of the wait across nodes that is closest to the root
    while (!open.empty()) {
      const auto at = open.front();
      open.pop_front();
      for (auto w : waiters_[at]) {
        if (claimed_[w] || g_.at(w).task.seconds >= least_long) continue;
        claimed_[w] = true;
        towards[w] = at;
        open.push_back(w);
        if (ends.empty() && v_.roles[w].node != v_.roles[at].node) ends = {v_.roles[w].node, v_.roles[at].node};
        if (!g_.waits(w)) continue;
        r.held_up.push_back(w);
        if (g_.at(w).age_seconds >= longest) longest = g_.at(w).age_seconds, begin = w;
      }
    }
    if (r.held_up.empty() || (r.what == wait_root::kind::idle && r.seconds < least_idle)) return;
    for (auto at = begin;; at = towards.at(at)) {
      r.chain.push_back(at);
      if (!towards.contains(at)) break;
    }
    r.role = r.chain.back();
    // An idle root, or roles that wait for each other, on several nodes: a message has not arrived.
    if (r.what == wait_root::kind::idle && r.seconds >= 1 && !ends.empty()) {
      r.what = wait_root::kind::connection;
      r.nodes = ends;
    }
    r.text = cause_text(g_, r);
    roots_.push_back(std::move(r));
  }

  const repl_view& v_;
  wait_graph g_;
  std::vector<indices> waiters_;  // by role: those that wait for it
  std::vector<bool> claimed_;
  std::vector<wait_root> roots_;
};

}  // namespace

std::vector<wait_root> wait_roots(const repl_view& v) { return root_finder(v).find(); }

std::vector<std::size_t> roles_with_layer(const repl_view& v, const repl_about& about, const std::string& layer) {
  std::vector<std::string> names;
  for (const auto& l : about.layers) names.push_back(l.name);
  const auto index = static_cast<std::size_t>(std::find(names.begin(), names.end(), layer) - names.begin());
  indices found;
  for (std::size_t i = 0; i < v.roles.size(); ++i) {
    const auto place = place_of(v.roles[i].what.name);
    if (place.is_stage() && layers_of(place.part, names).contains(index)) found.push_back(i);
  }
  return found;
}

std::vector<std::vector<std::size_t>> wait_edges(const repl_view& v) {
  const wait_graph g(v);
  std::vector<indices> edges(v.roles.size());
  for (std::size_t i = 0; i < v.roles.size(); ++i)
    if (g.waits(i) && !g.at_rest(i)) edges[i] = g.next_of(i);
  return edges;
}

std::vector<std::size_t> roles_waited_for(const repl_view& v, std::size_t role) { return wait_graph(v).next_of(role); }

}  // namespace troupe
