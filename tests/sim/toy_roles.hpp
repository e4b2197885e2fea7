// A cluster of one toy role per node, which sends messages on request and records those it
// receives. For tests of the world itself.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/sim/world.hpp"

namespace troupe::sim::toy {

struct arrival {
  int to, from;
  std::int64_t at;
  friend bool operator==(const arrival&, const arrival&) = default;
  friend std::ostream& operator<<(std::ostream& o, const arrival& a) {
    return o << a.from + 1 << " to " << a.to + 1 << " at " << a.at;
  }
};
using arrivals = std::vector<arrival>;

class cluster {
 public:
  cluster(std::uint32_t nodes, network_model n, std::uint64_t seed = 1, fault_model f = {}, compute_model c = {})
      : config_{seed, n, c, nullptr, std::move(f), {}}, world_(config_), peers_(nodes) {
    for (std::uint32_t i = 0; i < nodes; ++i) world_.add(role_id{i}, i, std::make_unique<talker>(*this, role_id{i}));
  }

  // `from` sends `to` a message of `elements` floats now.
  void talk(int from, int to, std::int64_t elements) { tell(from, to, elements, sent_[{from, to}]++); }
  // The same at a virtual time.
  void talk_at(std::int64_t ns, int from, int to, std::int64_t elements = 1) {
    world_.at(time_point(ns), [this, from, to, elements] { talk(from, to, elements); });
  }
  arrivals run(std::uint64_t limit = 1'000'000) {
    EXPECT_TRUE(world_.run(limit)) << "the world did not become idle within " << limit << " events";
    std::sort(got_.begin(), got_.end(),
              [](const arrival& a, const arrival& b) { return std::tuple(a.at, a.to, a.from) < std::tuple(b.at, b.to, b.from); });
    return got_;
  }
  // The messages that role `to` received, as numbers in order of sending.
  const std::vector<std::uint64_t>& steps_at(int to) const { return peers_[static_cast<std::size_t>(to)].steps; }
  sim::world& world() { return world_; }

 private:
  struct peer {
    std::vector<std::uint64_t> steps;
  };

  class talker final : public role {
   public:
    talker(cluster& c, role_id self) : c_(c), self_(self) {}
    void on(const envelope& e, time_point now, effects& out) override {
      auto& me = c_.peers_[index_of(self_)];
      if (const auto* u = std::get_if<user>(&e.body)) {
        if (e.h.src == no_role) {  // a request to send
          envelope say;
          say.h.src = self_;
          say.h.dst = role_id{u->type};
          say.h.step = e.h.step;
          say.body = *u;
          out.send(std::move(say));
        } else {
          me.steps.push_back(e.h.step);
          c_.got_.push_back({static_cast<int>(index_of(self_)), static_cast<int>(index_of(e.h.src)), now.count()});
        }
      }
    }

   private:
    cluster& c_;
    role_id self_;
  };

  void tell(int from, int to, std::int64_t elements, std::uint64_t number) {
    envelope e;
    e.h.dst = role_id{static_cast<std::uint32_t>(from)};
    e.h.step = number;
    e.body = user{static_cast<std::uint32_t>(to), {}, {tensor::declare({elements}, dtype::f32)}};
    world_.inject(std::move(e));
  }

  world_config config_;
  sim::world world_;
  std::vector<peer> peers_;
  std::map<std::pair<int, int>, std::uint64_t> sent_;
  arrivals got_;
};

}  // namespace troupe::sim::toy
