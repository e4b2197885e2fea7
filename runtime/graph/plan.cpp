// Placement: every worker is a loader, the stages of the layers that are beside it and the worker half of the sync mode, all on one
// node; placed layers have stages and a half of their own. The parameters of the former are cut evenly over the shards of a server group,
// and every server group has all of them. Pure and deterministic: every node computes the same plan.
#include "runtime/graph/plan.hpp"

#include <algorithm>
#include <utility>

#include "runtime/graph/maths_steps.hpp"
#include "runtime/graph/stage_groups.hpp"
#include "runtime/graph/wording.hpp"

namespace troupe {
namespace {

constexpr std::int64_t cut_multiple = 16;  // elements: a cut inside a parameter falls on a cache line of f32

std::vector<std::uint32_t> nodes_with(const std::vector<node_spec>& nodes, const std::string& role) {
  std::vector<std::uint32_t> found;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (std::find(nodes[i].roles.begin(), nodes[i].roles.end(), role) != nodes[i].roles.end())
      found.push_back(static_cast<std::uint32_t>(i));
  return found;
}

class planner {
 public:
  planner(const job_spec& job, const model_graph& g, const std::vector<node_spec>& nodes) : job_(job), g_(g), nodes_(nodes) {
    for (const auto& n : nodes) plan_.nodes.push_back({n.name, n.devices});
  }

  std::variant<job_plan, diagnostics> make(const plan_options& options) {
    check();
    if (!errors_.empty()) return std::move(errors_);
    plan_.packets = static_cast<std::uint32_t>(job_.pipeline.packets);
    plan_.sub_solvers = static_cast<std::uint32_t>(job_.pipeline.sub_solvers);
    plan_.rule_states = options.rule_states;
    plan_.fuse_layers = job_.pipeline.fuse_layers;
    plan_.ranges = worker_ranges(job_, static_cast<std::uint32_t>(workers_), plan_.packets, errors_);
    if (!errors_.empty()) return std::move(errors_);
    for (std::uint32_t w = 0; w < workers_; ++w) beside_.push_back(worker_nodes_[w % worker_nodes_.size()]);
    where_ = assign_layers(job_, g_, nodes_, beside_, plan_.ranges, errors_);
    plan_.placed = std::any_of(where_.begin(), where_.end(), [](const assignment& a) { return a.placed; });
    if (plan_.placed) check_placed();
    warm_up();
    if (!errors_.empty()) return std::move(errors_);
    for (auto& wrong : cannot_recompute(g_, options.own_stage, plan_.rule)) errors_.push_back(std::move(wrong));
    for (auto& wrong : cannot_gather(g_, plan_.rule)) errors_.push_back(std::move(wrong));
    groups_ = stage_groups(g_, options.own_stage, where_, {job_.pipeline.fuse == "auto", job_.pipeline.fuse_layers});
    for (const auto& a : where_) stage_of_.emplace_back(a.parts.size(), no_role);
    add_role(role_kind::coordinator, "coordinator", nodes_with(nodes_, "coordinator").front());
    for (std::uint32_t w = 0; w < workers_; ++w) add_worker(w, beside_[w]);
    add_hosts();
    add_groups();
    add_all_edges();
    check_own_stages(options.own_stage);
    add_shards();
    add_data_server();
    add_readers(options.readers);
    cut_parameters();
    if (job_.train.reducer == "tree") add_reducers();
    if (options.tester) add_tester();
    check_memory();
    if (!errors_.empty()) return std::move(errors_);
    return std::move(plan_);
  }

 private:
  void error(source_position at, std::string message) { errors_.push_back({std::move(at), std::move(message)}); }

  void need_role(const char* role) {
    if (nodes_with(nodes_, role).empty())
      error(nodes_.empty() ? job_.at : nodes_.front().at, std::string("no node has the role \"") + role + "\"");
  }

  std::int64_t positive(const char* key, std::int64_t value) {
    if (value >= 1 && value <= 65535) return value;
    error(position_of(job_.topology.key_at, key, job_.topology.at),
          std::string(key) + " must be between 1 and 65535, it is " + std::to_string(value));
    return 1;
  }

  void check() {
    for (auto role : {"coordinator", "worker", "server"}) need_role(role);
    if (has_data_server()) need_role("data");
    const auto& t = job_.topology;
    workers_ =
        static_cast<std::uint64_t>(positive("worker_groups", t.worker_groups) * positive("workers_per_group", t.workers_per_group));
    shards_ = static_cast<std::uint64_t>(positive("servers_per_group", t.servers_per_group));
    if (shards_ * static_cast<std::uint64_t>(positive("server_groups", t.server_groups)) > 65535)
      error(t.at, "more than 65535 parameter shards");
    if (t.server_groups != 1 && t.server_groups != t.worker_groups)
      error(position_of(t.key_at, "server_groups", t.at),
            "server_groups must be 1 (all worker groups share it) or equal worker_groups (one each): there are " +
                std::to_string(t.worker_groups) + " worker groups and " + std::to_string(t.server_groups) + " server groups");
    const auto& p = job_.pipeline;
    const auto packets_at = position_of(p.key_at, "packets", p.at);
    if (p.packets < 1 || p.packets > 65535)
      error(packets_at, "packets must be between 1 and 65535, it is " + std::to_string(p.packets));
    else if (static_cast<std::uint64_t>(p.packets) < workers_)
      error(packets_at, "fewer packets than workers: " + std::to_string(p.packets) + " for " + std::to_string(workers_) +
                            "; every worker needs at least one packet of a step");
    if (p.sub_solvers < 1 || p.sub_solvers > 65535)
      error(position_of(p.key_at, "sub_solvers", p.at),
            "sub_solvers must be between 1 and 65535, it is " + std::to_string(p.sub_solvers));
    worker_nodes_ = nodes_with(nodes_, "worker");
  }

  role_plan& add_role(role_kind kind, std::string name, std::uint32_t node, std::uint32_t worker = 0) {
    role_plan r;
    r.id = role_id{static_cast<std::uint32_t>(plan_.roles.size())};
    r.kind = kind;
    r.name = std::move(name);
    r.node = node;
    r.worker = worker;
    plan_.roles.push_back(std::move(r));
    return plan_.roles.back();
  }

  std::string stage_name(const std::vector<std::uint32_t>& layers) const {
    std::vector<const graph_layer*> all;
    for (auto l : layers) all.push_back(&g_.layers[l]);
    const auto steps = maths_steps(g_, all, plan_.fuse_layers);
    if (steps.size() == 1) return troupe::name_of(steps[0], all);
    return all.front()->name + ".." + all.back()->name;
  }

  void add_worker(std::uint32_t w, std::uint32_t node) {
    const auto prefix = "worker" + std::to_string(w);
    plan_.loaders.push_back(add_role(role_kind::loader, prefix + "/loader", node, w).id);
    plan_.stages.emplace_back();
    for (const auto& layers : groups_)
      if (!where_[layers[0]].placed) add_stage(layers, w, prefix, node, w);
    auto& half = add_role(role_kind::worker, prefix, node, w);
    half.packets = plan_.ranges[w];
    plan_.workers.push_back(half.id);
  }

  void add_stage(const std::vector<std::uint32_t>& layers, std::size_t part, const std::string& prefix, std::uint32_t node,
                 std::uint32_t worker) {
    const auto& a = where_[layers[0]];
    auto name = prefix + "/" + stage_name(layers);
    if (a.placed && a.parts.size() > 1) name += "." + std::to_string(part);
    auto& r = add_role(role_kind::stage, std::move(name), node, worker);
    r.layers = layers;
    r.packets = a.parts[part].packets;
    r.slots = under_way(r.packets);
    r.train_slots = train_slots(layers, r.packets);
    for (auto l : layers) {
      r.parts.push_back(make_part(g_, g_.layers[l], where_[l].parts[part]));
      stage_of_[l][part] = r.id;
    }
    plan_.stages.back().push_back(r.id);
  }

  void warm_up() {
    plan_.rule = weight_rule_of(job_.pipeline.weights);
    plan_.delay.assign(g_.layers.size(), 0);
    if (plan_.rule == weight_rule::drain || !errors_.empty()) return;
    plan_.delay = warm_up_steps(g_, where_, plan_.packets);
    plan_.warm_up = *std::max_element(plan_.delay.begin(), plan_.delay.end());
  }

  // With a delay of d, the packets of d + 1 steps at most are between their forward and their backward.
  std::uint32_t train_slots(const std::vector<std::uint32_t>& layers, packet_range packets) const {
    std::uint32_t d = 0;
    for (auto l : layers) d = std::max(d, plan_.delay[l]);
    const auto all = under_way(packets, true);
    return plan_.rule == weight_rule::drain ? all : std::min(all, (d + 1) * packets.count);
  }

  // Packets of range `packets` that can be under way at once, in training or in evaluation. A loader has credit for in_flight()
  // packets at each of its consumers, and every loss and metric is one of them (add_windows): the credit is not back until it has seen
  // the packet. With as many sub-solvers and as much credit everywhere behind the loader, no stage ever makes one packet wait for
  // another: joins cannot lock each other out, and a packet of the next step cannot stand in the way of this one's.
  std::uint32_t under_way(packet_range packets, bool train) const {
    if (!plan_.placed) return plan_.in_flight();
    std::uint32_t n = 0;
    for (const auto& r : plan_.ranges) {
      if (intersection(r, packets).count == 0) continue;
      for (const auto& l : g_.layers) {
        if (!reports(l) || !(train ? l.in_train : l.in_test)) continue;
        const auto& a = where_[l.index];
        if (a.kind != split_kind::batch)
          n += plan_.in_flight();
        else
          for (const auto& p : a.parts) n += intersection(p.packets, r).count > 0 ? plan_.in_flight() : 0;
      }
    }
    return std::max(n, plan_.in_flight());  // where nothing reports: an evaluation that evaluates nothing
  }
  std::uint32_t under_way(packet_range packets) const { return std::max(under_way(packets, true), under_way(packets, false)); }

  // The halves of placed layers: one for each node and range of packets (a second part of the same layer there gets its own).
  void add_hosts() {
    struct host {
      std::uint32_t node;
      packet_range packets;
      std::vector<std::pair<std::size_t, std::size_t>> stages;  // group, part
    };
    std::vector<host> hosts;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const auto& a = where_[groups_[g][0]];
      if (!a.placed) continue;
      for (std::size_t k = 0; k < a.parts.size(); ++k) {
        const auto at = std::find_if(hosts.begin(), hosts.end(), [&](const host& h) {
          const auto twice = [&](const auto& s) { return s.first == g; };
          return h.node == a.parts[k].node && h.packets == a.parts[k].packets &&
                 std::none_of(h.stages.begin(), h.stages.end(), twice);
        });
        auto& h = at != hosts.end() ? *at : hosts.emplace_back(host{a.parts[k].node, a.parts[k].packets, {}});
        h.stages.emplace_back(g, k);
      }
    }
    for (const auto& h : hosts) {
      const auto index = static_cast<std::uint32_t>(plan_.workers.size());
      const auto prefix = "host" + std::to_string(index - workers_);
      plan_.stages.emplace_back();
      for (const auto& [group, part] : h.stages) add_stage(groups_[group], part, prefix, h.node, index);
      auto& half = add_role(role_kind::worker, prefix, h.node, index);
      half.packets = h.packets;
      plan_.workers.push_back(half.id);
    }
  }

  void add_all_edges() {
    const auto roles = plan_.roles.size();
    for (std::size_t r = 0; r < roles; ++r)
      if (plan_.roles[r].kind == role_kind::stage) {
        add_edges(plan_.roles[r].id);
        add_windows(plan_.roles[r].id);
      }
  }

  static bool reports(const graph_layer& l) { return l.maths->is_loss() || l.maths->is_metric(); }

  // A loss or metric that takes nothing from the loader (a reconstruction beside what it is made from) is sent the labels, or else the
  // data, all the same: only so does its credit bound how many packets are under way. Without, a loader runs ahead of it, and two ways
  // of unlike length that meet there fill it with halves of different packets.
  void add_windows(role_id s) {
    const tensor_ref what{from_data, static_cast<std::uint16_t>(g_.classes > 0 ? 1 : 0)};
    for (auto l : std::vector<std::uint32_t>(plan_[s].layers)) {
      const auto& layer = g_.layers[l];
      if (!reports(layer)) continue;
      const auto me = std::find(stage_of_[l].begin(), stage_of_[l].end(), s) - stage_of_[l].begin();
      const auto& part = where_[l].parts[static_cast<std::size_t>(me)];
      for (std::size_t w = 0; w < plan_.loaders.size(); ++w) {
        const auto packets = intersection(plan_.ranges[w], part.packets);
        const auto seen = [&](std::uint32_t i) {
          const auto& e = plan_.edges[i];
          return e.from == plan_.loaders[w] && (e.in_train || !layer.in_train) && (e.in_test || !layer.in_test);
        };
        const auto& in = plan_[s].in_edges;
        if (packets.count == 0 || std::any_of(in.begin(), in.end(), seen)) continue;
        auto& e = edge(what, plan_.loaders[w], s, {}, {});
        e.packets = plan_.placed ? packets : packet_range{0, ~0u};
        e.credit = plan_.in_flight();
        e.in_train = e.in_train || layer.in_train;
        e.in_test = e.in_test || layer.in_test;
      }
    }
  }

  // One edge for each tensor, and part of one, that stage `s` needs from elsewhere, in the order its layers ask for them.
  void add_edges(role_id s) {
    const auto layers = plan_[s].layers;
    for (auto l : layers) {
      const auto& layer = g_.layers[l];
      const auto me = std::find(stage_of_[l].begin(), stage_of_[l].end(), s) - stage_of_[l].begin();
      const auto& part = where_[l].parts[static_cast<std::size_t>(me)];
      for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
        const auto what = layer.inputs[k];
        const auto need = needed(layer, k, part);
        if (what.layer < 0) {
          for (std::size_t w = 0; w < plan_.loaders.size(); ++w)
            add_edge(what, plan_.loaders[w], s, layer, k, intersection(plan_.ranges[w], part.packets), {}, need);
          continue;
        }
        const auto& from = where_[static_cast<std::size_t>(what.layer)];
        for (std::size_t j = 0; j < from.parts.size(); ++j) {
          const auto packets = intersection(from.parts[j].packets, part.packets);
          if (packets.count == 0) continue;  // nearly all of them, where there are many workers
          const auto producer = stage_of_[static_cast<std::size_t>(what.layer)][j];
          if (producer == s) continue;
          const auto [region, any] = common(made(g_, what, from.parts[j].features), need);
          if (any) add_edge(what, producer, s, layer, k, packets, region, need, from.addends());
        }
      }
    }
  }

  void add_edge(tensor_ref what, role_id from, role_id to, const graph_layer& taker, std::size_t input, packet_range packets,
                feature_range region, feature_range need, bool addend = false) {
    if (packets.count == 0) return;
    auto& e = edge(what, from, to, region, need);
    e.addend = addend;
    const auto* producer = what.layer < 0 ? nullptr : &g_.layers[static_cast<std::size_t>(what.layer)];
    e.packets = plan_.placed ? packets : packet_range{0, ~0u};  // beside its worker alone, a stage takes whatever the loader loads
    e.credit = plan_[from].kind == role_kind::stage ? under_way(packets) : plan_.in_flight();
    if (producer && producer->spec && plan_[from].node != plan_[to].node) e.wire = wire_format_of(producer->spec->wire);
    e.grad_back = e.grad_back || taker.grad_in_wanted[input];
    e.in_train = e.in_train || (taker.in_train && (!producer || producer->in_train));
    e.in_test = e.in_test || (taker.in_test && (!producer || producer->in_test));
  }

  plan_edge& edge(tensor_ref what, role_id from, role_id to, feature_range region, feature_range need) {
    auto& stage = plan_.roles[index_of(to)];
    for (auto i : stage.in_edges) {
      auto& e = plan_.edges[i];
      if (e.what == what && e.from == from && e.region == region && e.need == need) return e;
    }
    auto& out = plan_.roles[index_of(from)].out_edges;
    plan_edge e;
    e.from = from;
    e.to = to;
    e.from_port = static_cast<std::uint16_t>(out.size());
    e.to_port = static_cast<std::uint16_t>(stage.in_edges.size());
    e.what = what;
    e.in_train = e.in_test = false;
    e.region = region;
    e.need = need;
    const auto number = static_cast<std::uint32_t>(plan_.edges.size());
    out.push_back(number);
    stage.in_edges.push_back(number);
    plan_.edges.push_back(e);
    return plan_.edges.back();
  }

  // Actor-based layers do their own maths, on whole tensors.
  void check_own_stages(const std::set<std::string>& own) {
    for (const auto& e : plan_.edges) {
      if (e.region.whole() && e.need.whole() && !e.addend && e.wire == wire_format::as_is) continue;
      for (auto r : {e.from, e.to})
        for (auto l : plan_[r].layers)
          if (own.count(g_.layers[l].type))
            return error(g_.layers[l].spec->at, "layer " + in_quotes(g_.layers[l].name) +
                                                    " is made of actors of its own: neither it nor its neighbours can be split by "
                                                    "feature or along their input, and what is between them travels as it is");
    }
  }

  void check_placed() {
    const auto& t = job_.topology;
    if (t.worker_groups > 1)
      error(position_of(t.key_at, "worker_groups", t.at),
            "layers that are placed or split by feature serve one worker group, there are " + std::to_string(t.worker_groups));
    if (job_.train.reducer == "tree")
      error(position_of(job_.train.key_at, "exchange.reducer", job_.train.at),
            "reducer \"tree\" needs every layer beside every worker; use \"server\" with placed layers");
  }

  // Groups are runs of workers, so their packets follow each other too.
  void add_groups() {
    const auto& t = job_.topology;
    const auto each = static_cast<std::uint32_t>(t.workers_per_group);
    for (std::uint32_t g = 0; g < static_cast<std::uint32_t>(t.worker_groups); ++g) {
      worker_group w;
      w.first = g * each;
      w.count = each;
      w.range.first = plan_.ranges[w.first].first;
      for (std::uint32_t k = 0; k < each; ++k) w.range.count += plan_.ranges[w.first + k].count;
      w.server_group = t.server_groups > 1 ? g : 0;
      plan_.groups.push_back(w);
    }
    plan_.server_groups = static_cast<std::uint32_t>(t.server_groups);
    plan_.servers_per_group = static_cast<std::uint32_t>(t.servers_per_group);
  }

  void add_reducers() {
    plan_.arity = static_cast<std::uint32_t>(job_.train.arity);
    for (auto w : plan_.workers)
      plan_.reducers.push_back(add_role(role_kind::reducer, plan_[w].name + "/reducer", plan_[w].node, plan_[w].worker).id);
  }

  // On a node that offers itself, else beside the last worker: a node that the topology leaves free may be away without harm.
  // One stage with the whole model: it runs when asked.
  void add_tester() {
    const auto offered = nodes_with(nodes_, "tester");
    const auto node = offered.empty() ? plan_[plan_.loaders.back()].node : offered.front();
    const auto none = static_cast<std::uint32_t>(workers_);
    const auto add = [&](role_kind kind, const char* name) {
      auto& r = add_role(kind, name, node, none);
      r.tester = true;
      return r.id;
    };
    plan_.tester_loader = add(role_kind::loader, "tester/loader");
    plan_.tester_stage = add(role_kind::stage, "tester/model");
    for (const auto& l : g_.layers)
      if (l.in_test) plan_.roles.back().layers.push_back(l.index);
    plan_.roles.back().parts.resize(plan_.roles.back().layers.size());
    plan_.tester = add(role_kind::tester, "tester");
    const packet_range any{0, ~0u};
    for (const auto& l : g_.layers)
      for (std::size_t k = 0; l.in_test && k < l.inputs.size(); ++k)
        if (l.inputs[k].layer < 0) add_edge(l.inputs[k], plan_.tester_loader, plan_.tester_stage, l, k, any, {}, {});
    for (auto i : plan_[plan_.tester_stage].in_edges) plan_.edges[i].in_train = plan_.edges[i].grad_back = false;
  }

  // Separate servers go to nodes without a worker as long as there are any.
  void add_shards() {
    auto hosts = nodes_with(nodes_, "server");
    if (!job_.topology.colocated) {
      auto apart = hosts;
      const auto works = [&](std::uint32_t n) {
        return std::any_of(plan_.workers.begin(), plan_.workers.end(), [&](role_id w) { return plan_[w].node == n; });
      };
      apart.erase(std::remove_if(apart.begin(), apart.end(), works), apart.end());
      if (!apart.empty()) hosts = apart;
    }
    for (std::uint32_t g = 0; g < plan_.server_groups; ++g) {
      for (std::uint32_t s = 0; s < shards_; ++s) {
        const auto number = g * static_cast<std::uint32_t>(shards_) + s;
        // With a server group for each worker group, a colocated group's servers are on its workers' nodes.
        auto node = hosts[number % hosts.size()];
        if (job_.topology.colocated && plan_.server_groups > 1)
          node = plan_[plan_.workers[plan_.groups[g].first + s % plan_.groups[g].count]].node;
        auto& r = add_role(role_kind::shard, "shard" + std::to_string(number), node);
        r.index = s;
        r.group = g;
        plan_.shards.push_back(r.id);
      }
    }
  }

  bool has_data_server() const { return job_.data.how == delivery::server || job_.data.how == delivery::seeds; }

  // On the first node that has the data.
  void add_data_server() {
    if (has_data_server()) plan_.data_server = add_role(role_kind::data_server, "data", nodes_with(nodes_, "data").front()).id;
  }

  void add_readers(std::uint32_t n) {
    for (auto& r : plan_.roles)
      if (r.kind == role_kind::loader || r.kind == role_kind::data_server) r.slots = n;
  }

  // The elements of parameter `p` that each half of a placed layer has.
  struct own_elements {
    std::uint32_t taker;
    element_range here;
  };
  std::vector<own_elements> placed_elements(std::uint32_t p) const {
    const auto& param = g_.params[p];
    std::vector<own_elements> list;
    if (!where_[param.layer].placed) return list;
    for (auto s : stage_of_[param.layer]) {
      const auto& r = plan_[s];
      const auto at = static_cast<std::size_t>(std::find(r.layers.begin(), r.layers.end(), param.layer) - r.layers.begin());
      if (const auto here = elements_of(g_, p, r.parts[at].get()); here.count > 0) list.push_back({r.worker, here});
    }
    return list;
  }
  // Every element is on one half only, which is not a data-parallel worker's: it lives beside it. What several halves have (a batch
  // split, a parameter that is not sliced) is dealt over all shards like anything else.
  static bool apart(const std::vector<own_elements>& halves) {
    return halves.size() == 1 || (halves.size() > 1 && halves[0].here.begin != halves[1].here.begin);
  }
  bool dealt(std::uint32_t p) const { return g_.params[p].spec.trainable && !apart(placed_elements(p)); }

  role_id shard_beside(std::uint32_t node) {
    for (auto s : plan_.shards)
      if (plan_[s].node == node) return s;
    auto& r = add_role(role_kind::shard, "shard" + std::to_string(plan_.shards.size()), node);
    r.index = plan_.servers_per_group++;
    plan_.shards.push_back(r.id);
    return r.id;
  }

  // The end of shard s's part of the elements to deal, as (parameter, element in it): s = shards - 1 ends behind everything.
  std::vector<std::pair<std::uint32_t, std::int64_t>> cuts() const {
    const auto count_of = [&](std::uint32_t p) { return dealt(p) ? g_.params[p].spec.dims.count() : 0; };
    std::int64_t total = 0;
    for (std::uint32_t p = 0; p < g_.params.size(); ++p) total += count_of(p);
    std::vector<std::pair<std::uint32_t, std::int64_t>> ends;
    const auto n = static_cast<std::int64_t>(shards_);
    std::uint32_t p = 0;
    std::int64_t before = 0;  // elements ahead of parameter p
    for (std::int64_t s = 1; s < n; ++s) {
      const auto target = total / n * s + total % n * s / n;
      for (; p < g_.params.size(); ++p) {
        const auto count = count_of(p);
        if (before + count > target) break;
        before += count;
      }
      const auto room = p < g_.params.size() ? g_.params[p].spec.dims.count() : 0;
      ends.emplace_back(p, std::min((target - before + cut_multiple / 2) / cut_multiple * cut_multiple, room));
    }
    ends.emplace_back(static_cast<std::uint32_t>(g_.params.size()), 0);
    return ends;
  }

  void cut_parameters() {
    const auto ends = cuts();
    std::size_t s = 0;
    std::map<std::uint32_t, role_id> first_of_layer;
    std::vector<param_block> buffers;
    for (std::uint32_t p = 0; p < g_.params.size(); ++p) {
      const auto& param = g_.params[p];
      const auto halves = placed_elements(p);
      std::vector<std::uint32_t> takers;
      for (const auto& h : halves) takers.push_back(h.taker);
      if (apart(halves)) {
        for (const auto& [taker, here] : halves)
          plan_.blocks.push_back(
              {0, p, here.begin, here.count, shard_beside(plan_[plan_.workers[taker]].node), {taker}, here.run, here.stride});
        continue;
      }
      if (!param.spec.trainable) {
        buffers.push_back({0, p, 0, param.spec.dims.count(), plan_.shards[s], takers});
        continue;
      }
      for (std::int64_t begin = 0; begin < param.spec.dims.count();) {
        while (ends[s] <= std::pair(p, begin)) ++s;
        const auto end = ends[s].first == p ? ends[s].second : param.spec.dims.count();
        plan_.blocks.push_back({0, p, begin, end - begin, plan_.shards[s], takers});
        first_of_layer.try_emplace(param.layer, plan_.shards[s]);
        begin = end;
      }
    }
    for (auto& b : buffers) {
      if (auto i = first_of_layer.find(g_.params[b.param].layer); i != first_of_layer.end()) b.shard = i->second;
      plan_.blocks.push_back(b);
    }
    std::sort(plan_.blocks.begin(), plan_.blocks.end(),
              [](const param_block& a, const param_block& b) { return std::pair(a.param, a.begin) < std::pair(b.param, b.begin); });
    for (std::size_t i = 0; i < plan_.blocks.size(); ++i) plan_.blocks[i].id = static_cast<std::uint32_t>(i);
  }

  void check_memory() {
    if (std::all_of(nodes_.begin(), nodes_.end(), [](const node_spec& n) { return n.memory_limit <= 0; })) return;
    const auto costs = cost_of(plan_, g_, job_);
    for (const auto& n : nodes_) {
      const auto i = costs.memory.find(n.name);
      if (n.memory_limit <= 0 || i == costs.memory.end() || i->second <= static_cast<double>(n.memory_limit)) continue;
      error(n.at, "over budget: node '" + n.name + "' would hold about " + std::to_string(static_cast<std::int64_t>(i->second)) +
                      " bytes of this job, its memory_limit is " + std::to_string(n.memory_limit));
    }
  }

  const job_spec& job_;
  const model_graph& g_;
  const std::vector<node_spec>& nodes_;
  job_plan plan_;
  diagnostics errors_;
  std::uint64_t workers_ = 1, shards_ = 1;
  std::vector<std::uint32_t> worker_nodes_, beside_;  // nodes that may have workers; the node of each worker
  std::vector<std::vector<std::uint32_t>> groups_;    // layers of each stage
  std::vector<assignment> where_;                     // by layer
  std::vector<std::vector<role_id>> stage_of_;        // by layer, part
};

}  // namespace

const char* name_of(role_kind k) {
  switch (k) {
    case role_kind::coordinator: return "coordinator";
    case role_kind::loader: return "loader";
    case role_kind::stage: return "stage";
    case role_kind::worker: return "worker";
    case role_kind::shard: return "shard";
    case role_kind::reducer: return "reducer";
    case role_kind::tester: return "tester";
    case role_kind::data_server: return "data_server";
  }
  return "?";
}

std::variant<job_plan, diagnostics> make_plan(const job_spec& job, const model_graph& graph, const std::vector<node_spec>& nodes,
                                              const plan_options& options) {
  return planner(job, graph, nodes).make(options);
}

std::uint32_t tree_parent(std::uint32_t rank, std::uint32_t arity) {
  for (std::uint64_t unit = 1; unit <= rank; unit *= arity)
    if (const auto digit = rank / unit % arity; digit != 0) return rank - static_cast<std::uint32_t>(digit * unit);
  return 0;
}

std::uint32_t tree_reach(std::uint32_t rank, std::uint32_t arity, std::uint32_t workers) {
  std::uint64_t unit = 1;
  while (unit < workers && rank % (unit * arity) == 0) unit *= arity;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(unit, workers - rank));
}

}  // namespace troupe
