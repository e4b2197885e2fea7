// Every kind of role has a complete entry: name, list of roles in a plan, tasks, and construction.
#include "runtime/plan/role_kinds.hpp"

#include <set>

#include "runtime/cost/plan_memory.hpp"
#include "runtime/sim/world.hpp"
#include "tests/sim/small_job.hpp"

namespace troupe::testing {
namespace {

// Returns a job whose plan has roles of all kinds.
std::shared_ptr<prepared_job> job_of_all_kinds() {
  auto spec = small_spec({.packets = 4, .workers = 2});
  spec.data.sampler = {"served", checked({}, shared_tables()->samplers.find("served")->specs), {}};
  spec.train.reducer = "tree";
  spec.train.reducer_values.values["arity"] = std::int64_t{2};
  spec.topology.replicas = 2;
  auto made = prepare_job(spec, shared_tables(), nodes_named(2));
  if (!made) {
    for (const auto& d : made.error()) ADD_FAILURE() << d.to_string();
    return nullptr;
  }
  return *made;
}

TEST(role_kinds, every_entry_has_a_unique_name_and_is_complete) {
  std::set<std::string> names;
  for (const auto& row : role_table()) {
    ASSERT_TRUE(row.name && *row.name);
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " occurs twice";
    EXPECT_EQ(row.name, name_of(row.kind));
    EXPECT_EQ(&traits_of(row.kind), &row);
    EXPECT_TRUE(row.listed) << row.name;
    EXPECT_FALSE(row.does.loads && row.does.hosts_layers) << row.name << ": a role either loads packets or receives them";
  }
}

TEST(role_kinds, every_role_of_a_plan_is_listed_once_by_its_entry) {
  const auto j = job_of_all_kinds();
  ASSERT_TRUE(j);
  std::vector<int> seen(j->plan.roles.size(), 0);
  for (const auto& row : role_table()) {
    const auto list = row.listed(j->plan);
    EXPECT_FALSE(list.empty()) << row.name << ": the plan of this test has none";
    for (auto r : list) {
      ASSERT_LT(index_of(r), seen.size()) << row.name;
      ++seen[index_of(r)];
      EXPECT_EQ(j->plan[r].kind, row.kind) << j->plan[r].name;
    }
    EXPECT_TRUE(row.listed(job_plan{}).empty()) << row.name;
  }
  for (const auto& r : j->plan.roles) EXPECT_EQ(seen[index_of(r.id)], 1) << r.name;
}

TEST(role_kinds, every_kind_can_be_made) {
  const auto j = job_of_all_kinds();
  ASSERT_TRUE(j);
  for (const auto& r : j->plan.roles) EXPECT_TRUE(make_role(j, r.id)) << r.name;
}

// The plan gives a role only layers, edges, blocks and sums that its entry declares.
TEST(role_kinds, roles_of_a_plan_match_their_entries) {
  const auto j = job_of_all_kinds();
  ASSERT_TRUE(j);
  const auto& p = j->plan;
  const auto memory = memory_of(p, j->graph, j->spec);
  for (const auto& r : p.roles) {
    const auto& does = r.does();
    EXPECT_EQ(!r.layers.empty(), does.hosts_layers) << r.name;
    EXPECT_EQ(!r.in_edges.empty(), does.hosts_layers) << r.name;
    EXPECT_TRUE(r.out_edges.empty() || does.loads || does.hosts_layers) << r.name;
    EXPECT_FALSE(does.loads && r.out_edges.empty()) << r.name;
    EXPECT_EQ(std::any_of(p.blocks.begin(), p.blocks.end(), [&](const auto& b) { return b.shard == r.id; }), does.owns_parameters)
        << r.name;
    EXPECT_EQ(memory.roles[index_of(r.id)].gradients > 0, does.adds != role_sums::none) << r.name;
  }
}

// A role that says what it waits for says the kind too, at every moment of a run.
TEST(role_kinds, waits_have_a_kind_and_a_text_or_neither) {
  const auto j = job_of_all_kinds();
  ASSERT_TRUE(j);
  sim::world w({});
  bool over = false;
  w.on_event = [&](const event_effect& e) { over = over || e.is<done_event>() || e.is<error_event>(); };
  for (const auto& r : j->plan.roles) w.add(r.id, r.node, make_role(j, r.id));
  envelope go;
  go.h.dst = role_id{0};
  go.body = start{};
  w.inject(std::move(go));
  std::set<wait_kind> seen;
  for (int events = 0; events < 3000 && !over && w.step(); ++events)
    for (const auto& r : j->plan.roles) {
      const auto* role = w.find(r.id);
      if (!role) continue;
      const auto s = role->status();
      ASSERT_EQ(s.waits_for.empty(), s.waits == wait_kind::none) << r.name << ": '" << s.waits_for << "'";
      seen.insert(s.waits);
    }
  for (const auto k : {wait_kind::data, wait_kind::weights, wait_kind::gradients, wait_kind::grant, wait_kind::answers})
    EXPECT_TRUE(seen.contains(k)) << "kind " << static_cast<int>(k);
}

}  // namespace
}  // namespace troupe::testing
