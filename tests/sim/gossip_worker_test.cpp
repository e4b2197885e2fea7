// The worker sync of gossip without a world: its choice of peers, when it rests, and where its mass
// goes then.
#include <gmock/gmock.h>

#include <cstring>
#include <set>

#include "tests/sim/lone_role.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Types of the worker's `user` messages.
constexpr std::uint32_t share = 1, want_copy = 3, rests = 4;

struct parcel {
  std::uint32_t to, layer = 0;  // receiving worker
  double mass = 0;
  std::uint32_t count = 0;
  std::uint64_t step = 0;
  double value = 0;
};

class gossiper {
 public:
  explicit gossiper(std::uint32_t self, const std::string& every = "1", std::uint32_t workers = 4, std::uint32_t layers = 1)
      : gossiper(prepared(workers, layers, every), self) {}
  gossiper(const std::shared_ptr<prepared_job>& j, std::uint32_t self) : sync_(j, j->plan.workers[self]) {}

  static std::shared_ptr<prepared_job> prepared(std::uint32_t workers, std::uint32_t layers, const std::string& every,
                                                std::uint64_t seed = 3) {
    auto s =
        mode_spec({.mode = "gossip", .options = {{"every", every}}, .workers = workers, .layers = layers}, *shared_mode_tables());
    s.seed = seed;
    node_spec here;
    here.name = "local";
    return prepare_job(s, shared_mode_tables(), {here}).value();
  }

  std::vector<envelope> begin() { return sync_.give_states(0); }
  std::vector<envelope> step(std::uint64_t s) { return sync_.give_gradients(s, 0); }
  std::vector<envelope> step_of_layer(std::uint32_t layer, std::uint64_t s) { return sync_.give_gradient(layer, s, 0); }
  // The coordinator's grant with number `notice`: steps end at `until` for now.
  std::vector<envelope> boundary(std::uint64_t until, std::uint64_t notice) {
    return sync_.say(from(role_id{0}), grant{until, notice});
  }
  std::vector<envelope> rests_at(std::uint32_t worker, std::uint64_t step) {
    return sync_.say(from(sync_.plan().workers[worker], step), user{rests, {}, {}});
  }
  std::vector<envelope> give(std::uint32_t worker, const parcel& p) {
    user u{share, std::string(16, '\0'), {}};
    std::memcpy(u.bytes.data(), &p.layer, 4);
    std::memcpy(u.bytes.data() + 4, &p.mass, 8);
    std::memcpy(u.bytes.data() + 12, &p.count, 4);
    for (auto i : sync_.job().graph.layers[p.layer].params)
      u.values.push_back(sync_.filled(sync_.job().graph.params[i].spec.dims, p.value));
    return sync_.say(from(sync_.plan().workers[worker], p.step), std::move(u));
  }

  // Shard `number` asks for copies with request `request`. `copies` returns the (block, mass) pairs
  // sent to it for that request.
  std::vector<envelope> ask(std::uint32_t number, std::uint64_t request) {
    return sync_.say(from(sync_.plan().shards[number]), user{want_copy, {}, {}, request});
  }
  std::vector<std::pair<std::uint32_t, double>> copies(const std::vector<envelope>& sent, std::uint32_t number,
                                                       std::uint64_t request) const {
    std::vector<std::pair<std::uint32_t, double>> list;
    for (const auto& [h, s] : only<state>(sent))
      if (h.dst == sync_.plan().shards[number] && s.request == request && s.round == 0) list.emplace_back(s.block, s.mass);
    return list;
  }
  // Returns the same pairs for all blocks of the shard, at this mass.
  std::vector<std::pair<std::uint32_t, double>> all_of(std::uint32_t number, double mass) const {
    std::vector<std::pair<std::uint32_t, double>> list;
    for (const auto& b : sync_.plan().blocks)
      if (b.shard == sync_.plan().shards[number]) list.emplace_back(b.id, mass);
    return list;
  }

  void hold() { sync_.hold(); }
  std::vector<envelope> let_go() { return sync_.let_go(); }

  std::vector<parcel> shares(const std::vector<envelope>& sent) const {
    std::vector<parcel> list;
    for (const auto& [h, u] : only<user>(sent)) {
      if (u.type != share) continue;
      parcel p{number(h.dst)};
      std::memcpy(&p.layer, u.bytes.data(), 4);
      std::memcpy(&p.mass, u.bytes.data() + 4, 8);
      std::memcpy(&p.count, u.bytes.data() + 12, 4);
      p.step = h.step;
      p.value = sync_.first_of(u.values[0]);
      list.push_back(p);
    }
    return list;
  }
  // Returns counts: entry i is how often the layer was passed to its stage i steps after the last
  // merged share.
  std::vector<std::uint64_t> staleness() {
    const auto announced = only<observation>(sync_.say(from(role_id{0}), observe{}));
    return announced.at(0).second.histograms.at(0).second;
  }
  // Returns the workers that are notified that this one rests, with the step.
  std::vector<std::pair<std::uint32_t, std::uint64_t>> notified_of_rest(const std::vector<envelope>& sent) const {
    std::vector<std::pair<std::uint32_t, std::uint64_t>> list;
    for (const auto& [h, u] : only<user>(sent))
      if (u.type == rests) list.emplace_back(number(h.dst), h.step);
    return list;
  }

 private:
  std::uint32_t number(role_id worker) const {
    const auto& w = sync_.plan().workers;
    return static_cast<std::uint32_t>(std::find(w.begin(), w.end(), worker) - w.begin());
  }
  lone_role sync_;
};

// Returns the distances, in workers, of a hundred shares from the sender to its peer.
std::vector<std::uint32_t> ways(std::uint32_t self, std::uint64_t seed) {
  gossiper g(gossiper::prepared(4, 1, "1", seed), self);
  g.begin();
  std::vector<std::uint32_t> list;
  for (std::uint64_t s = 0; s < 100; ++s)
    for (const auto& p : g.shares(g.step(s))) list.push_back((p.to + 4 - self) % 4);
  return list;
}

std::ptrdiff_t in_common(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  std::ptrdiff_t n = 0;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) n += a[i] == b[i];
  return n;
}

// Two independent draws agree in a third of the places: 33 of 100 on average and rarely more than
// 50.
TEST(gossip_worker, draws_peers_evenly_and_independently_of_other_workers) {
  std::vector<std::vector<std::uint32_t>> drawn;
  for (std::uint32_t w = 0; w < 4; ++w) drawn.push_back(ways(w, 3));
  for (const auto& d : drawn) {
    ASSERT_EQ(d.size(), 100u) << "one share per step";
    for (std::uint32_t way = 1; way < 4; ++way) {
      const auto n = std::count(d.begin(), d.end(), way);
      EXPECT_TRUE(n > 15 && n < 55) << n << " of 100 go " << way << " workers further";
    }
    for (const auto& other : drawn)
      if (&other != &d) {
        EXPECT_LT(in_common(d, other), 55);
      }
  }
  EXPECT_LT(in_common(drawn[0], ways(0, 4)), 55);
  EXPECT_EQ(in_common(drawn[0], ways(0, 3)), 100);
}

TEST(gossip_worker, sends_half_of_its_mass_every_n_steps) {
  gossiper g(1, "2");
  EXPECT_THAT(g.shares(g.begin()), IsEmpty());
  for (std::uint64_t s = 0; s < 6; ++s) {
    const auto sent = g.step(s);
    EXPECT_THAT(g.notified_of_rest(sent), IsEmpty()) << "no grant has ended the steps";
    const auto shares = g.shares(sent);
    ASSERT_EQ(shares.size(), s % 2) << "after step " << s;
    if (shares.empty()) continue;
    EXPECT_EQ(shares[0].mass, 0.25 / static_cast<double>(2u << (s / 2)));
    EXPECT_EQ(shares[0].step, s + 1);
  }
}

TEST(gossip_worker, counts_steps_since_the_last_share_of_others) {
  gossiper g(1);
  g.begin();
  for (std::uint64_t s = 0; s < 2; ++s) g.step(s);
  EXPECT_THAT(g.staleness(), ElementsAre(1u, 1u, 1u));
  g.give(2, {1, 0, 0.125, 0, 2, 7});
  for (std::uint64_t s = 2; s < 4; ++s) g.step(s);
  EXPECT_THAT(g.staleness(), ElementsAre(1u, 2u, 2u));
}

TEST(gossip_worker, sends_a_shard_its_blocks_and_their_mass) {
  gossiper g(1, "1", 4, 2);
  EXPECT_THAT(g.ask(0, 7), IsEmpty()) << "the worker has no weights yet";
  EXPECT_EQ(g.copies(g.begin(), 0, 7), g.all_of(0, 0.25)) << "the request is answered when the weights arrive";
  g.step(0);
  EXPECT_EQ(g.copies(g.ask(0, 8), 0, 8), g.all_of(0, 0.125)) << "half of the mass is in flight";
}

// A step may change the rule states in place, so a copy sent during a step would change in flight.
TEST(gossip_worker, sends_a_copy_only_between_steps) {
  gossiper g(1);
  g.begin();
  g.hold();
  g.step(0);
  EXPECT_THAT(g.copies(g.ask(0, 7), 0, 7), IsEmpty());
  EXPECT_EQ(g.copies(g.let_go(), 0, 7), g.all_of(0, 0.25)) << "the copy is sent between the step and the share";
}

TEST(gossip_worker, rests_at_the_boundary_and_gives_its_mass_to_training_peers) {
  gossiper g(1, "1", 4, 2);
  g.begin();
  EXPECT_THAT(g.boundary(1, 1), IsEmpty());
  const auto midway = g.step_of_layer(0, 0);
  EXPECT_THAT(only<user>(midway), IsEmpty()) << "the other layer has not finished the step";
  const auto sent = g.step_of_layer(1, 0);
  EXPECT_THAT(g.notified_of_rest(sent), UnorderedElementsAre(std::pair(0u, 1u), std::pair(2u, 1u), std::pair(3u, 1u)));
  const auto given = g.shares(sent);
  ASSERT_EQ(given.size(), 2u);
  EXPECT_EQ(given[0].layer + given[1].layer, 1u);
  for (const auto& p : given) {
    EXPECT_NE(p.to, 1u);
    EXPECT_EQ(p.mass, 0.25) << "the whole mass, including the share due at the boundary";
  }

  const auto passed = g.shares(g.give(0, {1, 0, 0.125, 0, 1, 7}));
  ASSERT_EQ(passed.size(), 1u) << "a resting worker forwards shares unchanged";
  EXPECT_EQ(passed[0].mass, 0.125);
  EXPECT_EQ(passed[0].value, 7);
  EXPECT_THAT(g.shares(g.give(0, {1, 0, 0.125, 0, 1, 7})), IsEmpty()) << "a duplicate share is ignored";

  for (std::uint32_t w : {0, 3}) EXPECT_THAT(g.rests_at(w, 1), IsEmpty());
  for (std::uint32_t k = 1; k < 9; ++k) {
    const auto to = g.shares(g.give(0, {1, 0, 0.01, k, 1, 7}));
    ASSERT_EQ(to.size(), 1u);
    EXPECT_EQ(to[0].to, 2u) << "only worker 2 still trains";
  }
  g.rests_at(2, 1);
  EXPECT_THAT(g.shares(g.give(2, {1, 0, 0.5, 1, 1, 7})), IsEmpty()) << "all workers rest, so the share is kept";
}

TEST(gossip_worker, gives_every_peer_an_equal_part_when_it_continues) {
  gossiper g(1);
  g.begin();
  g.boundary(1, 1);
  for (std::uint32_t w : {0, 2, 3}) g.rests_at(w, 1);
  EXPECT_THAT(g.shares(g.step(0)), IsEmpty()) << "all peers rest";
  g.give(2, {1, 0, 0.25, 1, 1, 0});  // with half of another worker's mass: 1/2 in total
  EXPECT_THAT(g.boundary(1, 1), IsEmpty()) << "an old grant";
  const auto parts = g.shares(g.boundary(3, 2));
  std::vector<std::uint32_t> to;
  for (const auto& p : parts) {
    to.push_back(p.to);
    EXPECT_EQ(p.mass, 0.125);
    EXPECT_EQ(p.step, 1u) << "the step of the last boundary";
  }
  EXPECT_THAT(to, UnorderedElementsAre(0u, 2u, 3u));
  const auto next = g.shares(g.step(1));
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].mass, 0.0625) << "half of the part that the worker kept";
}

}  // namespace
}  // namespace troupe::testing
