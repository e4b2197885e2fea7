// Messages that roles drop: counted by reason (runtime/messages/drops.hpp), and a mistake ends a
// simulated run.
#include <gmock/gmock.h>

#include <functional>
#include <stdexcept>
#include <vector>

#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

class drops : public ::testing::Test {
 protected:
  drops() : dev_(make_cpu_device()) {
    shape_of_job shape;
    shape.workers = 2;
    shape.shards = 2;
    shape.steps = 6;
    job_ = prepare(shape, 2);
  }
  const job_plan& plan() const { return job_->plan; }
  tensor values(std::int64_t n) {
    auto t = tensor::allocate(*dev_, {n}, job_->spec.parameter_type());
    dev_->fill(0, t);
    return t;
  }
  envelope to(role_id dst, role_id src, message m, std::uint64_t step = 0) {
    envelope e;
    e.h.job = 1;
    e.h.src = src;
    e.h.dst = dst;
    e.h.step = step;
    e.body = std::move(m);
    return e;
  }
  // Runs the job, delivers `extra` when step 3 is complete, and returns the counts of role `of` at
  // the end.
  drop_counts run(const envelope& extra, bool allow_mistakes = true) {
    sim::world_config c;
    c.dev = dev_.get();
    c.allow_mistakes = allow_mistakes;
    sim::world w(c);
    for (const auto& r : plan().roles) w.add(r.id, r.node, make_role(job_, r.id));
    w.on_event = [&](const event_effect& e) {
      if (e.is<step_event>() && e.step == 3) w.inject(extra);
    };
    w.inject(to(role_id{0}, no_role, start{}));
    EXPECT_TRUE(w.run(1'000'000));
    return w.find(extra.h.dst)->dropped();
  }

  std::unique_ptr<device> dev_;
  std::shared_ptr<prepared_job> job_;
};

TEST_F(drops, an_undisturbed_job_drops_nothing) {
  sim::world_config c;
  c.dev = dev_.get();
  sim::world w(c);
  for (const auto& r : plan().roles) w.add(r.id, r.node, make_role(job_, r.id));
  w.inject(to(role_id{0}, no_role, start{}));
  ASSERT_TRUE(w.run(1'000'000));
  for (const auto& r : plan().roles) EXPECT_EQ(w.find(r.id)->dropped().mistakes(), 0u) << r.name;
}

TEST_F(drops, each_reason_is_counted_where_it_occurs) {
  const auto& p = plan();
  const auto& block = p.blocks.front();
  const auto shard = block.shard;
  const auto worker = p.workers[0], loader = p.loaders[0];
  const auto stage = p.stages[0].front();
  struct sent {
    const char* what;
    envelope e;
    drop_reason why;
  };
  const std::vector<sent> all{
      {"a push of a former step", to(shard, worker, push{block.id, 0, 1, values(block.count)}), drop_reason::outdated},
      {"a push with too few values", to(shard, worker, push{block.id, 0, 1, values(block.count - 1)}), drop_reason::malformed},
      {"a push of a block that does not exist", to(shard, worker, push{9999, 0, 1, values(1)}), drop_reason::misaddressed},
      {"a second start", to(shard, no_role, start{}), drop_reason::repeated},
      {"a work unit for a shard", to(shard, worker, work_unit{}), drop_reason::unexpected},
      {"weights of a foreign source", to(worker, loader, weights{block.id, values(block.count)}), drop_reason::malformed},
      {"the end of an unknown task", to(worker, no_role, finished{12345}), drop_reason::unrequested},
      {"a forward to a port that does not exist", to(stage, loader, forward{values(1), 1, 0}), drop_reason::malformed},
      {"a report of a role that does not report", to(role_id{0}, shard, report{}), drop_reason::misaddressed},
      {"an inventory that was not requested", to(role_id{0}, shard, inventory{}), drop_reason::outdated},
  };
  for (const auto& s : all) {
    const auto counts = run(s.e);
    EXPECT_EQ(counts[s.why], 1u) << s.what << ": dropped " << counts.total();
  }
}

TEST_F(drops, a_mistake_ends_the_run_and_names_role_message_and_reason) {
  const auto& block = plan().blocks.front();
  const auto worker = plan().workers[0];
  try {
    run(to(block.shard, worker, push{block.id, 0, 1, values(block.count - 1)}), false);
    FAIL() << "the run went on";
  } catch (const std::logic_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("role " + std::to_string(index_of(block.shard)) + " dropped 'push' of role " +
                                    std::to_string(index_of(worker)) + ", step 0: malformed"));
  }
}

TEST_F(drops, reasons_of_a_healthy_cluster_do_not_end_the_run) {
  const auto& block = plan().blocks.front();
  const auto counts = run(to(block.shard, plan().workers[0], push{block.id, 0, 1, values(block.count)}), false);
  EXPECT_EQ(counts[drop_reason::outdated], 1u);
  EXPECT_EQ(counts.mistakes(), 0u);
}

TEST(drop_counts, sums_and_mistakes_count_what_was_added) {
  drop_counts a, b;
  ++a[drop_reason::repeated];
  ++b[drop_reason::malformed];
  ++b[drop_reason::unexpected];
  a += b;
  EXPECT_EQ(a.total(), 3u);
  EXPECT_EQ(a.mistakes(), 2u);
  EXPECT_STREQ(name_of(drop_reason::unrequested), "unrequested");
}

}  // namespace
}  // namespace troupe::testing
