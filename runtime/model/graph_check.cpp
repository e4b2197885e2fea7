#include "runtime/model/graph_check.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/base/wording.hpp"
#include "runtime/model/gradients.hpp"
#include "runtime/model/shape_bounds.hpp"

namespace troupe {

source_position position_of(const layer_spec& spec, const std::string& key) { return position_of(spec.key_at, key, spec.at); }

diagnostic mistake_of(const layer_spec& spec, const std::string& key, const std::string& message) {
  return {position_of(spec, key), "layer " + in_quotes(spec.name) + ": " + message};
}

void check_phases(const model_graph& g, diagnostics& errors) {
  for (const auto& l : g.layers)
    for (std::size_t k = 0; k < l.inputs.size(); ++k) {
      if (l.inputs[k].layer < 0) continue;
      const auto& from = g.layers[static_cast<std::size_t>(l.inputs[k].layer)];
      const auto key = "inputs." + std::to_string(k);
      if (l.in_train && !from.in_train)
        errors.push_back(
            mistake_of(*l.spec, key, "it runs in training, but its input layer " + in_quotes(from.name) + " runs only in tests"));
      if (l.in_test && !from.in_test)
        errors.push_back(
            mistake_of(*l.spec, key, "it runs in tests, but its input layer " + in_quotes(from.name) + " runs only in training"));
    }
}

void check_ends(const model_graph& g, const job_spec& job, diagnostics& errors) {
  if (g.layers.empty()) return;
  if (std::any_of(g.layers.begin(), g.layers.end(), [](const graph_layer& l) { return !l.maths; })) return;
  if (std::none_of(g.layers.begin(), g.layers.end(), [](const graph_layer& l) { return l.maths->is_loss() && l.in_train; }))
    errors.push_back({job.at, "no loss layer runs in training: add one, as in type = \"softmax_loss\", inputs = [\"" +
                                  job.layers.back().name + "\", \"label\"]"});
  std::set<std::pair<std::int32_t, std::uint16_t>> used;  // outputs that a layer reads
  for (const auto& l : g.layers)
    for (const auto& t : l.inputs) used.emplace(t.layer, t.output);
  for (const auto& l : g.layers) {
    if (l.maths->is_loss() || l.maths->is_metric()) continue;
    for (std::size_t o = 0; o < std::max<std::size_t>(l.out.size(), 1); ++o) {
      if (used.contains({static_cast<std::int32_t>(l.index), static_cast<std::uint16_t>(o)})) continue;
      const auto which = l.out.size() > 1 ? "its output " + std::to_string(o) : std::string("its output");
      errors.push_back(mistake_of(*l.spec, "", which + " is not used by any layer, and the layer is neither a loss nor a metric"));
    }
  }
}

void check_evaluated(const model_graph& g, const job_spec& job, diagnostics& errors) {
  const auto examples = job.eval.batch / std::max<std::int64_t>(job.pipeline.packets, 1);
  if (examples <= g.packet_examples) return;
  const auto times = static_cast<double>(examples) / static_cast<double>(g.packet_examples);
  const auto fits = [&](const shape& s) { return static_cast<double>(s.count()) * times <= static_cast<double>(max_elements); };
  const auto say = [&](const std::string& who, const std::string& what, const shape& s) {
    errors.push_back({position_of(job.eval.key_at, "batch", job.eval.at), who + "in packets of " + std::to_string(examples) +
                                                                              " examples (from [eval] batch) its " + what + " " +
                                                                              s.to_string() + " would be too large"});
  };
  if (!fits(g.data)) return say("", "data", g.data);
  for (const auto& l : g.layers)
    for (const auto& s : l.out)
      if (l.in_test && !fits(s)) return say("layer " + in_quotes(l.name) + ": ", "output", s);
}

void check_trained(const model_graph& g, const job_spec& job, diagnostics& errors) {
  const auto learns = [&g](const graph_layer& l) { return has_trainable(g, l); };
  if (std::none_of(g.layers.begin(), g.layers.end(), learns)) errors.push_back({job.at, "no layer has trainable parameters"});
  for (const auto& l : g.layers)
    if (!l.wants_backward && learns(l))
      errors.push_back(mistake_of(*l.spec, "", "it has parameters, but no loss in training depends on it"));
}

void check_algorithm(const model_graph& g, const job_spec& job, diagnostics& errors) {
  const auto at = position_of(job.train.key_at, "algorithm", job.train.at);
  if (job.train.algorithm == "bptt" && !g.carries())
    errors.push_back({at,
                      "algorithm = \"bptt\" needs a layer that carries state from step to step (rnn, lstm, gru), and there is "
                      "none: use \"bp\""});
  const auto alone = [&g](const graph_layer& l) { return l.maths->is_loss() && has_trainable(g, l); };
  if (g.local && std::none_of(g.layers.begin(), g.layers.end(), alone))
    errors.push_back(
        {at, "algorithm = \"cd\" needs a layer with parameters that is its own loss (rbm), and there is none: use \"bp\""});
}

}  // namespace troupe
