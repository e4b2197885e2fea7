// Tests of operations of the control plane: how work_of() performs them, the actor that does it on
// a thread of its own, and the table of the operations (controller/operations.hpp).
#include "runtime/cluster/controller/operations.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "actors/control/host/operation_actor.hpp"
#include "runtime/cluster/controller/member.hpp"
#include "tests/cluster/failing_controller.hpp"

namespace troupe::control {

// An executor that records what it performs.
struct recorder {
  std::vector<std::string> performed;
  std::thread::id on{};

  expected<int> length_of(const std::string& text) {
    on = std::this_thread::get_id();
    performed.push_back(text);
    if (text.empty()) throw std::runtime_error("nothing to measure");
    if (text == "refused") return unexpected("text refused");
    return static_cast<int>(text.size());
  }
};

struct measure {
  std::string text;
  std::function<void(const expected<int>&)> taken;

  using executor = recorder;
  using result = expected<int>;
  result perform(auto& by) const { return by.length_of(text); }
  void deliver(auto&, const result& r) const { taken(r); }
};

// Without a result.
struct note_down {
  std::string text;

  using executor = recorder;
  void perform(auto& by) const { static_cast<void>(by.length_of(text)); }
};

}  // namespace troupe::control

TROUPE_LOCAL_MESSAGE(troupe::control::operation_note<troupe::control::recorder>)

namespace troupe::control {
namespace {

using namespace std::chrono_literals;

takers no_takers() { return {nullptr, nullptr, {}, nullptr, nullptr, {}, {}, {}}; }

expected<int> measured(recorder& by, const std::string& text) {
  expected<int> got = unexpected("not delivered");
  auto to = no_takers();
  work_of(measure{text, [&](const expected<int>& r) { got = r; }})(by)(to);
  return got;
}

TEST(operation, delivers_its_result_when_it_was_performed) {
  recorder by;
  EXPECT_EQ(*measured(by, "four"), 4);
  EXPECT_EQ(by.performed, std::vector<std::string>{"four"});
}

TEST(operation, delivers_a_failure_as_an_error) {
  recorder by;
  EXPECT_EQ(measured(by, "refused").error().text, "text refused");
}

TEST(operation, turns_an_exception_into_an_error) {
  recorder by;
  EXPECT_EQ(measured(by, "").error().text, "nothing to measure");
}

TEST(operation, has_no_delivery_when_it_has_no_result) {
  recorder by;
  EXPECT_FALSE(work_of(note_down{"three"})(by));
  EXPECT_EQ(by.performed, std::vector<std::string>{"three"});
  EXPECT_THROW(static_cast<void>(work_of(note_down{""})(by)), std::runtime_error);
}

// An actor with a recorder. Deliveries are run by the thread that calls wait_for().
class recording_actor {
 public:
  recording_actor() {
    operation_host h;
    h.deliver = [this](delivery d) {
      const std::lock_guard guard(lock_);
      ready_.push_back(std::move(d));
      changed_.notify_all();
    };
    h.log = [this](const std::string& line) {
      const std::lock_guard guard(lock_);
      logged_.push_back(line);
      changed_.notify_all();
    };
    h.probed = [this] { probed_ = true; };
    auto by = std::make_unique<recorder>();
    recorder_ = by.get();
    actor_ = system_.spawn<operation_actor<recorder>, caf::detached>("recorder", std::move(by), std::move(h));
  }
  ~recording_actor() { compat::ask_to_exit(actor_); }

  template <operation O>
  void request(O x) {
    compat::post(actor_, operation_note<recorder>{work_of(std::move(x))});
  }
  void ping() { compat::post(actor_, probe{}); }
  bool probed() const { return probed_; }
  // Runs deliveries until there were `n` in all; false: not within 10 s.
  bool wait_for(std::size_t n) {
    std::unique_lock guard(lock_);
    if (!changed_.wait_for(guard, 10s, [&] { return ready_.size() >= n; })) return false;
    auto to = no_takers();
    for (; done_ < ready_.size(); ++done_) ready_[done_](to);
    return true;
  }
  std::vector<std::string> logged() {
    std::unique_lock guard(lock_);
    changed_.wait_for(guard, 10s, [&] { return !logged_.empty(); });
    return logged_;
  }
  // To be called when no request is under way.
  const recorder& by() const { return *recorder_; }

 private:
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  recorder* recorder_ = nullptr;
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<delivery> ready_;
  std::vector<std::string> logged_;
  std::size_t done_ = 0;
  std::atomic<bool> probed_{false};
  caf::actor actor_;
};

TEST(operation_actor, performs_on_its_thread_and_delivers_on_the_requesters) {
  recording_actor a;
  std::thread::id taken_on;
  a.request(measure{"x", [&](const expected<int>&) { taken_on = std::this_thread::get_id(); }});
  ASSERT_TRUE(a.wait_for(1));
  EXPECT_EQ(taken_on, std::this_thread::get_id());
  EXPECT_NE(a.by().on, std::this_thread::get_id());
  EXPECT_NE(a.by().on, std::thread::id());
}

TEST(operation_actor, performs_and_delivers_in_the_order_of_the_requests) {
  recording_actor a;
  std::vector<int> lengths;
  std::vector<std::string> requested;
  for (int i = 1; i <= 100; ++i) {
    requested.emplace_back(static_cast<std::size_t>(i), 'x');
    if (i % 3 == 0)
      a.request(note_down{requested.back()});
    else
      a.request(measure{requested.back(), [&](const expected<int>& r) { lengths.push_back(*r); }});
  }
  ASSERT_TRUE(a.wait_for(67));
  EXPECT_EQ(a.by().performed, requested);
  ASSERT_EQ(lengths.size(), 67u);
  EXPECT_TRUE(std::is_sorted(lengths.begin(), lengths.end()));
}

TEST(operation_actor, goes_on_when_an_operation_throws) {
  recording_actor a;
  a.request(note_down{""});
  std::vector<std::string> taken;
  const auto take = [&](const expected<int>& r) { taken.push_back(r ? std::to_string(*r) : r.error().text); };
  a.request(measure{"", take});
  a.request(measure{"xy", take});
  ASSERT_TRUE(a.wait_for(2));
  EXPECT_EQ(a.logged(), std::vector<std::string>{"recorder: nothing to measure"});
  EXPECT_EQ(taken, (std::vector<std::string>{"nothing to measure", "2"}));
}

TEST(operation_actor, answers_a_probe_after_earlier_operations) {
  recording_actor a;
  a.ping();
  a.request(measure{"x", [](const expected<int>&) {}});
  ASSERT_TRUE(a.wait_for(1));
  EXPECT_TRUE(a.probed());
}

// --- the table

// In place of the job executor.
struct failing_executor {
  expected<void> make(const prepare&) { return unexpected("no memory"); }
  expected<void> revise(const revise&) { return unexpected("another plan"); }
  expected<plan_found> amend(const check_move&) { return unexpected("no such node"); }
};

struct member_operation : ::testing::Test {
  control::member node{"n2", "n1"};
  member_orders out;
  std::vector<std::string> logged;
  takers to{nullptr, &node,
            {},      nullptr,
            &out,    [] { return std::uint64_t{7}; },
            {},      [this](const std::string& line) { logged.push_back(line); }};
  failing_executor by;

  member_operation() {
    node.on(joined{}, {}, out);
    prepare p;
    p.job = 3;
    node.on(p, {}, out);
  }
  template <operation O>
  O requested() const {
    return std::get<O>(out.back());
  }
  template <operation O>
  void run(const O& x) {
    x.deliver(to, x.perform(by));
  }
  template <class M>
  M said() const {
    for (const auto& o : out)
      if (const auto* p = std::get_if<to_peer>(&o))
        if (const auto* m = std::get_if<M>(&p->what)) return *m;
    ADD_FAILURE() << "no such message";
    return {};
  }
};

TEST_F(member_operation, make_roles_reports_its_error) {
  run(requested<make_roles>());
  EXPECT_EQ(said<prepared>().error, "no memory");
}

TEST_F(member_operation, make_plan_order_reports_its_error) {
  revise r;
  r.what.job = 3;
  r.plan_generation = 2;
  node.on(r, {}, out);
  run(requested<make_plan_order>());
  EXPECT_EQ(said<revised>().error, "another plan");
}

TEST_F(member_operation, end_roles_ends_the_job_when_it_fails) {
  node.on(end_job{3}, {}, out);
  requested<end_roles>().deliver(to, unexpected("disk on fire"));
  EXPECT_EQ(said<ended>().tcp_bytes, 7u);
  EXPECT_EQ(said<ended>().post_mortem, "");
  EXPECT_EQ(logged, std::vector<std::string>{"executor: disk on fire"});
  EXPECT_TRUE(node.idle());
}

struct controller_operation : controller_failures {
  std::vector<stored> saved;
  takers to() {
    return {&*h_, nullptr, now_, &out_, nullptr, {}, [this](const stored& x) { saved.push_back(x); }, {}};
  }
};

TEST_F(controller_operation, check_move_starts_the_plan_that_was_found) {
  begin({"n1", "n2", "n3"});
  dies("n2");
  const auto x = *asked();
  plan_found f;
  f.changes.without = {"n2"};
  f.plan = plan({"n1", "n3"});
  f.live = true;
  auto t = to();
  x.deliver(t, f);
  ASSERT_FALSE(sent<revise>().empty());
  EXPECT_EQ(plan_generation(), x.plan_generation);
}

TEST_F(controller_operation, check_move_reports_its_error) {
  begin({"n1", "n2", "n3"});
  continues_without_n3();
  out_.clear();
  joins("n3");
  const auto x = *asked();
  failing_executor by;
  auto t = to();
  x.deliver(t, x.perform(by));
  EXPECT_EQ(last_said(), "refused: no such node");
}

TEST_F(controller_operation, write_state_delivers_its_error_with_what_was_to_be_written) {
  begin({"n1", "n2", "n3"});
  h_->on_store_begun(id_);
  auto t = to();
  write_state{id_, {kept_kind::checkpoint, 40, {}, {}}}.deliver(t, unexpected("the disk is full"));
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].job, id_);
  EXPECT_EQ(saved[0].what, kept_kind::checkpoint);
  EXPECT_EQ(saved[0].error, "the disk is full");
}

}  // namespace
}  // namespace troupe::control
