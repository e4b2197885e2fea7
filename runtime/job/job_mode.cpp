#include "runtime/job/job_mode.hpp"

#include <algorithm>

#include "runtime/job/job_data.hpp"
#include "runtime/job/job_rule.hpp"
#include "runtime/job/position.hpp"
#include "runtime/plan/message_sizes.hpp"

namespace troupe {
namespace {

// An error if the mode (with these options) does not support a layer of the job: one with running
// statistics, one whose packets compute together, or one too large to send.
expected<void> check_layers(const prepared_job& j, const sync_mode& m, const options& o) {
  for (const auto& l : j.graph.layers)
    if ((l.maths->joint() || l.gather) && l.in_train && (!m.lockstep || m.work_units))
      return unexpected(
          error("mode '" + m.name +
                "' has workers at different steps, or deals work units: the packets of a step cannot compute layer '" + l.name +
                "' together (mode bsp can)"));
  for (const auto& p : j.graph.params)
    if (const auto fine = p.spec.trainable || p.frozen || !m.check_statistics ? expected<void>() : m.check_statistics(o, j.plan);
        !fine)
      return unexpected(error("mode '" + m.name + "' cannot keep the running statistics of layer '" + j.graph.layers[p.layer].name +
                              "' ('" + p.spec.name + "'): " + fine.error().text));
  if (!m.sends_layers) return {};
  return check_message_sizes(j.plan, j.graph, j.spec, static_cast<std::int64_t>(wire_max_message))
      .transform_error([&](const error& e) { return error("mode '" + m.name + "' " + e.text); });
}

// Workers are compared by the time of one step, which all of them take together.
expected<void, diagnostic> check_balance(const prepared_job& j, const sync_mode& m) {
  if (!j.plan.balances) return {};
  const auto at = std::find_if(j.spec.layers.begin(), j.spec.layers.end(), [](const layer_spec& l) { return l.auto_fraction; });
  const auto refused = [&](const std::string& why) {
    return unexpected(
        diagnostic{position(at->key_at, "fraction", at->at), "layer '" + at->name + "': fraction = \"auto\" needs " + why});
  };
  if (!m.lockstep || m.work_units)
    return refused("mode bsp; in mode '" + m.name + "' a faster worker computes more packets anyway");
  if (j.plan.rule != weight_rule::drain) return refused("pipeline.weights = \"drain\"");
  if (j.plan.groups.size() > 1) return refused("one worker group, not " + std::to_string(j.plan.groups.size()));
  return {};
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

expected<mode_facts> find_mode(const prepared_job& j, const std::string& name,
                               const std::vector<std::pair<std::string, std::string>>& given) {
  const auto refused = [](std::string why) { return unexpected(error(std::move(why))); };
  const auto* m = j.all->modes.find(name);
  if (!m) {
    std::string available;
    for (const auto& n : j.all->modes.names()) available += " " + n;
    return refused("unknown mode '" + name + "' (available:" + available + ")");
  }
  if (j.plan.placed && !m->places)
    return refused("mode " + name + " needs every layer on the node of every worker, but this job has placed layers");
  if (j.spec.train.clip.norm > 0 && !m->clips_by_norm)
    return refused("mode " + name + " cannot clip by the norm over all parameters, but this job does (clip.norm)");
  if (compresses(j) && !m->compresses) return refused("mode " + name + " cannot compress gradients, but this job does (compress)");
  if (keeps_average(j.spec) && !m->averages)
    return refused("mode " + name + " cannot average the weights, but this job does (train.average)");
  if (j.plan.rule != weight_rule::drain) return refused("with weights = \"" + j.spec.pipeline.weights + "\" the mode is fixed");
  try {
    const auto o = options_from_text(given, m->specs);
    if (m->check) m->check(o, j.spec, j.plan);
    if (auto fine = check_layers(j, *m, o); !fine) return unexpected(fine.error());
    return facts_of(*m, o);
  } catch (const option_error& e) {
    return refused("mode " + name + ": " + e.what());
  }
}

expected<void, diagnostic> check_mode(const prepared_job& j) {
  const auto& t = j.spec.train;
  const auto* m = j.all->modes.find(t.sync.kind);
  if (!m) return unexpected(diagnostic{t.sync.at, "unknown mode '" + t.sync.kind + "'"});
  if (t.when && !m->takes_when)
    return unexpected(diagnostic{position(t.key_at, "sync.when", t.at),
                                 "mode '" + m->name + "' decides by itself when to exchange: it takes no 'when'"});
  if (t.clip.norm > 0 && !m->clips_by_norm)
    return unexpected(
        diagnostic{position(t.key_at, "dynamics.clip.norm", t.at),
                   "mode '" + m->name + "' cannot clip by the norm over all parameters; clip by value, or use another mode"});
  if (compresses(j)) {
    const auto at = position(t.key_at, "exchange.compress", t.at);
    if (!m->compresses)
      return unexpected(diagnostic{at, "mode '" + m->name + "' cannot compress gradients: compress must be \"none\""});
    if (j.plan.through_reducers())
      return unexpected(
          diagnostic{at, "reducer \"" + t.reducer +
                             "\" adds gradients at every hop, and compressing the sum at every hop would lose precision "
                             "each time: with compress, use reducer \"server\" or \"sharded\""});
  }
  if (j.plan.placed && !m->places) {
    std::string with;
    for (const auto& name : j.all->modes.names())
      if (j.all->modes.find(name)->places) with += (with.empty() ? "" : ", ") + name;
    return unexpected(diagnostic{
        t.sync.at,
        "mode '" + m->name +
            "' needs every layer on the node of every worker, but this job places or splits some (modes that can: " + with + ")"});
  }
  if (const auto* r = j.all->reducers.find(t.reducer); r && r->check)
    if (const auto fine = r->check(j.spec, j.plan); !fine)
      return unexpected(
          diagnostic{position(t.key_at, "exchange.reducer", t.at), "reducer \"" + t.reducer + "\" " + fine.error().text});
  if (auto ok = check_balance(j, *m); !ok) return ok;
  if (j.plan.rule != weight_rule::drain && !m->delays)
    return unexpected(diagnostic{position(j.spec.pipeline.key_at, "weights", j.spec.pipeline.at),
                                 "weights = \"" + j.spec.pipeline.weights + "\" needs mode bsp: mode '" + m->name +
                                     "' chooses the weights of a step itself"});
  if (const auto fine = check_layers(j, *m, t.sync.values); !fine) return unexpected(diagnostic{t.sync.at, fine.error().text});
  if (m->work_units && make_sampler(j, 0, j.spec.seed)->by_worker())
    return unexpected(diagnostic{j.spec.data.sampler.at, "sampler '" + j.spec.data.sampler.kind +
                                                             "' gives each worker its own examples, but mode '" + m->name +
                                                             "' deals packets to any free worker"});
  try {
    if (m->check) m->check(t.sync.values, j.spec, j.plan);
  } catch (const option_error& e) {
    auto at = position(t.key_at, "sync." + e.key, t.sync.at);
    if (e.key.starts_with("topology"))
      at = position(j.spec.topology.key_at, e.key.size() > 9 ? e.key.substr(9) : "", j.spec.topology.at);
    else if (e.key.starts_with("exchange"))
      at = position(t.key_at, e.key, t.at);
    return unexpected(diagnostic{at, e.what()});
  }
  return {};
}

}  // namespace troupe
