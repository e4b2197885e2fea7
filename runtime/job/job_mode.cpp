#include "runtime/job/job_mode.hpp"

#include <algorithm>

#include "runtime/job/job_data.hpp"
#include "runtime/job/position.hpp"
#include "runtime/plan/message_sizes.hpp"

namespace troupe {
namespace {

// Returns why the mode (with these options) does not support a layer of the job: one with running
// statistics, one whose packets compute together, or one too large to send. Empty if it supports
// all.
std::string wrong_for_layers(const prepared_job& j, const sync_mode& m, const options& o) {
  for (const auto& l : j.graph.layers)
    if ((l.maths->joint() || l.gather) && l.in_train && (!m.lockstep || m.work_units))
      return "mode '" + m.name +
             "' has workers at different steps, or deals work units: the packets of a step cannot compute layer '" + l.name +
             "' together (mode bsp can)";
  for (const auto& p : j.graph.params)
    if (auto why = p.spec.trainable || !m.no_statistics ? "" : m.no_statistics(o, j.plan); !why.empty())
      return "mode '" + m.name + "' cannot keep the running statistics of layer '" + j.graph.layers[p.layer].name + "' ('" +
             p.spec.name + "'): " + why;
  const auto most = static_cast<std::int64_t>(wire_max_message);
  if (auto why = m.sends_layers ? layers_too_large_to_send(j.plan, j.graph, j.spec, most) : std::string(); !why.empty())
    return "mode '" + m.name + "' " + why;
  return {};
}

// Workers are compared by the time of one step, which all of them take together.
std::optional<diagnostic> cannot_balance(const prepared_job& j, const sync_mode& m) {
  if (!j.plan.balances) return std::nullopt;
  const auto at = std::find_if(j.spec.layers.begin(), j.spec.layers.end(), [](const layer_spec& l) { return l.auto_fraction; });
  const auto refused = [&](const std::string& why) {
    return diagnostic{position(at->key_at, "fraction", at->at), "layer '" + at->name + "': fraction = \"auto\" needs " + why};
  };
  if (!m.lockstep || m.work_units)
    return refused("mode bsp; in mode '" + m.name + "' a faster worker computes more packets anyway");
  if (j.plan.rule != weight_rule::drain) return refused("pipeline.weights = \"drain\"");
  if (j.plan.groups.size() > 1) return refused("one worker group, not " + std::to_string(j.plan.groups.size()));
  return std::nullopt;
}

bool compresses(const prepared_job& j) {
  return std::any_of(j.graph.params.begin(), j.graph.params.end(), [](const graph_param& p) { return static_cast<bool>(p.codec); });
}

}  // namespace

std::function<void(reducer_layout&)> reducers_of(const prepared_job& j) {
  const auto& train = j.spec.train;
  const auto* entry = j.all->reducers.find(train.reducer);
  if (!entry || !entry->lay_out) return {};
  return [entry, values = check_options(train.reducer_values, entry->specs)](reducer_layout& l) { entry->lay_out(values, l); };
}

reducer_placing placing_of(const prepared_job& j) {
  const auto& train = j.spec.train;
  const auto* entry = j.all->reducers.find(train.reducer);
  return entry && entry->places ? entry->places(check_options(train.reducer_values, entry->specs)) : reducer_placing{};
}

mode_facts facts_of(const sync_mode& m, const options& o) {
  mode_facts f;
  f.name = m.name;
  f.options = options_to_text(o);
  f.lockstep = m.lockstep;
  f.rests = m.rests;
  f.left = m.left;
  if (m.work_units) f.work_unit = static_cast<std::uint32_t>(o.integer("portion"));
  return f;
}

std::optional<mode_facts> find_mode(const prepared_job& j, const std::string& name,
                                    const std::vector<std::pair<std::string, std::string>>& given, std::string& error) {
  const auto* m = j.all->modes.find(name);
  if (!m) {
    error = "unknown mode '" + name + "' (available:";
    for (const auto& n : j.all->modes.names()) error += " " + n;
    error += ")";
    return std::nullopt;
  }
  if (j.plan.placed && !m->places) {
    error = "mode " + name + " needs every layer on the node of every worker, but this job has placed layers";
    return std::nullopt;
  }
  if (j.spec.train.clip.norm > 0 && !m->clips_by_norm) {
    error = "mode " + name + " cannot clip by the norm over all parameters, but this job does (clip.norm)";
    return std::nullopt;
  }
  if (compresses(j) && !m->compresses) {
    error = "mode " + name + " cannot compress gradients, but this job does (compress)";
    return std::nullopt;
  }
  if (j.plan.rule != weight_rule::drain) {
    error = "with weights = \"" + j.spec.pipeline.weights + "\" the mode is fixed";
    return std::nullopt;
  }
  try {
    const auto o = options_from_text(given, m->specs);
    if (m->check) m->check(o, j.spec, j.plan);
    error = wrong_for_layers(j, *m, o);
    if (!error.empty()) return std::nullopt;
    return facts_of(*m, o);
  } catch (const option_error& e) {
    error = "mode " + name + ": " + e.what();
    return std::nullopt;
  }
}

std::optional<diagnostic> check_mode(const prepared_job& j) {
  const auto& t = j.spec.train;
  const auto* m = j.all->modes.find(t.sync.kind);
  if (!m) return diagnostic{t.sync.at, "unknown mode '" + t.sync.kind + "'"};
  if (t.when && !m->takes_when)
    return diagnostic{position(t.key_at, "sync.when", t.at),
                      "mode '" + m->name + "' decides by itself when to exchange: it takes no 'when'"};
  if (t.clip.norm > 0 && !m->clips_by_norm)
    return diagnostic{position(t.key_at, "dynamics.clip.norm", t.at),
                      "mode '" + m->name + "' cannot clip by the norm over all parameters; clip by value, or use another mode"};
  if (compresses(j)) {
    const auto at = position(t.key_at, "exchange.compress", t.at);
    if (!m->compresses) return diagnostic{at, "mode '" + m->name + "' cannot compress gradients: compress must be \"none\""};
    if (j.plan.through_reducers())
      return diagnostic{at, "reducer \"" + t.reducer +
                                "\" adds gradients at every hop, and compressing the sum at every hop would lose precision "
                                "each time: with compress, use reducer \"server\" or \"sharded\""};
  }
  if (j.plan.placed && !m->places) {
    std::string with;
    for (const auto& name : j.all->modes.names())
      if (j.all->modes.find(name)->places) with += (with.empty() ? "" : ", ") + name;
    return diagnostic{
        t.sync.at,
        "mode '" + m->name +
            "' needs every layer on the node of every worker, but this job places or splits some (modes that can: " + with + ")"};
  }
  if (const auto* r = j.all->reducers.find(t.reducer); r && r->refuses)
    if (auto why = r->refuses(j.spec, j.plan); !why.empty())
      return diagnostic{position(t.key_at, "exchange.reducer", t.at), "reducer \"" + t.reducer + "\" " + why};
  if (auto wrong = cannot_balance(j, *m)) return wrong;
  if (j.plan.rule != weight_rule::drain && !m->delays)
    return diagnostic{position(j.spec.pipeline.key_at, "weights", j.spec.pipeline.at),
                      "weights = \"" + j.spec.pipeline.weights + "\" needs mode bsp: mode '" + m->name +
                          "' chooses the weights of a step itself"};
  if (auto wrong = wrong_for_layers(j, *m, t.sync.values); !wrong.empty()) return diagnostic{t.sync.at, wrong};
  if (m->work_units && make_sampler(j, 0, j.spec.seed)->by_worker())
    return diagnostic{j.spec.data.sampler.at, "sampler '" + j.spec.data.sampler.kind +
                                                  "' gives each worker its own examples, but mode '" + m->name +
                                                  "' deals packets to any free worker"};
  try {
    if (m->check) m->check(t.sync.values, j.spec, j.plan);
  } catch (const option_error& e) {
    auto at = position(t.key_at, "sync." + e.key, t.sync.at);
    if (e.key.starts_with("topology"))
      at = position(j.spec.topology.key_at, e.key.size() > 9 ? e.key.substr(9) : "", j.spec.topology.at);
    else if (e.key.starts_with("exchange"))
      at = position(t.key_at, e.key, t.at);
    return diagnostic{at, e.what()};
  }
  return std::nullopt;
}

}  // namespace troupe
