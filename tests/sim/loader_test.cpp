// The loader without a world: the packets that it sends for its commands, for duplicate commands
// and for work units.
#include "runtime/loader/loader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "runtime/data/random.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

using sent_list = std::vector<std::tuple<std::uint64_t, std::uint32_t, int>>;  // step, packet, phase

// A loader whose tasks finish at once and whose consumers return credit at once. say() returns the
// packets that leave it, in order.
class lone_loader {
 public:
  explicit lone_loader(const shape_of_job& s, bool dynamic = false, std::uint32_t worker = 0)
      : job_(prepare(s)), dev_(make_cpu_device()) {
    loader_config c;
    c.self = job_->plan.loaders.at(worker);
    c.plan = {job_, &job_->plan};
    c.read.graph = {job_, &job_->graph};
    c.read.data = job_->data;
    c.read.eval = job_->all->eval_samplers.find("all")->make({}, {1, job_->data->size(split::test)});
    c.read.eval_examples = 2;
    sampler_config order;
    order.examples = job_->data->size(split::train);
    order.batch = job_->spec.data.batch;
    c.order = job_->all->samplers.find("shuffle")->make({}, order);
    c.dynamic = dynamic;
    loader_ = std::make_unique<loader>(std::move(c));
  }

  sent_list say(message m, std::uint64_t version = 0) {
    envelope e;
    e.h.version = version;
    e.body = std::move(m);
    sent_list got;
    std::vector<envelope> todo{e};
    while (!todo.empty()) {
      const auto which = static_cast<std::ptrdiff_t>(order_ ? order_->draw_below(todo.size()) : 0);
      const auto next = todo[static_cast<std::size_t>(which)];
      todo.erase(todo.begin() + which);
      effects out;
      loader_->on(next, {}, out);
      max_at_once_ = std::max(max_at_once_, loader_->status().in_flight);
      for (auto& x : out.list()) {
        if (auto* r = std::get_if<run_effect>(&x)) {
          task_context ctx{*dev_};
          r->work(ctx);
          todo.push_back({{}, finished{r->token}});
        } else if (auto* s = std::get_if<send_effect>(&x)) {
          const auto& edge = job_->plan.edges[job_->plan[s->e.h.src].out_edges[0]];
          if (s->e.h.dst == edge.to && s->e.h.port == edge.to_port)
            got.emplace_back(s->e.h.step, s->e.h.packet, static_cast<int>(s->e.h.phase));
          for (auto o : job_->plan[s->e.h.src].out_edges)
            if (const auto& to = job_->plan.edges[o]; to.to == s->e.h.dst && to.to_port == s->e.h.port) {
              envelope back;
              back.h.port = to.from_port;
              back.h.id = s->e.h.id;
              back.body = credit{1};
              todo.push_back(back);
            }
        }
      }
    }
    return got;
  }

  // From now on, tasks and credit are completed in a random order drawn from the seed.
  void shuffle(std::uint64_t seed) { order_.emplace(seed); }
  std::uint32_t max_at_once() const { return max_at_once_; }

 private:
  std::optional<counter_rng> order_;
  std::uint32_t max_at_once_ = 0;
  std::shared_ptr<prepared_job> job_;
  std::unique_ptr<device> dev_;
  std::unique_ptr<loader> loader_;
};

constexpr int train = static_cast<int>(phase::train), test = static_cast<int>(phase::test);

shape_of_job two_packets() {
  shape_of_job s;
  s.packets = 2;
  return s;
}

TEST(loader, duplicate_or_late_grant_changes_nothing) {
  lone_loader l(two_packets());
  EXPECT_EQ(l.say(grant{2}), (sent_list{{0, 0, train}, {0, 1, train}, {1, 0, train}, {1, 1, train}}));
  EXPECT_TRUE(l.say(grant{2}).empty());
  EXPECT_EQ(l.say(grant{3}), (sent_list{{2, 0, train}, {2, 1, train}}));
  EXPECT_TRUE(l.say(grant{1}).empty());
}

TEST(loader, duplicate_evaluation_is_not_run_again) {
  lone_loader l(two_packets());
  l.say(grant{1});
  const auto once = l.say(evaluate{1}, 1);
  EXPECT_EQ(once.size(), 7u) << "13 test examples, two per packet";
  EXPECT_EQ(once.at(6), std::tuple(1u, 6u, test));
  EXPECT_TRUE(l.say(evaluate{1}, 1).empty());
  EXPECT_EQ(l.say(evaluate{2}, 1).size(), 7u);
  EXPECT_TRUE(l.say(evaluate{1}, 1).empty());
}

TEST(loader, work_units_are_loaded_in_order_and_each_packet_once) {
  auto s = two_packets();
  s.packets = 8;
  lone_loader l(s, true);
  EXPECT_TRUE(l.say(grant{5}).empty()) << "a dynamic loader ignores grants";
  EXPECT_EQ(l.say(work_unit{0, 4, 2}), (sent_list{{0, 4, train}, {0, 5, train}}));
  EXPECT_EQ(l.say(work_unit{0, 0, 1}), (sent_list{{0, 0, train}}));
  EXPECT_TRUE(l.say(work_unit{0, 4, 2}).empty()) << "a duplicate";
  EXPECT_EQ(l.say(work_unit{0, 5, 2}), (sent_list{{0, 6, train}})) << "only packets that have not been loaded";
  EXPECT_EQ(l.say(work_unit{3, 7, 9}), (sent_list{{3, 7, train}})) << "no packets beyond the step's";
  EXPECT_TRUE(l.say(work_unit{0, 1, 1}).empty()) << "a late duplicate of an older step";
  EXPECT_EQ(l.say(evaluate{1}, 9).size(), 7u) << "the evaluation follows the work units; the loader ignores versions";
}

TEST(loader, static_loader_ignores_work_units) {
  lone_loader l(two_packets());
  EXPECT_TRUE(l.say(work_unit{0, 0, 2}).empty());
  EXPECT_EQ(l.say(grant{1}).size(), 2u);
}

TEST(loader, packets_read_in_parallel_leave_in_order) {
  sent_list want;
  for (std::uint64_t step = 0; step < 6; ++step)
    for (std::uint32_t packet = 0; packet < 4; ++packet) want.emplace_back(step, packet, train);
  for (std::uint32_t packet = 0; packet < 7; ++packet) want.emplace_back(1u, packet, test);
  for (std::int64_t readers : {1, 2, 3, 8})
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      shape_of_job s;
      s.readers = readers;
      lone_loader l(s);
      l.shuffle(seed);
      auto got = l.say(grant{6});
      const auto round = l.say(evaluate{1}, 6);
      got.insert(got.end(), round.begin(), round.end());
      ASSERT_EQ(got, want) << readers << " readers, seed " << seed;
      ASSERT_EQ(l.max_at_once(), readers) << "the loader reads with all readers, and no more; seed " << seed;
    }
}

}  // namespace
}  // namespace troupe::testing
