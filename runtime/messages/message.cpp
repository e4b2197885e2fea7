#include "runtime/messages/message.hpp"

#include <array>

namespace troupe {
namespace {

// The tensors of one body, const or not. Bodies without tensors fall through to the last overload.
template <class B, class F>
void visit_tensors(B& b, F&& f) {
  auto each = [&](auto& list) {
    for (auto& t : list) f(t);
  };
  if constexpr (requires { b.value.backed(); }) f(b.value);
  if constexpr (requires { b.grad.backed(); }) f(b.grad);
  if constexpr (requires { b.sum.backed(); }) f(b.sum);
  if constexpr (requires { b.grads.begin(); }) each(b.grads);
  if constexpr (requires { b.stats.begin(); }) each(b.stats);
  if constexpr (requires { b.rule.begin(); }) each(b.rule);
  if constexpr (requires {
                  b.values.begin();
                  b.values.begin()->backed();
                })
    each(b.values);
}

}  // namespace

void for_each_tensor(message& m, const std::function<void(tensor&)>& f) {
  std::visit([&](auto& b) { visit_tensors(b, f); }, m);
}

void freeze(envelope& e) {
  std::visit([](auto& b) { visit_tensors(b, [](tensor& t) { t.freeze(); }); }, e.body);
}

std::size_t tensor_bytes(const message& m) {
  std::size_t n = 0;
  std::visit([&](const auto& b) { visit_tensors(b, [&](const tensor& t) { n += t ? t.bytes() : 0; }); }, m);
  return n;
}

const char* name_of(const message& m) {
  static constexpr std::array<const char*, std::variant_size_v<message>> names = {
      "forward",  "backward", "credit",  "gradient", "push",    "weights", "layer_weights", "ready", "start",    "grant", "set",
      "evaluate", "report",   "collect", "state",    "restore", "halt",    "command",       "user",  "finished", "timer", "down"};
  return names[m.index()];
}

}  // namespace troupe
