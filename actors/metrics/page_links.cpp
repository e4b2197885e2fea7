// Connections of this daemon with other nodes.
#include "actors/metrics/exposition.hpp"
#include "actors/metrics/page.hpp"

namespace troupe {
namespace {

void add_link(exposition& x, const std::string& plane, const net::peer_stats& p) {
  x.add("troupe_link_up", {p.peer, plane}, p.up ? 1 : 0);
  x.add("troupe_link_bytes_total", {p.peer, plane, "in", p.transport}, real(p.bytes_in));
  x.add("troupe_link_bytes_total", {p.peer, plane, "out", p.transport}, real(p.bytes_out));
  x.add("troupe_link_frames_total", {p.peer, plane, "in"}, real(p.frames_in));
  x.add("troupe_link_frames_total", {p.peer, plane, "out"}, real(p.frames_out));
  if (plane == "data") x.add("troupe_link_shared_bytes_total", {p.peer}, real(p.shared_in));
  if (p.round_trip > 0) x.add("troupe_link_round_trip_seconds", {p.peer, plane}, p.round_trip);
  x.add("troupe_link_queued_bytes", {p.peer, plane}, real(p.queued_bytes));
  x.add("troupe_link_unreturned_bytes", {p.peer, plane}, real(p.unreturned));
  x.add("troupe_link_held_bytes", {p.peer, plane}, real(p.held));
}

}  // namespace

void add_links(exposition& x, const metrics_facts& f) {
  for (const auto& plane : f.planes) {
    x.add("troupe_connections_refused_total", {plane.name}, real(plane.stats.refused));
    for (const auto& p : plane.stats.peers)
      if (f.nodes.contains(p.peer)) add_link(x, plane.name, p);
  }
}

}  // namespace troupe
