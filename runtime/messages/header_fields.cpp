#include "runtime/messages/header_fields.hpp"

#include <concepts>
#include <variant>

namespace troupe {
namespace {

using namespace header_field;

template <class B, class... T>
concept any_of_bodies = (std::same_as<B, T> || ...);

constexpr std::uint16_t of_packet = id | step | version | packet | packets | phase | flags;
constexpr std::uint16_t along_edge = of_packet | port;

template <class B>
constexpr std::uint16_t fields_of() {
  if constexpr (any_of_bodies<B, forward, backward, credit>)
    return along_edge;
  else if constexpr (any_of_bodies<B, gradient, report, want_examples, examples, examples_seed>)
    return of_packet;
  else if constexpr (any_of_bodies<B, user>)
    return of_packet | mode_epoch;
  else if constexpr (any_of_bodies<B, weights, ready, fetch, histogram>)
    return step | version | mode_epoch;
  else if constexpr (any_of_bodies<B, want_histograms, evaluate>)
    return step | version;
  else if constexpr (any_of_bodies<B, push, norm_partials, nonfinite_report, step_time, flush, adopt>)
    return step | mode_epoch;
  else if constexpr (any_of_bodies<B, layer_weights, state>)
    return version | mode_epoch;
  else if constexpr (any_of_bodies<B, collect, restore_state>)
    return version;
  else if constexpr (any_of_bodies<B, start, grant, observation, inventory>)
    return mode_epoch;
  else {
    static_assert(any_of_bodies<B, set_value, halt, command, observe, work_unit, quiesce, finished, peer_down>,
                  "a new body: list the header fields that it uses here");
    return 0;
  }
}

// The fields that are not at their default.
std::uint16_t fields_set(const header& h) {
  const header none;
  unsigned set = 0;
  const auto differs = [&](std::uint16_t field, const auto& value, const auto& unset) { set |= value == unset ? 0u : field; };
  differs(id, h.id, none.id);
  differs(step, h.step, none.step);
  differs(version, h.version, none.version);
  differs(packet, h.packet, none.packet);
  differs(packets, h.packets, none.packets);
  differs(port, h.port, none.port);
  differs(phase, h.phase, none.phase);
  differs(flags, h.flags, none.flags);
  differs(mode_epoch, h.mode_epoch, none.mode_epoch);
  return static_cast<std::uint16_t>(set);
}

}  // namespace

std::uint16_t header_fields_of(const message& m) {
  return std::visit([]<class B>(const B&) { return fields_of<B>(); }, m);
}

std::string stray_header_fields(const envelope& e) {
  const auto stray = fields_set(e.h) & ~header_fields_of(e.body);
  std::string names;
  for (const auto& [field, name] : all)
    if (stray & field) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

}  // namespace troupe
