// Counts and trace of a world's run so far.
#pragma once

#include <cstdint>

#include "runtime/messages/message.hpp"
#include "runtime/sim/models.hpp"
#include "runtime/sim/trace_hash.hpp"

namespace troupe::sim {

struct world_report {
  std::uint64_t events = 0;      // handled: deliveries, hops, calls
  std::uint64_t deliveries = 0;  // events that roles received
  class trace_hash trace;
  fault_counts counts;  // counts of channels and stores only after a crash has ended them

  // Adds a delivery to the trace: time, type, source, destination, packet.
  void delivered(const envelope& e, time_point now) {
    const auto both = [](std::uint64_t high, std::uint64_t low) { return high << 32 | (low & 0xffffffff); };
    trace.add({static_cast<std::uint64_t>(now.count()), both(e.h.incarnation, e.body.index()), index_of(e.h.src), index_of(e.h.dst),
               static_cast<std::uint64_t>(e.h.id), e.h.step, e.h.version, e.h.packet});
    ++deliveries;
  }
};

}  // namespace troupe::sim
