// A header field that a message does not use has its default value (messages/header_fields.hpp):
// every simulated run checks the messages that roles send. Here are runs in which every type of
// message occurs that a job without node failures has.
#include <gmock/gmock.h>

#include "tests/sim/mode_run.hpp"

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsSubsetOf;

// Sends the type and the header that the test chooses.
struct sender final : role {
  envelope sent;
  explicit sender(envelope e) : sent(std::move(e)) {}
  void on(const envelope& e, time_point, effects& out) override {
    if (std::holds_alternative<start>(e.body)) out.send(sent);
  }
};

void run_sender(const envelope& e, bool allow_mistakes) {
  sim::world_config c;
  c.allow_mistakes = allow_mistakes;
  sim::world w(c);
  w.add(role_id{0}, 0, std::make_unique<sender>(e));
  envelope go;
  go.h.dst = role_id{0};
  go.body = start{};
  w.inject(go);
  w.run(10);
}

TEST(header_fields_of_roles, stray_field_ends_the_run_and_is_named) {
  envelope e;
  e.h.dst = role_id{0};
  e.body = evaluate{1};
  EXPECT_NO_THROW(run_sender(e, false));
  e.h.packet = 3;
  EXPECT_NO_THROW(run_sender(e, true));
  try {
    run_sender(e, false);
    FAIL() << "the run went on";
  } catch (const std::logic_error& why) {
    EXPECT_THAT(why.what(), HasSubstr("role 0 sends 'evaluate' with header fields that this type does not use: packet"));
  }
}

class header_fields_of_jobs : public ::testing::Test {
 protected:
  // Runs a job with faults and commands of a user; adds the names of its messages to `seen`.
  void play(const std::shared_ptr<prepared_job>& j, const sim::world_config& config, const std::vector<command>& commands = {}) {
    ASSERT_TRUE(j);
    mode_run r{.job = j, .config = config};
    r.prepare = [&](sim::world& w) {
      w.on_deliver = [&](const envelope& e, time_point) { seen.insert(name_of(e.body)); };
      auto when = duration(std::chrono::milliseconds(1));
      for (const auto& c : commands) w.at(when, [&w, c] { say(w, c); }), when += std::chrono::milliseconds(2);
    };
    const auto got = run(r);
    EXPECT_EQ(got.violation, "") << j->spec.train.sync.kind << ", seed " << config.seed;
  }
  // A job of this shape.
  void play(mode_shape shape, std::uint64_t seed, const std::vector<command>& commands = {}) {
    shape.lr = 0.01;
    shape.test = 11;
    shape.eval_every = 3;
    const auto j = prepare_mode(shape);
    ASSERT_TRUE(j);
    j->keeps_best = true;
    j->histograms_every = 4;
    play(j, draw_world(seed, shape.all_worker_nodes(), dev_.get()), commands);
  }
  std::shared_ptr<device> dev_ = make_cpu_device();
  std::set<std::string> seen;
};

TEST_F(header_fields_of_jobs, are_used_as_documented_in_every_mode) {
  const std::vector<mode_shape> shapes{
      {.mode = "bsp"},
      {.mode = "bsp", .shards = 2, .rule = "adam", .clip_norm = 1},
      {.mode = "bsp", .shards = 2, .max_skipped = 2},
      {.mode = "bsp", .workers = 4, .reducer = "tree"},
      {.mode = "bsp", .workers = 4, .reducer = "ring"},
      {.mode = "bsp", .compress = "int8"},
      {.mode = "bsp", .sampler = "served"},
      {.mode = "bsp", .workers = 4, .sampler = "replicate"},
      {.mode = "bsp", .sampler = "seeded"},
      {.mode = "ssp", .options = {{"staleness", "2"}}},
      {.mode = "sandblaster", .packets = 8},
      {.mode = "downpour", .options = {{"n_push", "2"}}, .groups = 2},
      {.mode = "easgd", .options = {{"alpha", "0.2"}, {"tau", "2"}}, .rule = "momentum"},
      {.mode = "easgd", .options = {{"tau", "2"}, {"variant", "sync"}}},
      {.mode = "gossip", .options = {{"every", "2"}}, .rule = "momentum"},
      {.mode = "group_sync", .options = {{"sync_freq", "3"}}, .groups = 2, .server_groups = 2},
      {.mode = "hogwild", .groups = 2, .server_groups = 2},
  };
  for (std::uint64_t k = 0; k < 3 * shapes.size(); ++k) play(shapes[k % shapes.size()], 1 + k);
  const std::vector<command> orders{{staleness_command{}},
                                    {mode_command{{"gossip", {}}}},
                                    {set_command{"train.dynamics.lr", 0.02}},
                                    {mode_command{{"easgd", {{"tau", "2"}}}}},
                                    {histograms_command{}},
                                    {checkpoint_command{}},
                                    {mode_command{{"ssp", {{"staleness", "1"}}}}}};
  for (std::uint64_t seed = 1; seed < 9; ++seed) play({.mode = "bsp", .workers = 3, .steps = 60}, seed, orders);
  play(prepare({.packets = 4, .workers = 2, .steps = 4}, 2), draw_world(1, 0, dev_.get()));  // layers in a row
  const std::set<std::string> want{
      "forward",       "backward", "credit",        "gradient",        "push",          "weights",
      "layer_weights", "ready",    "fetch",         "start",           "grant",         "set",
      "evaluate",      "report",   "collect",       "state",           "command",       "user",
      "flush",         "adopt",    "observe",       "observation",     "norm_partials", "work_unit",
      "want_examples", "examples", "examples_seed", "want_histograms", "histogram",     "nonfinite_report"};
  EXPECT_THAT(want, IsSubsetOf(seen));
}

}  // namespace
}  // namespace troupe::testing
