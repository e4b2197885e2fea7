// The browser page: its state and differences of it, and what pages get and may send.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "actors/page/delta.hpp"
#include "actors/page/feed.hpp"
#include "actors/page/state.hpp"
#include "runtime/cluster/view/ended_jobs.hpp"
#include "tests/actors/repl_fake.hpp"

namespace troupe {
namespace {

using json = nlohmann::json;

// --- the state

bool has_null(const json& o) {
  if (o.is_null()) return true;
  if (!o.is_structured()) return false;
  return std::any_of(o.begin(), o.end(), has_null);
}

TEST(page_state, has_nodes_jobs_roles_and_waits_by_name) {
  fake_backend b;
  const auto s = page_state(b.v, page_role::operates);
  EXPECT_EQ(s["about"]["cluster"], "lab");
  EXPECT_EQ(s["about"]["role"], "operator");
  EXPECT_EQ(s["about"]["may"], (json{{"run_jobs", true}, {"all", false}, {"inject", false}}));
  EXPECT_EQ(s["nodes"]["n2"]["state"], "absent");
  EXPECT_EQ(s["jobs"]["2"]["mode"], "bsp");
  EXPECT_EQ(
      s["jobs"]["2"]["layers"][0],
      (json{{"name", "conv1"}, {"type", "convolution"}, {"inputs", {"data"}}, {"out", {"16x20x24x24"}}, {"parameters", 520}}));
  EXPECT_EQ(s["jobs"]["2"]["settings"]["train.dynamics.lr"]["value"], 0.01);
  EXPECT_EQ(s["roles"]["n1/worker0/conv1"]["waits"], "weights");
  EXPECT_EQ(s["roles"]["n1/worker0/conv1"]["waits_for"], "weights of version 6");
}

TEST(page_state, names_the_root_of_a_stall_and_who_waits_for_it) {
  fake_backend b;
  repl_role sync;
  sync.node = "n2";
  sync.what = {2, role_id{4}, "worker0", {}, 1, 0, 0};
  sync.what.task = {"reduce", 7, false, 0, 0, 3.2};
  b.v.roles.push_back(sync);
  const auto s = page_state(b.v, page_role::admin);
  ASSERT_EQ(s["roots"].size(), 1u) << s["roots"];
  EXPECT_EQ(s["roots"][0]["role"], "n2/worker0");
  EXPECT_EQ(s["roots"][0]["cause"], "task");
  EXPECT_EQ(s["roots"][0]["chain"], (json{"n1/worker0/conv1", "n2/worker0"}));
  EXPECT_EQ(s["roots"][0]["age"], 3);
  EXPECT_EQ(s["edges"], (json{{"n1/worker0/conv1", {"n2/worker0"}}}));
}

TEST(page_state, has_stragglers_and_round_trips) {
  fake_backend b;
  b.v.jobs[1].stragglers = {{"worker0/conv1", "n1", 245.04, 45.01, 20}, {"link", "", 9, 1, 30}};
  repl_link measured, fresh;
  measured.peer = "n2", measured.round_trip = 0.000132;
  fresh.peer = "n3";
  b.v.nodes[0].links = {measured, fresh};
  const auto s = page_state(b.v, page_role::observer);
  EXPECT_EQ(s["jobs"][std::to_string(b.v.jobs[1].id)]["stragglers"],
            (json{{{"role", "worker0/conv1"}, {"step", 20}, {"node", "n1"}, {"costs_ms", 200}, {"peers_ms", 45}},
                  {{"role", "link"}, {"step", 30}, {"costs_ms", 8}, {"peers_ms", 1}}}));
  EXPECT_EQ(s["nodes"][b.v.nodes[0].name]["links"]["n2"]["round_trip_us"], 150);
  EXPECT_FALSE(s["nodes"][b.v.nodes[0].name]["links"]["n3"].contains("round_trip_us"));
}

TEST(page_state, allows_faults_to_an_admin_where_the_cluster_file_does) {
  fake_backend b;
  for (const bool allowed : {false, true})
    for (const auto role : {page_role::observer, page_role::operates, page_role::admin}) {
      b.v.may_inject = allowed;
      EXPECT_EQ(page_state(b.v, role)["about"]["may"]["inject"], allowed && role == page_role::admin);
    }
}

TEST(page_state, says_which_nodes_the_job_is_off) {
  fake_backend b;
  b.v.nodes[1].off = b.v.nodes[1].drained = true;
  const auto s = page_state(b.v, page_role::observer);
  for (const char* key : {"off", "drained"}) {
    EXPECT_EQ(s["nodes"]["n2"][key], true);
    EXPECT_FALSE(s["nodes"]["n1"].contains(key));
  }
}

TEST(page_state, roles_of_a_job_that_is_over_have_nothing_queued) {
  for (const auto state : {job_state::running, job_state::done, job_state::stopped, job_state::preempted, job_state::failed})
    for (const bool cluster : {true, false}) {
      fake_backend b;
      if (!cluster) {  // a run in one process, whose number is not that of its roles
        b.v.cluster.clear();
        b.v.jobs = {b.v.jobs[1]};
        b.v.jobs[0].id = 7;
      }
      b.v.jobs.back().state = state;
      settle_ended_jobs(b.v);
      const auto r = page_state(b.v, page_role::observer)["roles"]["n1/worker0/conv1"];
      for (const char* key : {"queued", "in_flight", "credit"}) EXPECT_EQ(r.contains(key), !is_over(state)) << key;
      EXPECT_EQ(r.contains("waits"), !is_over(state) || state == job_state::failed) << text_of(state);
      EXPECT_TRUE(r.contains("messages"));
    }
}

TEST(page_state, leaves_out_what_is_unknown_or_not_finite) {
  fake_backend b;
  b.v.jobs[1].loss = std::nan("");
  b.v.jobs[1].lr = HUGE_VAL;
  b.v.jobs[1].settings = {{"train.dynamics.lr", std::nan(""), HUGE_VAL, 3}};
  b.v.nodes[0].seconds = std::nan("");
  const auto s = page_state(b.v, page_role::observer);
  EXPECT_FALSE(has_null(s)) << s;
  EXPECT_FALSE(s["jobs"]["2"].contains("loss"));
  EXPECT_EQ(json::parse(s.dump()), s) << "what is sent is what was made";
}

// A backend's view with random contents.
repl_view random_view(std::mt19937_64& g) {
  fake_backend b;
  auto v = b.v;
  const auto below = [&](std::uint64_t n) { return g() % n; };
  v.up_seconds = static_cast<double>(below(100));
  v.nodes.resize(below(3));
  for (auto& n : v.nodes) {
    n.memory = below(2) * below(1000);
    n.note = below(2) ? "drained" : "";
    n.links.resize(below(3));
    for (auto& l : n.links) l = {"n" + std::to_string(below(3)), below(2) ? "tcp" : "shm", "", below(5), below(5), below(2)};
  }
  for (auto& j : v.jobs) {
    j.step = below(5);
    j.loss = below(4) ? static_cast<double>(below(100)) / 7 : std::nan("");
    j.state = below(2) ? job_state::running : job_state::paused;
    if (below(2)) j.about = nullptr;
    if (below(2)) j.settings = {{"train.dynamics.lr", static_cast<double>(below(3)), {}, below(9)}};
  }
  if (below(3) == 0) v.jobs.pop_back();
  const auto role = v.roles.front();
  v.roles.resize(below(12), role);
  for (auto& r : v.roles) {
    static const std::vector<std::string> names = {"coordinator",   "worker0",        "worker1", "worker0/conv1",
                                                   "worker1/relu1", "worker0/loader", "shard0"};
    r.node = "n" + std::to_string(below(3));
    r.what.name = names[below(names.size())];
    r.what.status.waits = static_cast<wait_kind>(below(wait_kinds));
    r.what.status.waits_for = r.what.status.waits == wait_kind::none ? "" : "something";
    r.what.age_seconds = static_cast<double>(below(30)) / 10;
    r.what.task.serial = below(3);
    r.what.task.kind = "forward";
  }
  return v;
}

TEST(page_delta, applied_to_the_former_state_gives_the_new_one_for_random_views) {
  std::mt19937_64 g(7);
  auto shown = page_state(random_view(g), page_role::observer);
  for (int i = 0; i < 2000; ++i) {
    const auto next = page_state(random_view(g), page_role::observer);
    ASSERT_FALSE(has_null(next));
    const auto patch = delta_of(shown, next);
    EXPECT_EQ(patch.empty(), shown == next);
    shown.merge_patch(json::parse(patch.dump()));
    ASSERT_EQ(shown, next);
  }
}

TEST(page_delta, has_only_what_changed) {
  const json a = {{"x", 1}, {"y", {{"p", 1}, {"q", {1, 2}}}}, {"z", {{"k", 1}}}};
  const json b = {{"x", 1}, {"y", {{"p", 2}, {"q", {1, 2}}}}, {"w", {{"n", json::object()}}}};
  EXPECT_EQ(delta_of(a, b), (json{{"y", {{"p", 2}}}, {"z", nullptr}, {"w", {{"n", json::object()}}}}));
  EXPECT_EQ(delta_of(a, a), json::object());
}

// --- pages

struct fake_socket final : http::socket {
  std::vector<json> sent;
  std::size_t waits = 0, bytes = 0;  // waits: bytes that its client has not taken
  bool open = true;
  void send(std::shared_ptr<const std::string> text) override {
    bytes += text->size();
    sent.push_back(json::parse(*text));
  }
  std::size_t queued() const override { return waits; }
  void close() override { open = false; }
};

class page_feed_test : public ::testing::Test {
 protected:
  std::shared_ptr<fake_socket> opened() {
    auto s = std::make_shared<fake_socket>();
    feed_.opened(s);
    return s;
  }
  void put_step(std::uint64_t step) { backend_.said.put(2, {step, step_event{0.5, 0.1, 100, 0.1}}); }
  // The state that a page shows after its messages.
  static json shown(const fake_socket& s) {
    json state;
    for (const auto& m : s.sent) {
      if (m["t"] == "state") state = m["state"];
      if (m["t"] == "patch") state.merge_patch(m["patch"]);
    }
    return state;
  }
  fake_backend backend_;
  page_feed feed_{backend_, page_role::operates};
};

TEST_F(page_feed_test, sends_the_state_then_what_changed_then_nothing) {
  const auto s = opened();
  feed_.send_news();
  ASSERT_EQ(s->sent.size(), 1u);
  EXPECT_EQ(s->sent[0]["t"], "state");
  backend_.v.jobs[1].step = 5;
  feed_.send_news();
  ASSERT_EQ(s->sent.size(), 2u);
  EXPECT_EQ(s->sent[1], (json{{"t", "patch"}, {"patch", {{"jobs", {{"2", {{"step", 5}, {"epoch", 0.1}}}}}}}}));
  feed_.send_news();
  EXPECT_EQ(s->sent.size(), 2u);
}

TEST_F(page_feed_test, shows_when_certificates_expire) {
  feed_.show_expiries({{"node", 2'000'000'000}});
  const auto s = opened();
  feed_.send_news();
  EXPECT_EQ(shown(*s)["about"]["certificates"], (json{{"node", 2'000'000'000}}));
  feed_.show_expiries({{"node", 2'000'000'000}, {"CA", 2'100'000'000}});
  feed_.send_news();
  EXPECT_EQ(s->sent.back()["patch"], (json{{"about", {{"certificates", {{"CA", 2'100'000'000}}}}}}));
}

TEST_F(page_feed_test, sends_events_once_with_job_and_number) {
  put_step(1);
  const auto s = opened();
  feed_.send_news();
  backend_.said.put(2, {1, eval_event{0.75, {}, 0.4}});
  backend_.said.put(2, {1, histogram_event{}});
  feed_.send_news();
  feed_.send_news();
  ASSERT_EQ(s->sent.size(), 3u);
  EXPECT_EQ(s->sent[1]["events"][0]["event"], "step");
  ASSERT_EQ(s->sent[2]["events"].size(), 1u);
  EXPECT_EQ(s->sent[2]["events"][0]["accuracy"], 0.75);
  EXPECT_EQ(s->sent[2]["events"][0]["job"], 2);
  EXPECT_EQ(s->sent[2]["events"][0]["n"], 2);
}

TEST_F(page_feed_test, of_many_steps_it_sends_some_and_the_last) {
  for (std::uint64_t i = 1; i <= 500; ++i) put_step(i);
  const auto s = opened();
  feed_.send_news();
  const auto& events = s->sent[1]["events"];
  EXPECT_LE(events.size(), page_feed::max_steps_at_once + 1);
  EXPECT_GE(events.size(), page_feed::max_steps_at_once / 2);
  EXPECT_EQ(events.back()["step"], 500);
}

TEST_F(page_feed_test, a_slow_page_misses_states_in_between_and_costs_no_memory) {
  const auto slow = opened(), quick = opened();
  feed_.send_news();
  const auto before = slow->bytes;
  slow->waits = 100;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    backend_.v.jobs[1].step = i;
    put_step(i);
    feed_.send_news();
  }
  EXPECT_EQ(slow->bytes, before) << "nothing is queued for it";
  EXPECT_EQ(quick->sent.size(), 2001u);
  slow->waits = 0;
  feed_.send_news();
  EXPECT_EQ(shown(*slow), shown(*quick));
  EXPECT_LT(slow->bytes - before, 40'000u);
  EXPECT_EQ(slow->sent.back()["events"].back()["step"], 1000);
}

TEST_F(page_feed_test, a_line_gets_its_reply) {
  const auto s = opened();
  feed_.received(s, R"({"id":7,"line":"jobs"})");
  ASSERT_EQ(s->sent.size(), 1u);
  EXPECT_EQ(s->sent[0]["id"], 7);
  EXPECT_EQ(s->sent[0]["how"], "ok");
  EXPECT_EQ(s->sent[0]["more"], false);
  feed_.received(s, R"({"id":8,"line":"jobs","json":true})");
  EXPECT_EQ(json::parse(s->sent[1]["text"].get<std::string>())["command"], "jobs");
  feed_.received(s, R"({"id":9,"line":"dance"})");
  EXPECT_EQ(s->sent[2]["how"], "usage");
}

TEST_F(page_feed_test, a_command_is_answered_when_its_event_has_come) {
  const auto s = opened();
  feed_.received(s, R"({"id":1,"line":"pause 2"})");
  ASSERT_EQ(backend_.announced.size(), 1u);
  EXPECT_TRUE(backend_.announced[0].second.is<pause_command>());
  feed_.answer_lines();
  EXPECT_TRUE(s->sent.empty());
  backend_.said.put(2, {12, paused_event{}, answers_to(backend_.announced[0].second.id)});
  feed_.answer_lines();
  ASSERT_EQ(s->sent.size(), 1u);
  EXPECT_EQ(s->sent[0], (json{{"t", "reply"}, {"id", 1}, {"how", "ok"}, {"text", "job 2 paused at step 12"}, {"more", false}}));
}

TEST_F(page_feed_test, waiting_lines_are_limited_and_can_be_dropped) {
  const auto s = opened();
  for (std::size_t i = 0; i <= page_feed::max_lines; ++i) feed_.received(s, json{{"id", i}, {"line", "pause 2"}}.dump());
  ASSERT_EQ(s->sent.size(), 1u);
  EXPECT_EQ(s->sent[0]["how"], "usage");
  feed_.received(s, R"({"cancel":0})");
  feed_.received(s, R"({"id":99,"line":"pause 2"})");
  EXPECT_EQ(s->sent.size(), 1u);
}

TEST_F(page_feed_test, jobs_are_not_submitted_and_nothing_is_watched_for_ever) {
  const auto s = opened();
  for (const char* line : {"submit /etc/passwd", "  submit x", "watch loss", "watch"})
    feed_.received(s, json{{"id", 1}, {"line", line}}.dump());
  ASSERT_EQ(s->sent.size(), 4u);
  for (const auto& m : s->sent) EXPECT_EQ(m["how"], "usage") << m;
  EXPECT_TRUE(backend_.submitted.empty());
}

TEST_F(page_feed_test, a_page_that_sends_anything_else_is_closed) {
  for (const char* text :
       {"", "1", "[]", "{}", R"({"id":1})", R"({"line":"jobs"})", R"({"id":-1,"line":"jobs"})", R"({"id":1,"line":2})",
        R"({"id":1,"line":"jobs","json":1})", R"({"cancel":"a"})", "{\"id\":1,\"line\":\"jobs\"}x"}) {
    const auto s = opened();
    feed_.received(s, text);
    EXPECT_FALSE(s->open) << text;
    feed_.closed(s);
  }
  EXPECT_EQ(feed_.pages(), 0u);
}

TEST(page_rights, an_observer_reads_no_weights_on_any_route) {
  fake_backend inner;
  for (std::uint8_t r = 0; r < job_route_count; ++r) {
    const auto by = job_route{r};
    const bool values = !check_read({"eve", certificate_role::watch}, by);
    EXPECT_EQ(page_backend(inner, page_role::observer).check_read(by, 2).has_value(), !values) << int{r};
    for (const auto role : {page_role::operates, page_role::admin})
      EXPECT_TRUE(page_backend(inner, role).check_read(by, 2)) << int{r};
  }
  EXPECT_FALSE(page_backend(inner, page_role::observer).tell(2, {histograms_command{}}));
  EXPECT_TRUE(inner.announced.empty());
  inner.unreadable = job_route::histograms;
  EXPECT_FALSE(page_backend(inner, page_role::admin).check_read(job_route::histograms, 2)) << "the backend decides too";
}

TEST(page_rights, a_role_may_do_what_it_says) {
  fake_backend inner;
  const auto how = [&](page_role role, const std::string& line) {
    page_feed feed(inner, role);
    const auto s = std::make_shared<fake_socket>();
    feed.opened(s);
    feed.received(s, json{{"id", 1}, {"line", line}}.dump());
    return s->sent.empty() ? std::string("waits") : s->sent[0]["how"].get<std::string>();
  };
  using enum page_role;
  for (const auto role : {observer, operates, admin}) {
    EXPECT_EQ(how(role, "jobs"), "ok");
    EXPECT_EQ(how(role, "staleness 2"), "waits") << "a query";
  }
  EXPECT_TRUE(std::all_of(inner.announced.begin(), inner.announced.end(),
                          [](const auto& a) { return a.second.template is<staleness_command>(); }));
  for (const char* line : {"pause 2", "stop 2", "set train.dynamics.lr 1 2", "mode ssp 2", "move conv1 n1 2", "kill 2"}) {
    EXPECT_EQ(how(observer, line), "failed") << line;
    EXPECT_EQ(how(operates, line), "waits") << line;
  }
  EXPECT_EQ(how(operates, "inject kill n2"), "failed");
  EXPECT_TRUE(inner.injected.empty());
  EXPECT_EQ(how(admin, "inject kill n2"), "ok");
  EXPECT_EQ(inner.injected.size(), 1u);
  EXPECT_FALSE(page_backend(inner, admin).submit({}));
  for (const auto role : {observer, operates, admin}) EXPECT_EQ(page_role_named(text_of(role)), role);
  EXPECT_FALSE(page_role_named("root"));
}

}  // namespace
}  // namespace troupe
