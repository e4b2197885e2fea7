// The fields of every struct that is sent, listed once for both directions of wire.cpp:
// fields(archive, struct) passes each field to the archive, in the order of the struct. A
// structured binding names all fields, so a new field of a message does not compile until it is
// added here.
// Threads: functions without state.
#pragma once

#include <concepts>
#include <type_traits>

#include "runtime/messages/message.hpp"

namespace troupe::wire {

template <class M, class T>
concept is = std::same_as<std::remove_const_t<M>, T>;

void fields(auto& a, is<header> auto& h) {
  auto& [job, src, dst, incarnation, id, step, version, packet, packets, port, attempt, phase, flags, mode_epoch, trace] = h;
  a(job, src, dst, incarnation, id, step, version, packet, packets, port, attempt, phase, flags, mode_epoch, trace);
}

template <class M>
concept without_fields = std::is_empty_v<M>;
void fields(auto&, without_fields auto&) {}

void fields(auto& a, is<forward> auto& m) {
  auto& [value, valid, first_example] = m;
  a(value, valid, first_example);
}
void fields(auto& a, is<backward> auto& m) {
  auto& [grad] = m;
  a(grad);
}
void fields(auto& a, is<credit> auto& m) {
  auto& [count] = m;
  a(count);
}
void fields(auto& a, is<want_examples> auto& m) {
  auto& [nth] = m;
  a(nth);
}
void fields(auto& a, is<examples> auto& m) {
  auto& [data, label, nth] = m;
  a(data, label, nth);
}
void fields(auto& a, is<examples_seed> auto& m) {
  auto& [seed] = m;
  a(seed);
}
void fields(auto& a, is<gradient> auto& m) {
  auto& [layer, grads, stats, span, lag] = m;
  a(layer, grads, stats, span, lag);
}
void fields(auto& a, is<push> auto& m) {
  auto& [block, first, span, sum, across, increment] = m;
  a(block, first, span, sum, across, increment);
}
void fields(auto& a, is<weights> auto& m) {
  auto& [block, value, increment] = m;
  a(block, value, increment);
}
void fields(auto& a, is<layer_weights> auto& m) {
  auto& [layer, values] = m;
  a(layer, values);
}
void fields(auto& a, is<grant> auto& m) {
  auto& [until, notice] = m;
  a(until, notice);
}
void fields(auto& a, is<work_unit> auto& m) {
  auto& [step, first, count] = m;
  a(step, first, count);
}
void fields(auto& a, is<set_value> auto& m) {
  auto& [key, value, from] = m;
  a(key, value, from);
}
void fields(auto& a, is<evaluate> auto& m) {
  auto& [round, average] = m;
  a(round, average);
}
void fields(auto& a, is<report> auto& m) {
  auto& [values, valid, weights] = m;
  a(values, valid, weights);
}
void fields(auto& a, is<collect> auto& m) {
  auto& [request, with_state] = m;
  a(request, with_state);
}
void fields(auto& a, is<state> auto& m) {
  auto& [request, block, value, rule, updates, wanted, round, mass] = m;
  a(request, block, value, rule, updates, wanted, round, mass);
}
void fields(auto& a, is<restore_state> auto& m) {
  auto& [block, value, rule, updates] = m;
  a(block, value, rule, updates);
}
void fields(auto& a, is<command> auto& m) { a(m.what); }
void fields(auto& a, is<fetch> auto& m) {
  auto& [block] = m;
  a(block);
}
void fields(auto& a, is<ready> auto& m) {
  auto& [what, round, first, count, block] = m;
  a(what, round, first, count, block);
}
void fields(auto& a, is<flush> auto& m) {
  auto& [round] = m;
  a(round);
}
void fields(auto& a, is<adopt> auto& m) {
  auto& [mode, options] = m;
  a(mode, options);
}
void fields(auto& a, is<norm_partials> auto& m) {
  auto& [block, parts] = m;
  a(block, parts);
}
void fields(auto& a, is<nonfinite_report> auto& m) {
  auto& [group, bad] = m;
  a(group, bad);
}
void fields(auto& a, is<quiesce> auto& m) {
  auto& [request, living] = m;
  a(request, living);
}
void fields(auto& a, is<inventory> auto& m) {
  auto& [request, least, newest] = m;
  a(request, least, newest);
}
void fields(auto& a, is<step_time> auto& m) {
  auto& [seconds] = m;
  a(seconds);
}
void fields(auto& a, is<want_histograms> auto& m) {
  auto& [every, now] = m;
  a(every, now);
}
void fields(auto& a, is<histogram> auto& m) {
  auto& [block, weight, gradient] = m;
  a(block, weight, gradient);
}
void fields(auto& a, is<observation> auto& m) {
  auto& [histograms] = m;
  a(histograms);
}
void fields(auto& a, is<user> auto& m) {
  auto& [type, bytes, values, number] = m;
  a(type, bytes, values, number);
}
void fields(auto& a, is<peer_down> auto& m) {
  auto& [node, reason] = m;
  a(node, reason);
}

}  // namespace troupe::wire
