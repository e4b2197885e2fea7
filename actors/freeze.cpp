#include "actors/freeze.hpp"

namespace troupe {
namespace {

// The mark is written at most once: a write to a block that others read would cost them a cache line.
void freeze(tensor& t) {
  if (!t.frozen()) t.freeze();
}
void freeze(tensors& ts) {
  for (auto& t : ts) freeze(t);
}

struct freezer {
  void operator()(forward& m) const { freeze(m.value); }
  void operator()(backward& m) const { freeze(m.grad); }
  void operator()(gradient& m) const {
    freeze(m.grads);
    freeze(m.stats);
  }
  void operator()(push& m) const { freeze(m.sum); }
  void operator()(weights& m) const { freeze(m.value); }
  void operator()(layer_weights& m) const { freeze(m.values); }
  void operator()(state& m) const {
    freeze(m.value);
    freeze(m.rule);
  }
  void operator()(restore_state& m) const {
    freeze(m.value);
    freeze(m.rule);
  }
  void operator()(user& m) const { freeze(m.values); }
  // Bodies without tensors, by name: a new body does not compile until it has been thought about here.
  void operator()(credit&) const {}
  void operator()(ready&) const {}
  void operator()(start&) const {}
  void operator()(grant&) const {}
  void operator()(set_value&) const {}
  void operator()(evaluate&) const {}
  void operator()(report&) const {}
  void operator()(collect&) const {}
  void operator()(halt&) const {}
  void operator()(command&) const {}
  void operator()(finished&) const {}
  void operator()(timer_fired&) const {}
  void operator()(peer_down&) const {}
};

}  // namespace

void freeze_tensors(envelope& e) { std::visit(freezer{}, e.body); }

}  // namespace troupe
