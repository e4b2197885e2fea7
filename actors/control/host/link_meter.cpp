#include "actors/control/host/link_meter.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

namespace troupe::control {
namespace {

using namespace std::chrono_literals;
using ticks = std::chrono::steady_clock;

constexpr std::uint16_t probe_type = 2, answer_type = 3;
constexpr auto connect_within = 5s, answer_within = 5s;
constexpr int round_trips = 8;
constexpr std::size_t probe_bytes = std::size_t{1} << 20;
constexpr double burst_seconds = 0.1, most_probes = 32;

}  // namespace

bool link_meter::take(net::transport& t, const std::string& peer, const net::frame& f) {
  if (f.type == probe_type) {
    net::outgoing_frame answer;
    answer.type = answer_type;
    answer.id = f.id;
    t.send(peer, std::move(answer));
    return true;
  }
  if (f.type != answer_type) return false;
  std::lock_guard guard(lock_);
  if (f.id < first_ || f.id >= end_ || left_ == 0) return true;  // of a measurement that was given up
  if (--left_ == 0) changed_.notify_all();
  return true;
}

std::optional<double> link_meter::ask(net::transport& t, const std::string& peer, std::size_t bytes, std::uint64_t count) {
  std::uint64_t first = 0;
  {
    std::lock_guard guard(lock_);
    if (stopped_) return std::nullopt;
    first = first_ = end_;
    end_ += count;
    left_ = count;
  }
  const auto payload = std::make_shared<const std::vector<char>>(bytes);
  const auto begin = ticks::now();
  for (std::uint64_t i = 0; i < count; ++i) {
    net::outgoing_frame probe;
    probe.type = probe_type;
    probe.id = first + i;
    if (bytes > 0) probe.parts.push_back({payload->data(), bytes, payload, nullptr, 0, true});
    if (!t.send(peer, std::move(probe))) return std::nullopt;
  }
  std::unique_lock guard(lock_);
  if (!changed_.wait_for(guard, answer_within, [&] { return left_ == 0 || stopped_; }) || stopped_) return std::nullopt;
  return std::chrono::duration<double>(ticks::now() - begin).count();
}

bool link_meter::connected(net::transport& t, const std::string& peer, const net::address& at) {
  t.connect(peer, at, connect_within);
  for (const auto until = ticks::now() + connect_within; ticks::now() < until; std::this_thread::sleep_for(5ms)) {
    if (ask(t, peer, 0, 1)) return true;
    std::lock_guard guard(lock_);
    if (stopped_) return false;
  }
  return false;
}

machine::link link_meter::measure(net::transport& t, const std::string& peer, const net::address& at, bool burst) {
  machine::link l;
  l.to = peer;
  if (!connected(t, peer, at)) {
    l.problem = "no connection with " + net::to_string(at) + " within 5 s";
    return l;
  }
  for (const auto& p : t.stats().peers)
    if (p.peer == peer) l.same_machine = p.transport == "shm";
  for (int i = 0; i < round_trips; ++i)
    if (const auto seconds = ask(t, peer, 0, 1)) l.round_trip = l.round_trip > 0 ? std::min(l.round_trip, *seconds) : *seconds;
  if (!burst) return l;
  const auto rate = [&](double probes) {
    const auto seconds = ask(t, peer, probe_bytes, static_cast<std::uint64_t>(probes));
    return seconds ? probes * probe_bytes / std::max(1e-6, *seconds - l.round_trip) : 0.0;
  };
  l.rate = rate(1);
  if (l.rate <= 0) {
    l.problem = "1 MiB did not arrive at " + net::to_string(at) + " within 5 s";
    return l;
  }
  const auto probes = std::clamp(burst_seconds * l.rate / probe_bytes, 1.0, most_probes);
  if (probes >= 2) l.rate = std::max(l.rate, rate(std::floor(probes)));
  return l;
}

void link_meter::stop() {
  std::lock_guard guard(lock_);
  stopped_ = true;
  changed_.notify_all();
}

}  // namespace troupe::control
