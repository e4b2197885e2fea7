#include "runtime/plan/plan_check.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/wording.hpp"
#include "runtime/plan/exact_cover.hpp"
#include "runtime/plan/partition_ways.hpp"

namespace troupe {
namespace {

// The intersection.
span_of both(span_of a, span_of b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

// "packet 3", "packets 3 to 5".
std::string counted(const char* one, const char* many, span_of s) {
  if (s.count() == 1) return std::string(one) + " " + std::to_string(s.begin);
  return std::string(many) + " " + std::to_string(s.begin) + " to " + std::to_string(s.end - 1);
}

// A layer, or a part of it, on a training stage.
struct hosted_part {
  const role_plan* stage = nullptr;
  std::size_t position = 0;  // in stage->layers
  const part_layer* part() const { return stage->parts[position].get(); }
};
using parts_by_layer = std::vector<std::vector<hosted_part>>;

// Checks that every element of a parameter has one owner and is sent where it is used.
class parameter_checker {
 public:
  parameter_checker(const job_plan& p, const model_graph& g, const parts_by_layer& parts) : p_(p), g_(g), parts_(parts) {
    blocks_.resize(g_.params.size());
    for (std::uint32_t b = 0; b < p_.blocks.size(); ++b) blocks_[p_.blocks[b].param].push_back(b);
  }

  std::vector<plan_fault> run() {
    for (std::uint32_t q = 0; q < g_.params.size(); ++q) check_parameter(q);
    return std::move(faults_);
  }

 private:
  void fault(const graph_layer& l, const std::string& text) {
    faults_.push_back({static_cast<std::int32_t>(l.index), "layer " + in_quotes(l.name) + ": " + text});
  }

  // Length of the rows that columns are cut from; 0: no block of the parameter is cut along axis 1.
  std::int64_t row_of(std::uint32_t q) {
    for (auto b : blocks_[q])
      if (p_.blocks[b].run > 0) return g_.params[q].spec.dims.rank() > 0 ? g_.params[q].spec.dims.count_from(1) : 0;
    return 0;
  }
  // A range of elements as a rectangle to cover: an interval of all elements, or rows x columns.
  struct area {
    span_of rows, columns;
  };
  static std::optional<area> along(const element_range& e, std::int64_t row, std::int64_t all) {
    if (row == 0) return e.run == 0 ? std::optional(area{{0, 1}, {e.begin, e.begin + e.count}}) : std::nullopt;
    if (e.run == 0) return e.begin == 0 && e.count == all ? std::optional(area{{0, all / row}, {0, row}}) : std::nullopt;
    if (e.stride != row || e.begin < 0 || e.begin % row + e.run > row || e.count % e.run != 0) return std::nullopt;
    const auto first = e.begin / row, column = e.begin % row;
    if (first + e.count / e.run > all / row) return std::nullopt;
    return area{{first, first + e.count / e.run}, {column, column + e.run}};
  }
  // The columns that a part of a layer uses; they must extend over all rows.
  static std::optional<span_of> columns_of(const element_range& e, std::int64_t row, std::int64_t all) {
    const auto here = along(e, row, all);
    if (!here || (row > 0 && !(here->rows == span_of{0, all / row}))) return std::nullopt;
    return here->columns;
  }

  void check_parameter(std::uint32_t q) {
    const auto& param = g_.params[q];
    const auto& l = g_.layers[param.layer];
    const auto name = "parameter " + in_quotes(param.full_name);
    const auto all = param.spec.dims.count(), row = row_of(q);
    std::vector<claim> claims;
    for (auto b : blocks_[q]) {
      const auto& block = p_.blocks[b];
      const auto which = "block " + std::to_string(b) + " of " + name;
      if (block.id != b) return fault(l, which + " has id " + std::to_string(block.id));
      if (block.count <= 0) return fault(l, which + " is empty");
      if (p_[block.shard].group != 0) return fault(l, name + ": " + p_[block.shard].name + " is not in server group 0");
      const auto here = along({block.begin, block.count, block.run, block.stride}, row, all);
      if (!here) return fault(l, which + " is neither a contiguous range of elements nor a range of columns");
      claims.push_back({here->rows, here->columns, b});
    }
    const auto owner = [&](std::uint32_t b) { return p_[p_.blocks[b].shard].name + " (block " + std::to_string(b) + ")"; };
    if (const auto f = exact_cover(claims, {0, row > 0 ? all / row : 1}, {0, row > 0 ? row : all})) {
      const auto some = name + ", " + counted("element", "elements", f->features) + (row > 0 ? " of each row" : "");
      if (f->kind == cover_fault::what::missing) return fault(l, some + ": no shard owns them");
      if (f->kind == cover_fault::what::twice)
        return fault(l, some + ": both " + owner(f->first) + " and " + owner(f->second) + " own them");
      return fault(l, some + " of " + owner(f->first) + ": out of range, there are " + std::to_string(row > 0 ? row : all));
    }
    check_takers(q, row);
  }

  void check_takers(std::uint32_t q, std::int64_t row) {
    const auto& param = g_.params[q];
    const auto& l = g_.layers[param.layer];
    const auto all = param.spec.dims.count();
    std::map<std::uint32_t, span_of> uses;  // by worker
    std::set<std::uint32_t> idle;           // workers that host a part of the layer without elements of this parameter
    for (const auto& at : parts_[param.layer]) {
      const auto elements = elements_of(g_, q, at.part());
      const auto here = columns_of(elements, row, all);
      if (elements.count > 0 && !here) return fault(l, at.stage->name + " uses other columns of " + in_quotes(param.full_name));
      if (elements.count > 0)
        uses.try_emplace(at.stage->worker, *here);
      else
        idle.insert(at.stage->worker);
    }
    // The usual case needs no further check: every worker has the whole parameter.
    const auto all_here = [&](const auto& u) { return u.first < p_.ranges.size() && u.second == span_of{0, row > 0 ? row : all}; };
    const auto dealt = [&](auto b) { return p_.blocks[b].takers.empty(); };
    if (idle.empty() && uses.size() == p_.ranges.size() && std::all_of(uses.begin(), uses.end(), all_here) &&
        std::all_of(blocks_[q].begin(), blocks_[q].end(), dealt))
      return;
    for (auto b : blocks_[q])
      if (!check_block(q, b,
                       along({p_.blocks[b].begin, p_.blocks[b].count, p_.blocks[b].run, p_.blocks[b].stride}, row, all)->columns,
                       uses, idle))
        return;
  }

  using uses_by_worker = std::map<std::uint32_t, span_of>;

  bool check_block(std::uint32_t q, std::uint32_t b, span_of owned, const uses_by_worker& uses,
                   const std::set<std::uint32_t>& idle) {
    const auto& block = p_.blocks[b];
    const auto says = [&](std::uint32_t w, const char* before, const char* after) {
      fault(g_.layers[g_.params[q].layer], p_[p_.workers[w]].name + before + "block " + std::to_string(b) + " of parameter " +
                                               in_quotes(g_.params[q].full_name) + after);
      return false;
    };
    for (const auto& [w, here] : uses) {
      const bool used = both(owned, here).count() > 0, taken = p_.takes(w, block);
      if (used && !taken) return says(w, " uses ", " but does not receive it");
      if (!used && taken) return says(w, " receives ", " but does not use it");
      if (used && !(both(owned, here) == owned)) return says(w, " uses only a part of ", "");
    }
    std::vector<std::uint32_t> takers = block.takers;
    if (takers.empty())
      for (std::uint32_t w = 0; w < p_.ranges.size(); ++w) takers.push_back(w);
    for (auto w : takers) {
      if (idle.count(w)) return says(w, " receives ", " but does not use it");
      if (!uses.count(w)) return says(w, " receives ", " but has no part of the layer");
    }
    return true;
  }

  const job_plan& p_;
  const model_graph& g_;
  const parts_by_layer& parts_;
  std::vector<plan_fault> faults_;
  std::vector<std::vector<std::uint32_t>> blocks_;  // by parameter
};

// Requires that all numbers in the plan are valid, which check_plan has verified.
std::vector<plan_fault> check_parameters(const job_plan& p, const model_graph& g, const parts_by_layer& parts) {
  return parameter_checker(p, g, parts).run();
}

constexpr std::size_t max_named = 4;

span_of span(packet_range r) { return {r.first, std::int64_t{r.first} + r.count}; }
span_of span(feature_range r, std::int64_t all) { return r.whole() ? span_of{0, all} : span_of{r.begin, r.end}; }

std::string place(const cover_fault& f) {
  return counted("packet", "packets", f.packets) + ", " + counted("feature", "features", f.features);
}

class checker {
 public:
  checker(const job_plan& p, const model_graph& g) : p_(p), g_(g) {}

  std::vector<plan_fault> run() {
    if (!numbers_hold()) return std::move(faults_);  // later checks use these numbers as indices
    parts_.resize(g_.layers.size());
    for (const auto& r : p_.roles)
      for (std::size_t k = 0; r.trains() && k < r.layers.size(); ++k) parts_[r.layers[k]].push_back({&r, k});
    check_wiring();
    check_loaders();
    check_workers();
    for (const auto& l : g_.layers) check_claims(l);
    for (const auto& r : p_.roles)
      if (r.does().hosts_layers) check_inputs(r), check_window(r);
    check_tester();
    for (auto& f : check_parameters(p_, g_, parts_)) faults_.push_back(std::move(f));
    return std::move(faults_);
  }

 private:
  void fault(std::int32_t layer, std::string text) {
    const auto of = layer < 0 ? std::string() : "layer " + in_quotes(g_.layers[static_cast<std::size_t>(layer)].name) + ": ";
    faults_.push_back({layer, of + std::move(text)});
  }
  void fault(const graph_layer& l, std::string text) { fault(static_cast<std::int32_t>(l.index), std::move(text)); }

  // --- every number in the plan is valid

  // The duties of a role; null if the role does not exist.
  const role_duties* duties(role_id r) const { return index_of(r) < p_.roles.size() ? &p_[r].does() : nullptr; }

  bool numbers_hold() {
    for (std::size_t i = 0; i < p_.roles.size(); ++i) {
      const auto& r = p_.roles[i];
      if (index_of(r.id) != i)
        fault(-1, "role " + in_quotes(r.name) + " has number " + std::to_string(index_of(r.id)) + " but is at index " +
                      std::to_string(i) + ": a role is missing or duplicated");
      if (r.device > 0 && r.node < p_.nodes.size() && r.device >= p_.nodes[r.node].devices.size())
        fault(-1, "role " + in_quotes(r.name) + " uses a device that its node does not have");
      const auto strange = [&](const std::vector<std::uint32_t>& list, std::size_t all) {
        return std::any_of(list.begin(), list.end(), [&](auto x) { return x >= all; });
      };
      if (r.node >= p_.nodes.size() || strange(r.layers, g_.layers.size()) || strange(r.in_edges, p_.edges.size()) ||
          strange(r.out_edges, p_.edges.size()) || (r.does().hosts_layers && r.parts.size() != r.layers.size()))
        fault(-1, "role " + in_quotes(r.name) + " refers to a node, layer, part or edge that does not exist");
      if (r.trains() && r.worker >= p_.workers.size())
        fault(-1, "role " + in_quotes(r.name) + " belongs to a worker that does not exist");
    }
    for (const auto& kind : role_table())
      for (auto r : kind.listed(p_))
        if (index_of(r) >= p_.roles.size() || p_[r].kind != kind.kind)
          fault(-1, std::string("the plan's list of roles of kind ") + kind.name + " contains a role of another kind");
    for (const auto& e : p_.edges) {
      const auto *from = duties(e.from), *to = duties(e.to);
      if (!from || !(from->loads || from->hosts_layers) || !to || !to->hosts_layers ||
          e.what.layer >= static_cast<std::int32_t>(g_.layers.size()))
        fault(-1, "an edge connects roles that do not send or receive its tensor");
    }
    for (const auto& b : p_.blocks)
      if (const auto* owner = duties(b.shard);
          b.param >= g_.params.size() || !owner || !owner->owns_parameters ||
          std::any_of(b.takers.begin(), b.takers.end(), [&](auto w) { return w >= p_.workers.size(); }))
        fault(-1, "block " + std::to_string(b.id) + " refers to a parameter, shard or taker that does not exist");
    if (p_.ranges.size() != p_.loaders.size() || p_.stages.size() != p_.workers.size() || p_.workers.size() < p_.ranges.size())
      fault(-1, "the numbers of workers, loaders and stage lists do not match");
    return faults_.empty();
  }

  void check_wiring() {
    std::vector<int> in(p_.edges.size(), 0), out(p_.edges.size(), 0);
    for (const auto& r : p_.roles) {
      for (std::size_t k = 0; k < r.in_edges.size(); ++k)
        if (const auto& e = p_.edges[r.in_edges[k]]; e.to == r.id && e.to_port == k) ++in[r.in_edges[k]];
      for (std::size_t k = 0; k < r.out_edges.size(); ++k)
        if (const auto& e = p_.edges[r.out_edges[k]]; e.from == r.id && e.from_port == k) ++out[r.out_edges[k]];
    }
    for (std::size_t i = 0; i < p_.edges.size(); ++i) {
      if (in[i] == 1 && out[i] == 1) continue;
      const auto& e = p_.edges[i];
      fault(e.what.layer, "the edge from " + p_[e.from].name + " to " + p_[e.to].name + " is not listed at " +
                              (out[i] == 1 ? p_[e.to].name : p_[e.from].name));
    }
  }

  void check_loaders() {
    std::vector<claim> claims;
    for (std::size_t w = 0; w < p_.ranges.size(); ++w)
      claims.push_back({span(p_.ranges[w]), {0, 1}, static_cast<std::uint32_t>(w)});
    const auto f = exact_cover(claims, {0, p_.packets}, {0, 1});
    if (!f) return;
    const auto which = counted("packet", "packets", f->packets);
    const auto name = [&](std::uint32_t w) { return p_[p_.loaders[w]].name; };
    if (f->kind == cover_fault::what::missing) fault(-1, which + " of a step: no loader loads them");
    if (f->kind == cover_fault::what::twice)
      fault(-1, which + " of a step: both " + name(f->first) + " and " + name(f->second) + " load them");
    if (f->kind == cover_fault::what::beyond)
      fault(-1, name(f->first) + " loads " + which + ", but the number of packets of a step is " + std::to_string(p_.packets));
  }

  // Every worker hosts each layer at most once, and every stage belongs to one worker.
  void check_workers() {
    std::vector<int> seen(p_.roles.size(), 0);
    for (std::uint32_t w = 0; w < p_.workers.size(); ++w) {
      if (p_[p_.workers[w]].worker != w) fault(-1, p_[p_.workers[w]].name + " is not at the index of its worker number");
      std::set<std::uint32_t> layers;
      for (auto s : p_.stages[w]) {
        if (p_[s].worker == w && !p_[s].tester) ++seen[index_of(s)];
        for (auto l : p_[s].layers)
          if (!layers.insert(l).second) fault(static_cast<std::int32_t>(l), p_[p_.workers[w]].name + " hosts it twice");
      }
    }
    for (const auto& r : p_.roles)
      if (r.trains() && !r.layers.empty() && seen[index_of(r.id)] != 1)
        fault(static_cast<std::int32_t>(r.layers[0]), r.name + " is a stage of no worker, or of several");
  }

  // --- every layer is computed exactly once

  std::string parts_text(const std::vector<hosted_part>& parts) const {
    if (parts.empty()) return "the layer has no parts";
    std::string s;
    for (std::size_t i = 0; i < std::min(parts.size(), max_named); ++i) {
      s += (i == 0 ? "" : "; ") + parts[i].stage->name + " has " + counted("packet", "packets", span(parts[i].stage->packets));
      if (const auto* part = parts[i].part()) {
        const auto r = part->inputs.whole() ? part->features : part->inputs;
        s += ", " + counted("feature", "features", {r.begin, r.end}) + (part->inputs.whole() ? "" : " of its input");
      }
    }
    return s + (parts.size() > max_named ? "; and " + std::to_string(parts.size() - max_named) + " more" : "");
  }

  static bool is_addend(const hosted_part& p) { return p.part() && !p.part()->inputs.whole(); }

  void check_claims(const graph_layer& l) {
    if (!l.in_train && !l.in_test) return;
    const auto& parts = parts_[l.index];
    const bool adds = std::any_of(parts.begin(), parts.end(), is_addend);
    const auto all = features_of(adds ? l.in.at(0) : l.out.at(0));
    std::vector<claim> claims;
    for (const auto& c : parts) {
      if (adds && !is_addend(c)) return fault(l, c.stage->name + " computes the whole layer, but other parts compute addends");
      const auto features = !c.part() ? feature_range{} : adds ? c.part()->inputs : c.part()->features;
      claims.push_back({span(c.stage->packets), span(features, all), static_cast<std::uint32_t>(claims.size())});
    }
    const auto f = exact_cover(claims, {0, p_.packets}, {0, all});
    if (!f) return;
    switch (f->kind) {
      case cover_fault::what::missing: return fault(l, place(*f) + ": no part computes them (" + parts_text(parts) + ")");
      case cover_fault::what::twice:
        return fault(
            l, place(*f) + ": both " + parts[f->first].stage->name + " and " + parts[f->second].stage->name + " compute them");
      case cover_fault::what::beyond:
        return fault(l, parts[f->first].stage->name + " computes " + place(*f) + ", but there are " + std::to_string(p_.packets) +
                            " packets of " + std::to_string(all) + " features");
    }
  }

  // --- every input of every part is sent exactly once

  std::string tensor_name(tensor_ref t) const {
    if (t.layer < 0) return t.output == 0 ? "'data'" : "'label'";
    const auto& l = g_.layers[static_cast<std::size_t>(t.layer)];
    return in_quotes(t.output == 0 ? l.name : l.name + "." + std::to_string(t.output));
  }

  static int position_of(const role_plan& r, std::int32_t layer) {
    for (std::size_t k = 0; k < r.layers.size(); ++k)
      if (static_cast<std::int32_t>(r.layers[k]) == layer) return static_cast<int>(k);
    return -1;
  }

  feature_range made_by(const role_plan& r, int position, tensor_ref what) const {
    const auto* part = r.parts[static_cast<std::size_t>(position)].get();
    return part ? made(g_, what, part->features) : feature_range{};
  }

  // An edge that exists only for its credit: from a loader to a stage that reports and does not use
  // the tensor.
  bool is_window(const plan_edge& e) const {
    const auto reports = [this](std::uint32_t l) { return g_.layers[l].maths->is_loss() || g_.layers[l].maths->is_metric(); };
    const auto& to = p_[e.to];
    return p_[e.from].does().loads && e.region.whole() && e.need.whole() &&
           std::any_of(to.layers.begin(), to.layers.end(), reports);
  }

  // Losses and metrics receive packets from the loader: its credit bounds the number of packets in
  // flight before them.
  void check_window(const role_plan& r) {
    if (r.tester) return;  // a single stage, whose loader waits for it
    for (auto index : r.layers) {
      const auto& l = g_.layers[index];
      if ((!l.maths->is_loss() && !l.maths->is_metric()) || (!l.in_train && !l.in_test)) continue;
      const auto received = [&](std::uint32_t i) {
        const auto& e = p_.edges[i];
        return p_[e.from].does().loads && (e.in_train || !l.in_train) && (e.in_test || !l.in_test);
      };
      if (std::none_of(r.in_edges.begin(), r.in_edges.end(), received))
        fault(l, r.name + " reports, but no loader sends to it: the number of packets in flight has no bound");
    }
  }

  void check_inputs(const role_plan& r) {
    std::set<std::uint32_t> read;
    for (std::size_t k = 0; k < r.layers.size(); ++k) {
      const auto& l = g_.layers[r.layers[k]];
      const auto* part = r.parts[k].get();
      for (std::size_t i = 0; i < l.inputs.size(); ++i) {
        const auto need = part ? part->needs[i] : feature_range{};
        const auto fed_by = l.inputs[i].layer < 0 ? -1 : position_of(r, l.inputs[i].layer);
        if (fed_by >= 0) {
          if (fed_by >= static_cast<int>(k) || !(made_by(r, fed_by, l.inputs[i]) == need))
            fault(l, r.name + " computes another part of " + tensor_name(l.inputs[i]) + " than it reads");
          continue;
        }
        for (auto e : r.in_edges)
          if (p_.edges[e].what == l.inputs[i] && p_.edges[e].need == need) read.insert(e);
        if (check_feed(r, l, i, need, true)) check_feed(r, l, i, need, false);
      }
    }
    for (auto e : r.in_edges)
      if (!read.count(e) && !is_window(p_.edges[e]))
        fault(p_.edges[e].what.layer, p_[p_.edges[e].from].name + " sends " + r.name + " a tensor that it does not read");
  }

  // Checks one input of one part in one phase.
  bool check_feed(const role_plan& r, const graph_layer& l, std::size_t input, feature_range need, bool train) {
    if (!(train ? l.in_train && !r.tester : l.in_test)) return true;
    const auto what = l.inputs[input];
    const auto all = features_of(l.in[input]);
    const auto wanted = span(need, all);
    const auto packets = r.tester ? span_of{0, 1} : span(r.packets);
    const auto faults = faults_.size();
    // Every addend of a partial tensor must arrive completely, and only once.
    std::map<role_id, std::vector<claim>> from;
    if (what.layer >= 0)
      for (const auto& p : parts_[static_cast<std::size_t>(what.layer)]) {
        if (!is_addend(p) || r.tester) break;
        from[p.stage->id];
      }
    const bool sum = !from.empty();
    if (!sum) from[no_role];
    for (auto i : r.in_edges) {
      const auto& e = p_.edges[i];
      if (!(e.what == what) || !(e.need == need) || !(train ? e.in_train : e.in_test)) continue;
      const auto some = both({e.packets.first, std::int64_t{e.packets.first} + e.packets.count}, packets);
      const auto region = what.layer < 0 ? both(span(e.region, all), wanted) : span(e.region, all);
      from[sum ? e.from : no_role].push_back({some, region, i});
      check_source(r, l, e, some, region);
      if (e.addend != sum) fault(l, r.name + (sum ? " does not add " : " adds ") + tensor_name(what) + " from " + p_[e.from].name);
      if (train && l.grad_in_wanted[input] && !e.grad_back)
        fault(l, "no gradient of " + tensor_name(what) + " is sent back from " + r.name + " to " + p_[e.from].name);
    }
    for (const auto& [who, claims] : from) {
      const auto f = exact_cover(claims, packets, wanted);
      if (!f) continue;
      fault(l, feed_text(r, what, *f) + (sum ? " (the addend of " + p_[who].name + ")" : ""));
      break;
    }
    return faults_.size() == faults;
  }

  std::string feed_text(const role_plan& r, tensor_ref what, const cover_fault& f) const {
    const auto name = [&](std::uint32_t e) { return p_[p_.edges[e].from].name; };
    const auto of = place(f) + " of its input " + tensor_name(what) + ": ";
    switch (f.kind) {
      case cover_fault::what::missing: return r.name + " lacks " + of + "no role sends them";
      case cover_fault::what::twice:
        return r.name + " receives " + of + "both " + name(f.first) + " and " + name(f.second) + " send them";
      case cover_fault::what::beyond: return r.name + " receives " + of + name(f.first) + " sends more than it needs";
    }
    return {};
  }

  // The role at the start of the edge must compute the packets and features that the edge carries.
  void check_source(const role_plan& r, const graph_layer& l, const plan_edge& e, span_of packets, span_of region) {
    const auto& from = p_[e.from];
    const auto lies = [&](span_of inner, span_of outer) { return inner.begin >= outer.begin && inner.end <= outer.end; };
    const auto says = [&](const std::string& why) {
      fault(l, r.name + " expects " + tensor_name(e.what) + " from " + from.name + ", which " + why);
    };
    if (from.tester != r.tester) return says("is not of the same model copy (training or tester)");
    if (e.what.layer < 0) {
      if (!from.does().loads) return says("is not a loader");
      if (!from.tester && packets.count() > 0 &&
          !lies(packets, span(p_.ranges[std::min<std::size_t>(from.worker, p_.ranges.size() - 1)])))
        return says("does not load these packets");
      return;
    }
    const int k = position_of(from, e.what.layer);
    if (k < 0) return says("does not host that layer");
    const auto here =
        span(made_by(from, k, e.what), features_of(g_.layers[static_cast<std::size_t>(e.what.layer)].out[e.what.output]));
    if (packets.count() > 0 && !lies(packets, span(from.packets))) return says("does not compute these packets");
    if (!lies(region, here)) return says("does not compute these features");
  }

  void check_tester() {
    if (p_.tester_stage == no_role) return;
    if (p_.tester_loader == no_role || p_.tester == no_role) return fault(-1, "the tester's role or loader is missing");
    const auto& mine = p_[p_.tester_stage].layers;
    for (const auto& l : g_.layers)
      if (std::count(mine.begin(), mine.end(), l.index) != (l.in_test ? 1 : 0))
        fault(l, p_[p_.tester_stage].name +
                     (l.in_test ? " does not host it exactly once" : " hosts it, but it does not run in evaluation"));
  }

  const job_plan& p_;
  const model_graph& g_;
  std::vector<plan_fault> faults_;
  parts_by_layer parts_;
};

}  // namespace

std::vector<plan_fault> check_plan(const job_plan& p, const model_graph& g) { return checker(p, g).run(); }

}  // namespace troupe
