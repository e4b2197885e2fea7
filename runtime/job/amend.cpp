#include "runtime/job/amend.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "ops/device_descriptors.hpp"
#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/coordinator/handover.hpp"

namespace troupe {
namespace {

bool has_role(const node_spec& n, const std::string& role) { return std::count(n.roles.begin(), n.roles.end(), role) > 0; }

std::string node_of(const std::string& place) { return place.substr(0, place.find('/')); }

// The places that the job's file, or an earlier move, gives a layer or the first placed layer that
// it reads.
std::vector<std::string> written_places(const prepared_job& j, std::uint32_t layer) {
  std::vector<const std::vector<std::string>*> of(layer + 1, nullptr);
  for (std::uint32_t l = 0; l <= layer; ++l) {
    const auto& g = j.graph.layers[l];
    if (g.spec && !g.spec->place.empty()) of[l] = &g.spec->place;
    for (const auto& in : g.inputs)
      if (!of[l] && in.layer >= 0) of[l] = of[static_cast<std::size_t>(in.layer)];
  }
  return of[layer] ? *of[layer] : std::vector<std::string>();
}

// Returns the places of a layer's parts in order, with a device where the file names one; empty if
// the layer is on the nodes of the workers.
std::vector<std::string> places_of(const prepared_job& j, std::uint32_t layer) {
  std::map<std::pair<std::uint32_t, std::int64_t>, std::string> found;  // by first packet, first feature (of the input)
  for (const auto& r : j.plan.roles) {
    if (!r.trains()) continue;
    const auto at = std::find(r.layers.begin(), r.layers.end(), layer);
    if (at == r.layers.end()) continue;
    if (r.worker < j.plan.ranges.size()) return {};
    const auto& part = r.parts[static_cast<std::size_t>(at - r.layers.begin())];
    found[{r.packets.first, part ? std::max(part->features.begin, part->inputs.begin) : 0}] = j.plan.nodes[r.node].name;
  }
  std::vector<std::string> names;
  for (auto& [first, name] : found) names.push_back(std::move(name));
  const auto written = written_places(j, layer);
  for (std::size_t k = 0; k < names.size() && written.size() == names.size(); ++k)
    if (node_of(written[k]) == names[k]) names[k] = written[k];
  return names;
}

const graph_layer* layer_named(const prepared_job& j, const std::string& name) {
  for (const auto& l : j.graph.layers)
    if (l.name == name) return &l;
  return nullptr;
}

// Reads "fc6" or "fc6.1": the layer and the number of the part, -1 for the whole layer.
expected<std::pair<const graph_layer*, int>> layer_and_part(const prepared_job& j, const std::string& name) {
  if (const auto* l = layer_named(j, name)) return std::pair(l, -1);
  const auto dot = name.find_last_of('.');
  const auto* l = dot == std::string::npos ? nullptr : layer_named(j, name.substr(0, dot));
  const auto number = l ? name.substr(dot + 1) : std::string();
  if (l && !number.empty() && number.size() < 6 && number.find_first_not_of("0123456789") == std::string::npos) {
    const auto parts = places_of(j, l->index).size();
    const auto k = std::stoul(number);
    if (k < parts) return std::pair(l, static_cast<int>(k));
    return unexpected(error("layer " + in_quotes(l->name) +
                            (parts == 0 ? " is on the node of every worker: it has no parts to move"
                                        : " has " + std::to_string(parts) + " parts, counted from 0")));
  }
  std::vector<std::string> names;
  for (const auto& x : j.graph.layers) names.push_back(x.name);
  return unexpected(error("no layer " + in_quotes(name) + did_you_mean(name, names)));
}

void put(amendments& a, layer_word w) {
  std::erase_if(a.layers, [&](const auto& x) { return x.layer == w.layer; });
  a.layers.push_back(std::move(w));
}

expected<const node_spec*> node_named(const prepared_job& j, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& n : j.nodes) {
    if (n.name == name) return &n;
    names.push_back(n.name);
  }
  return unexpected(error("no node " + in_quotes(name) + did_you_mean(name, names) + " (available: " + joined(names) + ")"));
}

expected<void> move_layer(const prepared_job& j, const std::string& what, const std::string& place, amendments& a) {
  const auto found = layer_and_part(j, what);
  if (!found) return unexpected(found.error());
  const auto [layer, part] = *found;
  const auto name = node_of(place);
  const auto node = node_named(j, name);
  if (!node) return unexpected(node.error());
  const auto& devices = (*node)->devices;
  if (name != place && !listed_device(devices, place.substr(name.size() + 1)))
    return unexpected(error("the devices of node " + in_quotes(name) + " are " + joined(devices)));
  if (a.without.count(name))
    return unexpected(error("the job does not use node " + in_quotes(name) + ": `add-node " + name + "` makes it usable again"));
  auto places = places_of(j, layer->index);
  if (part < 0) places = places.size() == 1 ? places : std::vector<std::string>{std::string()};
  auto& at = places[static_cast<std::size_t>(std::max(part, 0))];
  if (at == place || (name == place && node_of(at) == name))
    return unexpected(error("layer " + in_quotes(what) + " is on " + at + " already"));
  at = place;
  // Layers on the nodes of the workers stay there, also those whose input is now on another node.
  for (const auto& l : j.graph.layers)
    if (l.index != layer->index && places_of(j, l.index).empty()) put(a, {l.name, {}, false});
  put(a, {layer->name, places, places.size() == 1});
  return {};
}

// An error if the job needs `node` when it must do without the nodes `without`.
expected<void> check_not_needed(const prepared_job& j, const std::string& node, const std::set<std::string>& without) {
  const auto at = std::find_if(j.nodes.begin(), j.nodes.end(), [&](const auto& x) { return x.name == node; });
  for (const char* role : {"worker", "server", "data"}) {
    const bool other =
        std::any_of(j.nodes.begin(), j.nodes.end(), [&](const auto& x) { return has_role(x, role) && !without.count(x.name); });
    const bool needed = role != std::string("data") || j.plan.data_server != no_role;
    if (needed && has_role(*at, role) && !other)
      return unexpected(error("node " + in_quotes(node) + " is the last with the role \"" + std::string(role) + "\""));
  }
  return {};
}

expected<void> lose_nodes(const prepared_job& j, const lose_command& c, amendments& a) {
  for (const auto& node : c.nodes) {
    if (const auto known = node_named(j, node); !known) return unexpected(known.error());
    if (j.plan.nodes[j.plan.roles.front().node].name == node)
      return unexpected(error("node " + in_quotes(node) + " has the job's coordinator"));
    a.without.insert(node);
  }
  for (const auto& node : c.nodes)
    if (auto ok = check_not_needed(j, node, a.without); !ok) return ok;
  return {};
}

expected<void> drain_node(const prepared_job& j, const std::string& node, amendments& a) {
  if (const auto known = node_named(j, node); !known) return unexpected(known.error());
  if (a.without.count(node)) return unexpected(error("node " + in_quotes(node) + " is drained already"));
  if (j.plan.nodes[j.plan.roles.front().node].name == node)
    return unexpected(error("node " + in_quotes(node) + " has the job's coordinator: it cannot be drained"));
  a.without.insert(node);
  return check_not_needed(j, node, a.without).transform_error([](const error& e) {
    return error(e.text + ": it cannot be drained");
  });
}

expected<void> balance(const prepared_job& j, const balance_command& c, amendments& a) {
  if (!j.plan.balances) return unexpected(error("no layer of the job has fraction = \"auto\": its packets cannot be balanced"));
  std::uint64_t sum = 0;
  for (const auto n : c.packets) {
    if (n < 1 || n > j.plan.packets) return unexpected(error("bad number of packets " + in_quotes(std::to_string(n))));
    sum += n;
  }
  if (c.packets.size() != j.plan.ranges.size() || sum != j.plan.packets)
    return unexpected(error("the job has " + std::to_string(j.plan.ranges.size()) + " workers and " +
                            std::to_string(j.plan.packets) + " packets in a step: name the packets of each worker"));
  a.packets = c.packets;
  return {};
}

expected<void> add_node(const prepared_job& j, const std::string& node, amendments& a) {
  if (const auto known = node_named(j, node); !known) return unexpected(known.error());
  if (a.without.erase(node) == 0)
    return unexpected(error("node " + in_quotes(node) + " is not drained: the job may use it already"));
  return {};
}

// Returns the node for part `k` of a layer that the file places on `node`, which is drained: the
// next node with workers that has no part of the layer (any node with workers if all have one).
std::string instead(const std::vector<node_spec>& nodes, const std::string& node, std::size_t k,
                    const std::vector<std::string>& place) {
  std::vector<std::string> can, free;
  std::size_t at = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].name == node) at = i;
    if (!has_role(nodes[i], "worker")) continue;
    can.push_back(nodes[i].name);
    const auto taken = [&](const std::string& p) { return node_of(p) == nodes[i].name; };
    if (std::none_of(place.begin(), place.end(), taken)) free.push_back(nodes[i].name);
  }
  const auto& from = free.empty() ? can : free;
  return from.empty() ? node : from[(at + k) % from.size()];
}

std::vector<double> shares_of(const std::vector<std::uint32_t>& packets) {
  const auto sum = std::accumulate(packets.begin(), packets.end(), 0.0);
  std::vector<double> shares;
  for (auto n : packets) shares.push_back(n / sum);
  return shares;
}

void apply(const amendments& a, job_spec& spec, std::vector<node_spec>& nodes) {
  for (auto& n : nodes)
    if (a.without.count(n.name)) std::erase_if(n.roles, [](const std::string& r) { return r != "coordinator"; });
  for (auto& l : spec.layers) {
    if (l.auto_fraction) l.fraction = shares_of(a.packets);
    for (const auto& w : a.layers) {
      if (w.layer != l.name) continue;
      l.place = w.place;
      if (w.whole) l.fraction.clear(), l.auto_fraction = false;
      if (w.place.empty()) l.key_at.try_emplace("partition", l.at);
    }
    for (std::size_t k = 0; k < l.place.size(); ++k)
      if (a.without.count(node_of(l.place[k]))) l.place[k] = instead(nodes, node_of(l.place[k]), k, l.place);
  }
}

}  // namespace

bool amends(const command& c) {
  return c.is<move_command>() || c.is<drain_command>() || c.is<add_node_command>() || c.is<balance_command>();
}

lose_command loss_of(const std::set<std::string>& nodes) { return {{nodes.begin(), nodes.end()}}; }

std::string done_text(const command& c) {
  return std::visit(overloaded{
                        [](const lose_command& l) {
                          return l.nodes.empty() ? "all nodes start their roles again" : "continued without " + joined(l.nodes);
                        },
                        [](const balance_command& b) {
                          std::vector<std::string> counts;
                          for (const auto n : b.packets) counts.push_back(std::to_string(n));
                          return "balanced the packets of the workers: " + joined(counts);
                        },
                        [](const move_command& m) { return "moved " + m.layer + " to " + m.place; },
                        [](const drain_command& d) { return "drained " + d.node; },
                        [](const add_node_command& n) { return "added " + n.node; },
                        [](const auto& other) { return std::string(other.name); },
                    },
                    c.what);
}

expected<amendments> amended(const prepared_job& now, const amendments& so_far, const command& wish) {
  auto a = so_far;
  const auto done = std::visit(
      overloaded{
          [&](const lose_command& c) { return lose_nodes(now, c, a); },
          [&](const move_command& c) -> expected<void> {
            if (now.plan.server_groups > 1)
              return unexpected(error("with several server groups every layer is on the nodes of its workers: none can be moved"));
            return move_layer(now, c.layer, c.place, a);
          },
          [&](const drain_command& c) { return drain_node(now, c.node, a); },
          [&](const add_node_command& c) { return add_node(now, c.node, a); },
          [&](const balance_command& c) { return balance(now, c, a); },
          [&](const auto& other) -> expected<void> {
            return unexpected(error(std::string("unknown command '") + other.name + "'"));
          },
      },
      wish.what);
  if (!done) return unexpected(done.error());
  return a;
}

void continue_at(prepared_job& j, std::uint64_t step, const std::shared_ptr<const handover>& before,
                 std::vector<std::pair<std::string, tensor>> named) {
  j.first_step = step;
  j.continued = true;
  if (!before) return;
  j.before = std::make_shared<handover>(*before);
  j.before->named = std::move(named);
}

expected<std::shared_ptr<prepared_job>, diagnostics> prepare_again(const std::shared_ptr<const prepared_job>& original,
                                                                   const amendments& a) {
  auto spec = original->spec;
  spec.topology = original->asked;
  auto nodes = original->nodes;
  apply(a, spec, nodes);
  if (!a.mode.empty()) {
    const auto* m = original->all->modes.find(a.mode);
    if (!m) return unexpected(diagnostics{{spec.train.sync.at, "unknown mode '" + a.mode + "'"}});
    spec.train.sync.kind = a.mode;
    try {
      spec.train.sync.values = options_from_text(a.mode_options, m->specs);
    } catch (const option_error& e) {
      return unexpected(diagnostics{{spec.train.sync.at, "mode '" + a.mode + "': " + e.what()}});
    }
  }
  auto made = prepare_job(std::move(spec), original->all, nodes, original->data);
  if (made) {
    auto& j = **made;
    j.id = original->id;
    j.filed_mode = original->filed_mode;
    j.keeps_best = original->keeps_best;
    j.histograms_every = original->histograms_every;
  }
  return made;
}

mode_choice mode_of(const prepared_job& j) { return {j.spec.train.sync.kind, options_to_text(j.spec.train.sync.values)}; }

std::string mode_text(const prepared_job& j) { return mode_of(j).text(); }

void set_mode(amendments& a, const mode_choice& m) {
  a.mode = m.name;
  a.mode_options = m.options;
}

}  // namespace troupe
