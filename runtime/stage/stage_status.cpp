// What a stage reports about itself: its packets, and what they wait for.
#include "runtime/stage/stage.hpp"

namespace troupe {

std::optional<header> stage::packet_of_task(std::uint64_t token) const {
  const auto at = static_cast<std::size_t>(token >> 32);
  return at < slots_.size() ? std::optional(slots_[at]->h) : std::nullopt;
}

role_status stage::status() const {
  role_status st;
  st.queued = static_cast<std::uint32_t>(pending_.size());
  for (const auto& s : slots_) st.in_flight += s->at != slot::stage_of::free ? 1u : 0u;
  st.credit = credit_.empty() ? 0 : credit_[0].left();
  st.version = weights_.newest();
  for (const auto& [id, p] : pending_) {
    st.step = p.h.step;
    if (p.missing > 0)
      st.wait(wait_kind::inputs, std::to_string(p.missing) + " inputs of a packet of step " + std::to_string(p.h.step));
    else if (!weights_.here_for(p.h))
      st.wait(wait_kind::weights, "weights of version " + std::to_string(p.h.version));
    else if (!sequences_.let_run(p.h))
      st.wait(wait_kind::inputs, "the state that packet " + std::to_string(p.h.packet) + " of the previous step carries over");
    else
      st.wait(wait_kind::credit, "a free sub-solver");
    return st;
  }
  for (const auto& s : slots_) {
    if (s->at == slot::stage_of::free) continue;
    st.step = s->h.step;
    if (s->at == slot::stage_of::sending) st.wait(wait_kind::credit, "credit from a consumer");
    if (s->at == slot::stage_of::waiting)
      st.wait(wait_kind::gradients, std::to_string(s->missing) + " gradients of step " + std::to_string(st.step));
    if (gathering(*s)) st.wait(wait_kind::inputs, "the other packets of step " + std::to_string(st.step));
  }
  return st;
}

}  // namespace troupe
