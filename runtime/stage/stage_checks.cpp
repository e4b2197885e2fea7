// Validation of incoming messages. A peer may be a daemon of another build or job, or faulty. Tasks
// index tensors by the shapes of the graph, and edges by the plan, so a message that does not fit
// is dropped before it has any effect.
#include "runtime/messages/fits.hpp"
#include "runtime/stage/stage.hpp"

namespace troupe {
namespace {

const shape& whole_of(const model_graph& g, tensor_ref t) {
  if (t.layer == from_data) return t.output == 0 ? g.data : g.label;
  return g.layers[static_cast<std::size_t>(t.layer)].out[t.output];
}

}  // namespace

std::optional<drop_reason> stage::fault_of(const envelope& e) const {
  const bool ours = std::visit(
      overloaded{
          [&](const forward&) { return e.h.port < self().in_edges.size() && e.h.src == layout_->in_edge(e.h.port).from; },
          [&](const backward&) { return e.h.port < credit_.size() && e.h.src == layout_->out_edge(e.h.port).to; },
          [&](const credit&) { return e.h.port < credit_.size() && e.h.src == layout_->out_edge(e.h.port).to; },
          [&](const layer_weights& w) {
            return layout_->position_of(static_cast<std::int32_t>(w.layer)) >= 0 && e.h.src == config_.worker;
          },
          [](const auto&) { return true; },
      },
      e.body);
  if (!ours) return drop_reason::misaddressed;
  const bool fits = std::visit(overloaded{
                                   [&](const forward& f) { return acceptable(e.h, f); },
                                   [&](const backward& b) { return acceptable(e.h, b); },
                                   [&](const layer_weights& w) { return acceptable(w); },
                                   [](const auto&) { return true; },
                               },
                               e.body);
  return fits ? std::nullopt : std::optional(drop_reason::malformed);
}

std::int64_t stage::examples_of(const header& h) const {
  const bool train = h.phase == static_cast<std::uint8_t>(phase::train);
  return train || config_.eval_examples == 0 ? config_.graph->packet_examples : config_.eval_examples;
}

// The shape on the wire of a packet with `examples` examples.
shape stage::dims_along(const plan_edge& e, std::int64_t examples) const {
  return wire_dims(e.wire, cut(layout_->sized(whole_of(*config_.graph, e.what), examples), e.region));
}

bool stage::acceptable(const header& h, const forward& f) const {
  if (h.phase > static_cast<std::uint8_t>(phase::test)) return false;
  const auto& edge = layout_->in_edge(h.port);
  const bool train = h.phase == static_cast<std::uint8_t>(phase::train);
  if (train && (h.packet >= config_.plan->packets || h.version != h.step)) return false;
  return layout_->edge_used(edge, h) && f.valid <= examples_of(h) &&
         fits(f.value, dims_along(edge, examples_of(h)), wire_dtype(edge.wire, config_.graph->type_of(edge.what, config_.type)));
}

// Only training has backwards; its packets have all their examples.
bool stage::acceptable(const header& h, const backward& b) const {
  if (h.phase != static_cast<std::uint8_t>(phase::train)) return false;
  const auto& edge = layout_->out_edge(h.port);
  return edge.grad_back && layout_->edge_used(edge, h) &&
         fits(b.grad, dims_along(edge, config_.graph->packet_examples),
              wire_dtype(edge.wire, config_.graph->type_of(edge.what, config_.type)));
}

bool stage::acceptable(const layer_weights& w) const {
  const auto at = static_cast<std::size_t>(layout_->position_of(static_cast<std::int32_t>(w.layer)));
  const auto& l = layout_->hosted(at);
  if (w.values.size() != l.params.size()) return false;
  for (std::size_t i = 0; i < l.params.size(); ++i) {
    const auto& dims = layout_->part_at(at) ? layout_->part_at(at)->params[i] : config_.graph->params[l.params[i]].spec.dims;
    if (!fits(w.values[i], dims, wide_of(config_.type))) return false;
  }
  return true;
}

// Returns true if the stage already holds as many packets of this in-edge as the edge's credit.
bool stage::beyond_credit(std::size_t port) const {
  std::uint32_t held = 0;
  for (const auto& [id, p] : pending_) held += p.inputs[port] ? 1u : 0u;
  for (const auto& s : slots_) held += s->at != slot::stage_of::free && layout_->edge_used(layout_->in_edge(port), s->h) ? 1u : 0u;
  return held >= layout_->in_edge(port).credit;
}

}  // namespace troupe
