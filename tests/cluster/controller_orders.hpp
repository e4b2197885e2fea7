// Filters for the orders of a cluster controller by type, for tests that drive one without a
// cluster.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/cluster/controller/cluster_controller.hpp"

namespace troupe::control {

template <class O>
std::vector<O> ordered_in(const orders& out) {
  std::vector<O> v;
  for (const auto& o : out)
    if (const auto* x = std::get_if<O>(&o)) v.push_back(*x);
  return v;
}

// Messages of type M with their destination.
template <class M>
std::vector<std::pair<std::string, M>> sent_in(const orders& out) {
  std::vector<std::pair<std::string, M>> v;
  for (const auto& o : out)
    if (const auto* p = std::get_if<to_peer>(&o))
      if (const auto* m = std::get_if<M>(&p->what)) v.emplace_back(p->peer, *m);
  return v;
}

template <class M>
std::vector<M> messages_in(const orders& out) {
  std::vector<M> v;
  for (auto& [peer, m] : sent_in<M>(out)) v.push_back(m);
  return v;
}

}  // namespace troupe::control
