// The distribution of layers over nodes and the resulting edges: every row of SINGA's connection
// table (docs/partitioning.md; Wang et al. 2015, table 2), and Caffe con Troll's fractions (Hadjis
// et al. 2015).
#include "runtime/plan/partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/runtime/model/graph_fixture.hpp"

namespace troupe {
namespace {

using namespace graph_test;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::UnorderedElementsAre;

struct way {
  std::string partition;  // "batch" (SINGA's 0), "feature" (1) or "none"
  std::vector<std::string> place;
  std::vector<double> fraction = {};
};
const way zero{"batch", {"n1", "n2"}}, one{"feature", {"n1", "n2"}}, none{"none", {"n1"}};

layer_spec laid(layer_spec s, const way& w) {
  s.partition = w.partition;
  s.place = w.place;
  s.fraction = w.fraction;
  s.key_at["partition"] = {};
  return s;
}

struct planned_net {
  model_graph graph;
  job_plan plan;
  std::vector<std::string> edges(const std::string& from) const {
    std::vector<std::string> list;
    for (const auto& e : plan.edges) {
      if (e.what.layer < 0 || graph.layers[static_cast<std::size_t>(e.what.layer)].name != from) continue;
      const auto range = [](feature_range r) {
        return r.whole() ? std::string("all") : std::to_string(r.begin) + "-" + std::to_string(r.end);
      };
      const auto name = [&](role_id r) {
        return plan[r].name.substr(plan[r].name.find('/') + 1) + "@" + plan.nodes[plan[r].node].name;
      };
      list.push_back(name(e.from) + " > " + name(e.to) + " packets " + std::to_string(e.packets.first) + "+" +
                     std::to_string(e.packets.count) + " features " + range(e.region) + " of " + range(e.need) +
                     (e.grad_back ? ", back" : "") + (e.addend ? ", addend" : ""));
    }
    return list;
  }
};

planned_net plan_of_net(const job_spec& j, const std::vector<node_spec>& nodes) {
  layer_registry all;
  add_stock_layers(all);
  planned_net p;
  auto g = build_graph(j, all, {shape{5}, 4});
  if (!g) ADD_FAILURE() << ::testing::PrintToString(texts(g.error()));
  p.graph = *std::move(g);
  auto r = make_plan(j, p.graph, nodes);
  if (!r) ADD_FAILURE() << ::testing::PrintToString(texts(r.error()));
  p.plan = *std::move(r);
  return p;
}

// The edges a (12 features, 4 packets a step) -> b. b reads the matching part of its input (relu)
// or all of it (linear).
std::vector<std::string> edges_between(const way& producer, const way& consumer, const std::string& type = "relu") {
  static job_spec j;  // outlives the graph
  auto b = type == "relu" ? spec("b", "relu", {"a"}) : linear("b", "a", 8);
  j = job_of({laid(linear("a", "data", 12), producer), laid(std::move(b), consumer), laid(linear("score", "b", 4), none),
              laid(spec("loss", "softmax_loss", {"score", "label"}), none)});
  return plan_of_net(j, nodes_named({"n1", "n2"})).edges("a");
}

TEST(singa_connections, batch_to_batch_and_feature_to_feature_are_one_to_one) {
  EXPECT_THAT(edges_between(zero, zero), ElementsAre("a.0@n1 > b.0@n1 packets 0+2 features all of all, back",
                                                     "a.1@n2 > b.1@n2 packets 2+2 features all of all, back"));
  EXPECT_THAT(edges_between(one, one), ElementsAre("a.0@n1 > b.0@n1 packets 0+4 features 0-6 of 0-6, back",
                                                   "a.1@n2 > b.1@n2 packets 0+4 features 6-12 of 6-12, back"));
}

TEST(singa_connections, batch_to_feature_slices_and_concatenates) {
  EXPECT_THAT(edges_between(zero, one), ElementsAre("a.0@n1 > b.0@n1 packets 0+2 features 0-6 of 0-6, back",
                                                    "a.1@n2 > b.0@n1 packets 2+2 features 0-6 of 0-6, back",
                                                    "a.0@n1 > b.1@n2 packets 0+2 features 6-12 of 6-12, back",
                                                    "a.1@n2 > b.1@n2 packets 2+2 features 6-12 of 6-12, back"));
}

TEST(singa_connections, feature_to_batch_slices_and_concatenates) {
  EXPECT_THAT(edges_between(one, zero), ElementsAre("a.0@n1 > b.0@n1 packets 0+2 features 0-6 of all, back",
                                                    "a.1@n2 > b.0@n1 packets 0+2 features 6-12 of all, back",
                                                    "a.0@n1 > b.1@n2 packets 2+2 features 0-6 of all, back",
                                                    "a.1@n2 > b.1@n2 packets 2+2 features 6-12 of all, back"));
}

// A layer that is split by feature but reads all of its input (SINGA's inner product).
TEST(singa_connections, reader_of_the_whole_input_receives_all_of_it) {
  EXPECT_THAT(edges_between(zero, one, "linear"), ElementsAre("a.0@n1 > b.0@n1 packets 0+2 features all of all, back",
                                                              "a.1@n2 > b.0@n1 packets 2+2 features all of all, back",
                                                              "a.0@n1 > b.1@n2 packets 0+2 features all of all, back",
                                                              "a.1@n2 > b.1@n2 packets 2+2 features all of all, back"));
  EXPECT_THAT(edges_between(one, one, "linear"), ElementsAre("a.0@n1 > b.0@n1 packets 0+4 features 0-6 of all, back",
                                                             "a.1@n2 > b.0@n1 packets 0+4 features 6-12 of all, back",
                                                             "a.0@n1 > b.1@n2 packets 0+4 features 0-6 of all, back",
                                                             "a.1@n2 > b.1@n2 packets 0+4 features 6-12 of all, back"));
}

TEST(singa_connections, undivided_layers_are_sliced_for_and_gathered_from_split_ones) {
  EXPECT_THAT(edges_between(none, none), ElementsAre("a@n1 > b@n1 packets 0+4 features all of all, back"));
  EXPECT_THAT(edges_between(none, zero), ElementsAre("a@n1 > b.0@n1 packets 0+2 features all of all, back",
                                                     "a@n1 > b.1@n2 packets 2+2 features all of all, back"));
  EXPECT_THAT(edges_between(none, one), ElementsAre("a@n1 > b.0@n1 packets 0+4 features 0-6 of 0-6, back",
                                                    "a@n1 > b.1@n2 packets 0+4 features 6-12 of 6-12, back"));
  EXPECT_THAT(edges_between(none, one, "linear"), ElementsAre("a@n1 > b.0@n1 packets 0+4 features all of all, back",
                                                              "a@n1 > b.1@n2 packets 0+4 features all of all, back"));
  EXPECT_THAT(edges_between(zero, none), ElementsAre("a.0@n1 > b@n1 packets 0+2 features all of all, back",
                                                     "a.1@n2 > b@n1 packets 2+2 features all of all, back"));
  EXPECT_THAT(edges_between(one, none), ElementsAre("a.0@n1 > b@n1 packets 0+4 features 0-6 of all, back",
                                                    "a.1@n2 > b@n1 packets 0+4 features 6-12 of all, back"));
}

TEST(singa_connections, producer_and_consumer_may_have_different_shares) {
  EXPECT_THAT(edges_between({"feature", {"n1", "n2"}, {0.75, 0.25}}, {"feature", {"n2", "n1"}, {0.5, 0.5}}),
              UnorderedElementsAre("a.0@n1 > b.0@n2 packets 0+4 features 0-6 of 0-6, back",
                                   "a.0@n1 > b.1@n1 packets 0+4 features 6-9 of 6-12, back",
                                   "a.1@n2 > b.1@n1 packets 0+4 features 9-12 of 6-12, back"));
  EXPECT_THAT(edges_between({"batch", {"n1", "n2"}, {0.75, 0.25}}, {"batch", {"n2", "n1"}, {0.5, 0.5}}),
              UnorderedElementsAre("a.0@n1 > b.0@n2 packets 0+2 features all of all, back",
                                   "a.0@n1 > b.1@n1 packets 2+1 features all of all, back",
                                   "a.1@n2 > b.1@n1 packets 3+1 features all of all, back"));
}

const way addends{"input", {"n1", "n2"}, {0.75, 0.25}};

// Not in SINGA's table: outputs that are partial sums. Every reader receives each addend of what it
// reads, in the order of the parts.
TEST(partial_outputs, are_sent_from_every_part_to_every_reader) {
  EXPECT_THAT(edges_between(addends, none), ElementsAre("a.0@n1 > b@n1 packets 0+4 features all of all, back, addend",
                                                        "a.1@n2 > b@n1 packets 0+4 features all of all, back, addend"));
  EXPECT_THAT(edges_between(addends, one), ElementsAre("a.0@n1 > b.0@n1 packets 0+4 features 0-6 of 0-6, back, addend",
                                                       "a.1@n2 > b.0@n1 packets 0+4 features 0-6 of 0-6, back, addend",
                                                       "a.0@n1 > b.1@n2 packets 0+4 features 6-12 of 6-12, back, addend",
                                                       "a.1@n2 > b.1@n2 packets 0+4 features 6-12 of 6-12, back, addend"));
  EXPECT_THAT(edges_between(addends, zero), ElementsAre("a.0@n1 > b.0@n1 packets 0+2 features all of all, back, addend",
                                                        "a.1@n2 > b.0@n1 packets 0+2 features all of all, back, addend",
                                                        "a.0@n1 > b.1@n2 packets 2+2 features all of all, back, addend",
                                                        "a.1@n2 > b.1@n2 packets 2+2 features all of all, back, addend"));
}

// The input is read as by a layer that is split by feature: each part receives only its slice.
TEST(partial_outputs, read_slices_of_their_input) {
  EXPECT_THAT(edges_between(one, addends, "linear"), ElementsAre("a.0@n1 > b.0@n1 packets 0+4 features 0-6 of 0-9, back",
                                                                 "a.1@n2 > b.0@n1 packets 0+4 features 6-9 of 0-9, back",
                                                                 "a.1@n2 > b.1@n2 packets 0+4 features 9-12 of 9-12, back"));
  EXPECT_THAT(edges_between(addends, addends, "linear"),
              ElementsAre("a.0@n1 > b.0@n1 packets 0+4 features 0-9 of 0-9, back, addend",
                          "a.1@n2 > b.0@n1 packets 0+4 features 0-9 of 0-9, back, addend",
                          "a.0@n1 > b.1@n2 packets 0+4 features 9-12 of 9-12, back, addend",
                          "a.1@n2 > b.1@n2 packets 0+4 features 9-12 of 9-12, back, addend"));
}

// Each part has its columns of the weight, on a shard of its node; what is added once (the bias)
// belongs to the first part only.
TEST(partial_outputs, have_columns_of_the_weight_and_one_bias) {
  static job_spec j;
  j = job_of({laid(linear("a", "data", 12), none), laid(linear("b", "a", 8), addends), laid(linear("score", "b", 4), none),
              laid(spec("loss", "softmax_loss", {"score", "label"}), none)});
  const auto p = plan_of_net(j, nodes_named({"n1", "n2"}));
  std::vector<std::string> got;
  for (const auto& b : p.plan.blocks)
    if (const auto& q = p.graph.params[b.param]; q.full_name.starts_with("b."))
      got.push_back(q.full_name + " " + std::to_string(b.begin) + "+" + std::to_string(b.count) + " runs " + std::to_string(b.run) +
                    " of " + std::to_string(b.stride) + " at " + p.plan.nodes[p.plan[b.shard].node].name);
  EXPECT_THAT(got,
              ElementsAre("b.weight 0+72 runs 9 of 12 at n1", "b.weight 9+24 runs 3 of 12 at n2", "b.bias 0+8 runs 0 of 0 at n1"));
  for (const auto& r : p.plan.roles) {
    if (r.kind != role_kind::stage || p.graph.layers[r.layers[0]].name != "b") continue;
    const auto first = r.packets.count > 0 && r.parts[0]->inputs.begin == 0;
    EXPECT_EQ(r.parts[0]->as.params.size(), first ? 2u : 1u);
    EXPECT_EQ(r.parts[0]->as.maths->params(r.parts[0]->as.in).size(), first ? 2u : 1u);
    EXPECT_EQ(r.parts[0]->params[0], (shape{8, first ? 9 : 3}));
    EXPECT_EQ(r.parts[0]->as.out[0], (shape{2, 8}));
  }
}

// For any two assignments, a consumer receives each feature of each of its packets exactly once.
TEST(singa_connections, every_packet_and_feature_arrives_once) {
  const std::vector<way> ways{
      zero, one, none, {"feature", {"n1", "n2", "n1"}, {0.5, 0.25, 0.25}}, {"batch", {"n2", "n1", "n2"}, {0.5, 0.25, 0.25}}};
  for (const auto& from : ways)
    for (const auto& to : ways)
      for (const char* type : {"relu", "linear"}) {
        SCOPED_TRACE(from.partition + " to " + to.partition + " " + type);
        auto b = type == std::string("relu") ? spec("b", "relu", {"a"}) : linear("b", "a", 8);
        const auto j = job_of({laid(linear("a", "data", 12), from), laid(std::move(b), to), laid(linear("score", "b", 4), none),
                               laid(spec("loss", "softmax_loss", {"score", "label"}), none)});
        const auto p = plan_of_net(j, nodes_named({"n1", "n2"}));
        for (const auto& r : p.plan.roles) {
          if (r.kind != role_kind::stage || p.graph.layers[r.layers[0]].name != "b") continue;
          std::vector<std::vector<int>> got(4, std::vector<int>(12, 0));
          feature_range need;
          for (auto i : r.in_edges) {
            const auto& e = p.plan.edges[i];
            need = e.need;
            const auto region = e.region.whole() ? feature_range{0, 12} : e.region;
            for (auto k = e.packets.first; k < e.packets.first + e.packets.count; ++k)
              for (auto f = region.begin; f < region.end; ++f) ++got[k][static_cast<std::size_t>(f)];
          }
          if (need.whole()) need = {0, 12};
          for (std::uint32_t k = 0; k < 4; ++k)
            for (std::int64_t f = 0; f < 12; ++f)
              EXPECT_EQ(got[k][static_cast<std::size_t>(f)], r.packets.has(k) && f >= need.begin && f < need.end ? 1 : 0);
        }
      }
}

std::vector<double> con_troll() {
  std::vector<double> f(17, 0.4 / 16);
  f[0] = 0.6;
  return f;
}

TEST(fractions, con_trolls_batch_of_256_is_160_and_sixteen_times_6) {
  auto want = std::vector<std::int64_t>(17, 6);
  want[0] = 160;
  EXPECT_EQ(share_out(256, con_troll()), want);
  EXPECT_EQ(std::accumulate(want.begin(), want.end(), std::int64_t{0}), 256);
}

TEST(fractions, con_trolls_split_is_planned_over_seventeen_places) {
  std::vector<std::string> names;
  for (int i = 0; i < 17; ++i) names.push_back("n" + std::to_string(i));
  auto j = job_of({laid(linear("a", "data", 12), {"batch", names, con_troll()}), laid(linear("score", "a", 4), none),
                   laid(spec("loss", "softmax_loss", {"score", "label"}), none)},
                  256, 256);
  for (auto& l : j.layers)
    if (l.name != "a") l.place = {"n0"};
  const auto p = plan_of_net(j, nodes_named(names));
  std::vector<std::pair<std::uint32_t, std::uint32_t>> got, want{{0, 160}};
  for (std::uint32_t i = 0; i < 16; ++i) want.emplace_back(160 + 6 * i, 6);
  for (const auto& r : p.plan.roles)
    if (r.kind == role_kind::stage && p.graph.layers[r.layers[0]].name == "a") got.emplace_back(r.packets.first, r.packets.count);
  EXPECT_THAT(got, ElementsAreArray(want));
  EXPECT_EQ(p.edges("a").size(), 17u) << "each part sends the loss its own packets";
}

TEST(fractions, of_a_layer_with_places_make_stages_of_their_own_when_the_workers_are_there_too) {
  auto j = job_of({laid(linear("a", "data", 12), {"batch", {"n1", "n2"}, {0.5, 0.5}}), linear("score", "a", 4),
                   spec("loss", "softmax_loss", {"score", "label"})});
  j.topology.workers_per_group = 2;
  const auto p = plan_of_net(j, nodes_named({"n1", "n2"}));
  EXPECT_TRUE(p.plan.placed);
}

TEST(fractions, of_a_colocated_layer_set_the_packets_of_the_workers) {
  auto a = linear("a", "data", 12);
  a.fraction = {0.75, 0.25};
  auto j = job_of({a, linear("score", "a", 4), spec("loss", "softmax_loss", {"score", "label"})});
  j.topology.workers_per_group = 2;
  const auto p = plan_of_net(j, nodes_named({"n1", "n2"}));
  EXPECT_FALSE(p.plan.placed) << "the other layers follow the workers' packets";
  EXPECT_EQ(p.plan.ranges[0], (packet_range{0, 3}));
  EXPECT_EQ(p.plan.ranges[1], (packet_range{3, 1}));
}

}  // namespace
}  // namespace troupe
