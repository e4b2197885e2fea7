// The steps of a shard's update, each by itself: the gradients that it passes on, the messages that
// it sends, and the messages that it ignores.
#include "runtime/sync/update_steps.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "runtime/sync/finite_check.hpp"
#include "runtime/sync/norm_clip.hpp"
#include "tests/sim/mode_job.hpp"

namespace troupe::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A shard of a job without its role: blocks with values, and the messages that steps send.
class step_bench {
 public:
  struct options_of {
    mode_shape shape = {.shards = 2};
    double clip_norm = 0;
    std::int64_t max_skipped = 0, replicas = 1;
  };
  explicit step_bench(const options_of& o) {
    const auto all = shared_mode_tables();
    auto spec = mode_spec(o.shape, *all);
    spec.topology.replicas = o.replicas;
    std::vector<node_spec> nodes(3);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].name = "n" + std::to_string(i + 1);
      nodes[i].roles = i == 0 ? std::vector<std::string>{"coordinator", "data"} : std::vector<std::string>{"worker", "server"};
    }
    job_ = prepare_job(spec, all, nodes).value();
    config_.graph = std::shared_ptr<const model_graph>(job_, &job_->graph);
    config_.plan = std::shared_ptr<const job_plan>(job_, &job_->plan);
    config_.self = plan().shards[0];
    config_.update = all->rules.find("sgd")->make({});
    config_.rate = make_rate(job_->spec, *all);
    config_.lr = 0.5;
    config_.clip_norm = o.clip_norm;
    config_.max_skipped = o.max_skipped;
    config_.type = dtype::f64;
    blocks_.emplace(config_);
    for (auto& b : blocks_->list()) b.value = filled(b, 2), b.filled = true;
  }

  const job_plan& plan() const { return *config_.plan; }
  shard_parts parts() { return {config_, *blocks_, tasks_}; }
  std::vector<shard_block>& blocks() { return blocks_->list(); }
  role_id other() const { return plan().shards[1]; }

  void use(std::unique_ptr<update_step> s) {
    step_ = std::move(s);
    step_->connect([this](complete_gradient g, effects&) { passed.push_back(std::move(g)); });
  }
  update_step& step() { return *step_; }

  // Passes a gradient with equal elements to the step. Its tasks run in settle().
  void begin(shard_block& b, double element, std::uint64_t at = 0) {
    complete_gradient g{&b, {}, std::make_shared<tensors>(1, filled(b, element)), 2, at};
    step_->take(std::move(g), out_);
  }
  void take(shard_block& b, double element, std::uint64_t at = 0) {
    begin(b, element, at);
    settle();
  }
  void take_skipped(shard_block& b) {
    step_->take({.block = &b}, out_);
    settle();
  }
  std::optional<drop_reason> say(role_id from, std::uint64_t at, message m) {
    header h;
    h.src = from;
    h.step = at;
    return say(h, std::move(m));
  }
  std::optional<drop_reason> say(header h, message m) {
    const auto why = step_->take_message({h, std::move(m)}, out_);
    settle();
    return why;
  }

  void settle() {
    while (!out_.list().empty()) {
      auto list = std::exchange(out_.list(), {});
      for (auto& x : list) {
        if (auto* s = std::get_if<send_effect>(&x)) sent_.push_back(s->e);
        auto* r = std::get_if<run_effect>(&x);
        if (!r) continue;
        task_context c{*cpu()};
        cpu()->begin_task();
        r->work(c);
        cpu()->finish_task();
        EXPECT_TRUE(tasks_.finished(r->token, out_));
      }
    }
  }

  template <class M>
  std::vector<std::pair<role_id, M>> sent() const {
    std::vector<std::pair<role_id, M>> list;
    for (const auto& e : sent_)
      if (const auto* m = std::get_if<M>(&e.body)) list.emplace_back(e.h.dst, *m);
    return list;
  }
  std::vector<std::uint32_t> passed_blocks() const {
    std::vector<std::uint32_t> ids;
    for (const auto& g : passed) ids.push_back(g.block->plan->id);
    return ids;
  }
  std::vector<complete_gradient> passed;

 private:
  tensor filled(const shard_block& b, double value) const {
    auto t = tensor::allocate(*cpu(), {b.plan->count}, dtype::f64);
    cpu()->fill(value, t);
    return t;
  }

  std::shared_ptr<prepared_job> job_;
  sync_config config_;
  std::optional<shard_blocks> blocks_;
  pending_tasks tasks_;
  std::unique_ptr<update_step> step_;
  effects out_;
  std::vector<envelope> sent_;
};

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

double first_of(const tensor& t) { return at_home(*cpu(), t).data<double>()[0]; }

// --- the list

TEST(update_steps, leaves_out_the_steps_that_a_job_does_not_need) {
  step_bench b({});
  EXPECT_EQ(finite_check::make(b.parts()), nullptr);
  EXPECT_EQ(norm_clip::make(b.parts()), nullptr);
  step_bench with({.clip_norm = 1, .max_skipped = 1});
  EXPECT_NE(finite_check::make(with.parts()), nullptr);
  EXPECT_NE(norm_clip::make(with.parts()), nullptr);
}

TEST(update_steps, end_with_the_new_value_after_all_steps) {
  step_bench b({});
  std::vector<shard_block*> ended;
  update_steps list(b.parts(), {finite_check::make, apply_rule::make, replicate::make},
                    [&](const complete_gradient& g, effects&) { ended.push_back(g.block); });
  EXPECT_TRUE(list.counts_histograms());
  effects out;
  list.take({.block = &b.blocks()[0]}, out);
  EXPECT_THAT(ended, ElementsAre(&b.blocks()[0]));
  EXPECT_EQ(list.take_message({{}, norm_partials{}}, out), drop_reason::unexpected) << "no step of this list takes it";
}

// --- finite_check

class finite_checks : public ::testing::Test {
 protected:
  finite_checks() { b.use(finite_check::make(b.parts())); }
  void take_all(double element, std::uint64_t at = 0) {
    for (auto& block : b.blocks()) b.take(block, element, at);
  }
  step_bench b{{.max_skipped = 1}};
};

TEST_F(finite_checks, hold_gradients_until_all_shards_have_reported) {
  take_all(1);
  EXPECT_THAT(b.passed, IsEmpty());
  ASSERT_THAT(b.sent<nonfinite_report>(), SizeIs(1));
  EXPECT_EQ(b.sent<nonfinite_report>()[0].first, b.other());
  EXPECT_EQ(b.say(b.other(), 0, nonfinite_report{0, {}}), std::nullopt);
  ASSERT_THAT(b.passed, SizeIs(b.blocks().size()));
  for (const auto& g : b.passed) EXPECT_TRUE(g.sum && g.known_finite);
}

TEST_F(finite_checks, pass_blocks_in_order_when_the_other_report_came_first) {
  EXPECT_EQ(b.say(b.other(), 0, nonfinite_report{0, {}}), std::nullopt);
  std::vector<std::uint32_t> ids;
  for (auto& block : b.blocks()) ids.push_back(block.plan->id);
  for (auto i = b.blocks().rbegin(); i != b.blocks().rend(); ++i) b.take(*i, 1);
  EXPECT_EQ(b.passed_blocks(), ids);
}

TEST_F(finite_checks, skip_all_blocks_when_one_of_this_shard_is_not_finite) {
  b.take(b.blocks()[0], not_a_number);
  for (std::size_t i = 1; i < b.blocks().size(); ++i) b.take(b.blocks()[i], 1);
  std::vector<role_id> told;
  for (const auto& [to, r] : b.sent<nonfinite_report>()) {
    told.push_back(to);
    EXPECT_THAT(r.bad, ElementsAre(b.blocks()[0].plan->id));
  }
  EXPECT_THAT(told, ElementsAre(b.other(), role_id{0})) << "the other shard, and the coordinator";
  b.say(b.other(), 0, nonfinite_report{0, {}});
  ASSERT_THAT(b.passed, SizeIs(b.blocks().size()));
  for (const auto& g : b.passed) EXPECT_EQ(g.sum, nullptr);
}

TEST_F(finite_checks, skip_all_blocks_when_another_shard_reports_one) {
  std::uint32_t theirs = 0;
  while (b.plan().shard_of(b.plan().blocks[theirs], 0) != b.other()) ++theirs;
  take_all(1);
  EXPECT_EQ(b.say(b.other(), 0, nonfinite_report{0, {theirs}}), std::nullopt);
  ASSERT_THAT(b.passed, SizeIs(b.blocks().size()));
  for (const auto& g : b.passed) EXPECT_EQ(g.sum, nullptr);
}

TEST_F(finite_checks, ignore_reports_that_do_not_fit) {
  EXPECT_EQ(b.say(role_id{0}, 0, nonfinite_report{0, {}}), drop_reason::misaddressed);
  EXPECT_EQ(b.say(b.other(), 0, nonfinite_report{9, {}}), drop_reason::misaddressed);
  EXPECT_EQ(b.say(b.other(), 0, nonfinite_report{0, {b.blocks()[0].plan->id}}), drop_reason::misaddressed);
  EXPECT_EQ(b.say(b.other(), 2, nonfinite_report{0, {}}), drop_reason::unexpected) << "two clocks ahead";
  EXPECT_EQ(b.say(b.other(), 1, nonfinite_report{0, {}}), std::nullopt);
  EXPECT_EQ(b.say(b.other(), 0, nonfinite_report{0, {}}), std::nullopt);
  EXPECT_EQ(b.say(b.other(), 0, nonfinite_report{0, {}}), drop_reason::repeated);
  take_all(1);
  EXPECT_EQ(b.say(b.other(), 0, nonfinite_report{0, {}}), drop_reason::outdated);
  EXPECT_EQ(b.say(b.other(), 0, norm_partials{}), drop_reason::unexpected);
}

// --- norm_clip

class norm_clips : public ::testing::Test {
 protected:
  norm_clips() { b.use(norm_clip::make(b.parts())); }
  // The partials that the other shard sends for its blocks, if all elements are `element`.
  void give_others(double element) {
    step_bench there({.clip_norm = 1});
    const auto self = there.plan().shards[1];
    for (const auto& block : there.plan().blocks) {
      if (there.plan().shard_of(block, 0) != self) continue;
      auto sum = tensor::allocate(*cpu(), {block.count}, dtype::f64);
      cpu()->fill(element, sum);
      const auto found = std::make_shared<std::vector<square_sum>>();
      cpu()->begin_task();
      find_square_sums(*cpu(), sum, 0, block.count, found);
      cpu()->finish_task();
      EXPECT_EQ(b.say(self, 0, norm_partials{block.id, *found}), std::nullopt);
    }
  }
  std::int64_t elements() const {
    std::int64_t n = 0;
    for (const auto& block : b.plan().blocks) n += block.count;
    return n;
  }
  step_bench b{{.clip_norm = 1}};
};

TEST_F(norm_clips, hold_gradients_until_the_norm_of_all_parameters_is_known) {
  for (auto& block : b.blocks()) b.take(block, 3);
  EXPECT_THAT(b.passed, IsEmpty());
  EXPECT_THAT(b.sent<norm_partials>(), SizeIs(b.blocks().size()));
  give_others(3);
  ASSERT_THAT(b.passed, SizeIs(b.blocks().size()));
  const double norm = std::sqrt(static_cast<double>(elements())) * 3 / 2;  // of the mean over two packets
  for (const auto& g : b.passed) EXPECT_NEAR(g.clip, 1 / norm, 1e-12);
}

TEST_F(norm_clips, leave_a_small_gradient_as_it_is) {
  give_others(1e-3);
  for (auto& block : b.blocks()) b.take(block, 1e-3);
  ASSERT_THAT(b.passed, SizeIs(b.blocks().size()));
  for (const auto& g : b.passed) EXPECT_EQ(g.clip, 1.0);
}

TEST_F(norm_clips, pass_a_skipped_clock_at_once) {
  b.take_skipped(b.blocks()[0]);
  EXPECT_THAT(b.passed, SizeIs(1));
  EXPECT_THAT(b.sent<norm_partials>(), IsEmpty());
}

TEST_F(norm_clips, ignore_partials_that_do_not_fit) {
  const auto mine = b.blocks()[0].plan->id;
  EXPECT_EQ(b.say(b.other(), 0, norm_partials{mine, {}}), drop_reason::misaddressed);
  EXPECT_EQ(b.say(b.other(), 0, norm_partials{99, {}}), drop_reason::misaddressed);
  const auto behind_last = static_cast<std::uint32_t>(b.plan().blocks.size());
  EXPECT_EQ(b.say(b.other(), 0, norm_partials{behind_last, {}}), drop_reason::misaddressed);
  EXPECT_EQ(b.say(b.other(), 0, nonfinite_report{}), drop_reason::unexpected);
  give_others(1);
  std::uint32_t theirs = 0;
  while (b.plan().shard_of(b.plan().blocks[theirs], 0) != b.other()) ++theirs;
  EXPECT_EQ(b.say(b.other(), 0, norm_partials{theirs, {}}), drop_reason::repeated);
  for (auto& block : b.blocks()) b.take(block, 1);
  EXPECT_EQ(b.say(b.other(), 0, norm_partials{theirs, {}}), drop_reason::outdated);
}

// --- apply_rule

TEST(applying_the_rule, steps_with_the_clipped_mean) {
  step_bench b({});
  b.use(apply_rule::make(b.parts()));
  auto& block = b.blocks()[0];
  b.take_skipped(block);
  EXPECT_EQ(first_of(block.next->value), 2) << "skipped: the same weights";
  block.next = {};
  b.passed.clear();
  b.take(block, 3);
  ASSERT_THAT(b.passed, SizeIs(1));
  EXPECT_EQ(first_of(block.next->value), 2 - 0.5 * 3 / 2);
}

TEST(applying_the_rule, lends_update_and_rule_states_to_its_task) {
  step_bench b({});
  b.use(apply_rule::make(b.parts()));
  auto& block = b.blocks()[0];
  b.begin(block, 3);
  EXPECT_THROW(block.next->updates = 7, std::logic_error);
  EXPECT_THROW(block.rule->clear(), std::logic_error);
  EXPECT_EQ(first_of(block.value), 2) << "the present weights stay readable";
  b.settle();
  EXPECT_EQ(block.next->updates, 1u);
  EXPECT_FALSE(block.rule.out());
}

TEST(applying_the_rule, ends_the_job_with_a_gradient_that_is_not_finite) {
  step_bench b({});
  b.use(apply_rule::make(b.parts()));
  b.take(b.blocks()[0], not_a_number);
  EXPECT_THAT(b.passed, IsEmpty());
  ASSERT_THAT(b.sent<nonfinite_report>(), SizeIs(1));
  EXPECT_EQ(b.sent<nonfinite_report>()[0].first, role_id{0});
}

TEST(applying_the_rule, skips_a_gradient_that_is_not_finite_if_the_job_may_skip_steps) {
  step_bench b({.max_skipped = 1});
  b.use(apply_rule::make(b.parts()));
  auto& block = b.blocks()[0];
  b.take(block, not_a_number);
  EXPECT_THAT(b.sent<nonfinite_report>(), SizeIs(1));
  ASSERT_THAT(b.passed, SizeIs(1));
  EXPECT_EQ(first_of(block.next->value), 2);
  EXPECT_EQ(block.next->updates, 0u);
}

// --- replicate

TEST(replication, passes_at_once_without_replicas) {
  step_bench b({});
  b.use(replicate::make(b.parts()));
  b.take_skipped(b.blocks()[0]);
  EXPECT_THAT(b.passed, SizeIs(1));
  EXPECT_TRUE(b.step().quiet());
}

TEST(replication, waits_for_the_acknowledgement_of_the_first_replica) {
  step_bench b({.replicas = 2});
  b.use(replicate::make(b.parts()));
  const auto copies = b.plan().copies_of(b.plan().shards[0]);
  ASSERT_THAT(copies, SizeIs(1));
  auto& block = b.blocks()[0];
  b.parts().blocks.leave_out(block);  // a pending update
  b.take_skipped(block);
  ASSERT_THAT(b.sent<state>(), SizeIs(1));
  EXPECT_EQ(b.sent<state>()[0].first, copies[0]);
  EXPECT_THAT(b.passed, IsEmpty());
  EXPECT_FALSE(b.step().quiet());
  header h;
  h.src = copies[0];
  h.version = 7;
  const ready copied{.what = ready::what_of::copied, .block = block.plan->id};
  EXPECT_EQ(b.say(h, copied), drop_reason::unrequested) << "another version";
  h.version = 0;
  EXPECT_EQ(b.say(h, copied), drop_reason::unrequested) << "the first values, which are older";
  h.version = 1;
  h.src = b.other();
  EXPECT_EQ(b.say(h, copied), drop_reason::misaddressed);
  EXPECT_EQ(b.say(h, ready{ready::what_of::flushed}), drop_reason::unexpected);
  h.src = copies[0];
  EXPECT_EQ(b.say(h, copied), std::nullopt);
  EXPECT_THAT(b.passed_blocks(), ElementsAre(block.plan->id));
  EXPECT_TRUE(b.step().quiet());
}

}  // namespace
}  // namespace troupe::testing
