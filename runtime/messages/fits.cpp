#include "runtime/messages/fits.hpp"

namespace troupe {

bool has_values(const envelope& e) {
  const auto lacks = [](const tensor& t) { return t && !t.backed(); };
  const auto some = [&](const tensors& all) { return std::any_of(all.begin(), all.end(), lacks); };
  const bool is_void = (e.h.flags & flag_void) != 0;
  return !std::visit(overloaded{
                         [&](const forward& f) { return lacks(f.value) && !is_void; },
                         [&](const backward& b) { return lacks(b.grad) && !is_void; },
                         [&](const gradient& g) { return some(g.grads) || some(g.stats); },
                         [&](const push& p) { return lacks(p.sum); },
                         [&](const weights& w) { return lacks(w.value); },
                         [&](const layer_weights& w) { return some(w.values); },
                         [&](const state& s) { return lacks(s.value) || some(s.rule); },
                         [&](const restore_state& s) { return lacks(s.value) || some(s.rule); },
                         [&](const examples& x) { return lacks(x.data) || lacks(x.label); },
                         [&](const user& u) { return some(u.values); },
                         [](const auto&) { return false; },
                     },
                     e.body);
}

}  // namespace troupe
