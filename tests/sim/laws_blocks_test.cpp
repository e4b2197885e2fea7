// Invariant of blocks: for any block size the weights have the same bits as with one block per
// shard, and no parameter message is larger than a block with all its rule states.
#include "tests/sim/mode_run.hpp"
#include "tests/sim/moving.hpp"
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

constexpr std::int64_t small = 128;  // bytes: 16 elements of f64, the smallest block

// Bounds the bytes of messages between nodes.
class bounded_messages final : public checker {
 public:
  explicit bounded_messages(std::size_t most) : max_(most) {}
  std::size_t largest() const { return largest_; }

 private:
  void watch(const seen_event& s, const prepared_job& j) override {
    for (const auto& one : s.out) {
      const auto* send = std::get_if<send_effect>(&one);
      if (!send || j.plan[s.self].node == j.plan[send->e.h.dst].node) continue;
      const auto bytes = tensor_bytes(send->e.body);
      largest_ = std::max(largest_, bytes);
      must(bytes <= max_, [&] {
        return j.plan[s.self].name + " sends " + name_of(send->e.body) + " of " + std::to_string(bytes) + " bytes to " +
               j.plan[send->e.h.dst].name;
      });
    }
  }
  std::size_t max_, largest_ = 0;
};

struct way {
  std::string mode;
  text_options options;
  std::string reducer = "server";
  std::uint32_t groups = 1, server_groups = 1;
};

// Modes whose weights do not depend on timing.
std::vector<way> exact_ways() {
  return {{"bsp", {}},
          {"bsp", {}, "tree"},
          {"ssp", {{"staleness", "0"}}},
          {"easgd", {{"variant", "sync"}, {"tau", "3"}}},
          {"eamsgd", {{"variant", "sync"}, {"tau", "2"}}}};
}

mode_shape shape_of(const way& w, std::uint64_t seed) {
  mode_shape s;
  s.mode = w.mode, s.options = w.options, s.reducer = w.reducer;
  s.workers = 1 + static_cast<std::uint32_t>(seed % 3), s.shards = 1 + static_cast<std::uint32_t>(seed / 3 % 2);
  s.packets = 6, s.columns = 150, s.lr = 0.01;
  s.rule = w.mode == "eamsgd" ? "nesterov" : seed % 2 ? "adam" : "momentum";
  return s;
}

TEST(laws_blocks, small_blocks_change_no_bit_and_every_message_is_bounded) {
  const auto dev = make_cpu_device();
  std::size_t largest = 0;
  for (const auto& w : exact_ways())
    for (const auto seed : law_seeds(20)) {
      auto shape = shape_of(w, seed);
      const auto want = run({.job = prepare_mode(shape), .config = draw_world(seed, 0, dev.get())});
      ASSERT_EQ(want.violation, "") << w.mode << " seed " << seed;
      shape.max_block = small;
      bounded_messages bound(3 * small);  // the value and adam's two states
      const auto j = prepare_mode(shape);
      ASSERT_GT(j->plan.blocks.size(), 18u);
      const auto got = run({.job = j, .config = draw_world(seed, shape.workers, dev.get()), .checkers = {&bound}});
      ASSERT_EQ(got.violation, "") << w.mode << " seed " << seed;
      ASSERT_EQ(got.bytes(), want.bytes()) << w.mode << " " << w.reducer << " seed " << seed;
      largest = std::max(largest, bound.largest());
    }
  EXPECT_EQ(largest, static_cast<std::size_t>(3 * small)) << "no block with its states was sent";
}

TEST(laws_blocks, small_blocks_change_no_bit_across_mode_switches) {
  const auto dev = make_cpu_device();
  std::uint64_t switches = 0;
  for (const auto seed : law_seeds(30)) {
    auto shape = shape_of({"bsp", {}}, seed);
    const auto want = run({.job = prepare_mode(shape), .config = draw_world(1, 0, dev.get())}).bytes();
    shape.max_block = small;
    mode_run r{.job = prepare_mode(shape), .config = draw_world(seed, shape.workers, dev.get())};
    const auto say = [](sim::world& w, command c) {
      envelope e;
      e.h.dst = role_id{0};
      e.body = std::move(c);
      w.inject(std::move(e));
    };
    r.prepare = [&](sim::world& w) {
      w.at(duration(300'000), [&w, say] { say(w, {mode_command{{"ssp", {{"staleness", "0"}}}}}); });
    };
    r.on_event = [&](sim::world& w, const event_effect& e) {
      if (!e.is<mode_event>()) return;
      ++switches;
      if (message_of(e).starts_with("ssp")) say(w, {mode_command{{"bsp"}}});
    };
    const auto got = run(r);
    ASSERT_EQ(got.violation, "") << "seed " << seed;
    ASSERT_EQ(got.bytes(), want) << "seed " << seed;
  }
  EXPECT_GE(switches, 30u);
}

// The norm for clipping is a sum over the whole gradient: it must not depend on the cut into
// messages, also where parts of a layer have their own cuts. (At lr = 0.001 only one seed of 10,000
// showed a dependence; with lr = 1 nearly every seed does.)
TEST(laws_blocks, small_blocks_clip_to_the_same_norm) {
  const std::shared_ptr<device> dev = make_cpu_device();
  std::uint64_t by_column = 0, by_row = 0;
  for (std::uint64_t seed = 1; seed <= seeds(120); ++seed) {
    random_net net(seed);
    auto j = net.job();
    j.train.lr = 1;
    j.train.clip.norm = 0.05;
    j.train.finish.steps = 3;
    bool feature = false;
    net.place(j, 3, feature);
    const auto made = prepare_job(j, shared_tables(), nodes_named(3));
    if (!made) continue;
    sim::world_config c;
    c.seed = seed;
    c.dev = dev.get();
    const auto want = run_in_world(*made, c);
    for (const std::int64_t bytes : {64, 200, 1000}) {
      auto cut = j;
      cut.topology.max_block = bytes;
      const auto pieces = prepare_job(cut, shared_tables(), nodes_named(3)).value();
      for (const auto& b : pieces->plan.blocks) (b.run > 0 ? by_column : by_row) += b.run > 0 || b.begin % 16 > 0 ? 1 : 0;
      ASSERT_EQ(run_in_world(pieces, c).bytes() == want.bytes(), true) << "seed " << seed << ", blocks of " << bytes << " bytes";
    }
  }
  EXPECT_GT(by_column, seeds(120) / 10);
  EXPECT_GT(by_row, seeds(120) / 10);
}

// Placed layers too, whose columns are cut between rows, and across plans when users move layers.
TEST(laws_blocks, small_blocks_of_any_partition_change_no_bit_and_can_move) {
  const std::shared_ptr<device> dev = make_cpu_device();
  std::uint64_t more = 0, columns = 0, moved = 0;
  for (std::uint64_t seed = 1; seed <= seeds(120); ++seed) {
    random_net net(seed);
    auto j = net.job();
    const char* rules[] = {"sgd", "momentum", "adam"};
    const std::string rule = rules[seed % 3];
    j.train.rule = {rule, checked({}, shared_tables()->rules.find(rule)->specs), {}};
    j.train.lr = 0.001;
    j.train.finish.steps = 12;
    std::vector<node_spec> nodes(3);
    for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = "n" + std::to_string(i + 1);
    bool feature = false;
    net.place(j, 3, feature);
    auto cut = j;
    cut.topology.max_block = 64;
    const auto made = prepare_job(j, shared_tables(), nodes), small_made = prepare_job(cut, shared_tables(), nodes);
    if (!made) continue;
    ASSERT_TRUE(small_made) << "seed " << seed;
    const auto whole = *made, pieces = *small_made;
    more += pieces->plan.blocks.size() > whole->plan.blocks.size() ? 1 : 0;
    for (const auto& b : pieces->plan.blocks) columns += b.run > 0 && b.begin >= b.stride ? 1 : 0;
    sim::world_config c;
    c.seed = seed;
    c.dev = dev.get();
    const auto want = run_in_world(whole, c);
    ASSERT_TRUE(want.done) << "seed " << seed;
    ASSERT_EQ(run_in_world(pieces, c).bytes(), want.bytes()) << "seed " << seed;
    if (feature) continue;  // a moved layer is whole, so its sums have another order
    const auto got = run_moved(pieces, {{3, move_key(j.layers.front().name, "n2")}, {6, move_key(j.layers.front().name, "n3")}}, c);
    ASSERT_TRUE(got.done) << "seed " << seed;
    ASSERT_EQ(got.bytes(), want.bytes()) << "seed " << seed;
    moved += got.moved.size();
  }
  EXPECT_GT(more, seeds(120) / 2);
  EXPECT_GT(columns, 0u);
  EXPECT_GT(moved, 10u);
}

}  // namespace
}  // namespace troupe::testing
