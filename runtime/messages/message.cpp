#include "runtime/messages/message.hpp"

#include <array>
#include <concepts>
#include <type_traits>

#include "ops/device.hpp"
#include "runtime/messages/crossing.hpp"

namespace troupe {
namespace {

template <class B, class... T>
concept any_of = (std::same_as<std::remove_const_t<B>, T> || ...);

// Calls `f` for each tensor of a body, const or not. Bodies without tensors are listed too, so that
// a new body does not compile until it is added here.
template <class B, class F>
void visit_tensors(B& b, F&& f) {
  const auto each = [&](auto& list) {
    for (auto& t : list) f(t);
  };
  if constexpr (any_of<B, examples>) {
    f(b.data);
    f(b.label);
  } else if constexpr (any_of<B, forward, weights>) {
    f(b.value);
  } else if constexpr (any_of<B, state, restore_state>) {
    f(b.value);
    each(b.rule);
  } else if constexpr (any_of<B, backward>) {
    f(b.grad);
  } else if constexpr (any_of<B, push>) {
    f(b.sum);
  } else if constexpr (any_of<B, gradient>) {
    each(b.grads);
    each(b.stats);
  } else if constexpr (any_of<B, layer_weights, user>) {
    each(b.values);
  } else {
    static_assert(any_of<B, credit, want_examples, examples_seed, ready, fetch, start, grant, work_unit, set_value, evaluate,
                         report, collect, flush, adopt, observe, observation, norm_partials, nonfinite_report, quiesce, inventory,
                         halt, command, finished, peer_down, step_time, want_histograms, histogram>,
                  "a new body: list its tensors here");
  }
}

bool across(const message& m) {
  const auto* p = std::get_if<push>(&m);
  return p && p->across;
}

// Returns `t` if `to` can read it, else a copy in the memory of `to`. `stream` can read `t`.
tensor sent_to(device& stream, device& to, const tensor& t) {
  if (!t.backed() || t.space().host() || t.space() == to.space()) return t;
  tensor there = tensor::allocate(to, t.dims(), t.type());
  stream.fetch(t, there);
  return there;
}

}  // namespace

void freeze(envelope& e) {
  // The mark is written at most once: other threads may read the block, and a write would
  // invalidate their cache line.
  const auto mark = [](tensor& t) {
    if (!t.frozen()) t.freeze();
  };
  std::visit([&](auto& b) { visit_tensors(b, mark); }, e.body);
}

bool crosses(const envelope& e, const device& from, const device& to) {
  const auto space = from.space();
  const bool read_there = across(e.body) && !to.space().host();
  return !space.host() && !(space == to.space()) && !read_there;
}

void cross(envelope& e, device& stream, device& to) {
  stream.begin_task();
  std::visit([&](auto& b) { visit_tensors(b, [&](tensor& t) { t = sent_to(stream, to, t); }); }, e.body);
  stream.finish_task();
}

void bring_home(tensor& t, device& stream) {
  stream.begin_task();
  t = brought_home(stream, t);
  stream.finish_task();
}

std::size_t tensor_bytes(const message& m) {
  std::size_t n = 0;
  std::visit([&](const auto& b) { visit_tensors(b, [&](const tensor& t) { n += t ? t.bytes() : 0; }); }, m);
  return n;
}

const char* name_of_body(std::size_t index) {
  // clang-format off
  static constexpr std::array<const char*, std::variant_size_v<message>> names = {
      "forward", "backward", "credit", "gradient", "push", "weights", "layer_weights", "ready", "fetch",
      "start", "grant", "set", "evaluate", "report", "collect", "state", "restore", "halt", "command", "user",
      "flush", "adopt", "observe", "observation", "norm_partials", "work_unit", "want_examples",
      "examples", "examples_seed", "quiesce", "inventory", "finished", "nonfinite_report", "down",
      "step_time", "want_histograms", "histogram"};
  // clang-format on
  return index < names.size() ? names[index] : "unknown";
}

template class one_of<message_kinds>;
template class one_of<command_kinds>;

}  // namespace troupe
