// Invariant of partitions: for any placement and split of layers, by packets or by features, and
// any order of delivery, the weights equal those of the whole net in a plain loop: bit for bit if
// only packets are split (no sum changes its order), else to rounding.
#include <cmath>
#include <map>

#include "runtime/model/maths_steps.hpp"
#include "runtime/plain/plain_loop.hpp"
#include "runtime/plan/plan_check.hpp"
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

std::vector<double> values_of(const tensor& t) {
  std::vector<double> v(static_cast<std::size_t>(t.count()));
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = t.type() == dtype::f64 ? t.data<double>()[i] : static_cast<double>(t.data<float>()[i]);
  return v;
}

// Returns the largest difference divided by the largest value, by tensor. The gradient of some
// parameters is only rounding (a bias before batch_norm, which begins at 0): the divisor is at
// least 1e-3.
double difference(const std::vector<std::pair<std::string, tensor>>& a, const std::vector<std::pair<std::string, tensor>>& b) {
  double worst = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const auto x = values_of(a[i].second), y = values_of(b[i].second);
    double most = 1e-3, off = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      most = std::max(most, std::abs(x[k]));
      off = std::max(off, std::abs(x[k] - y[k]));
    }
    worst = std::max(worst, off / most);
  }
  return worst;
}

std::string described(const job_spec& j) {
  std::string s;
  for (const auto& l : j.layers) {
    s += l.name + " " + l.type + "(";
    for (const auto& i : l.inputs) s += i + " ";
    s += ") " + l.partition;
    for (const auto& p : l.place) s += " " + p;
    for (auto f : l.fraction) s += " " + std::to_string(f);
    if (l.recompute) s += " recompute";
    if (l.gather) s += " gather";
    if (!l.share.empty()) s += " share " + l.share;
    s += "\n";
  }
  return s + std::to_string(j.topology.workers_per_group) + " workers, " + std::to_string(j.pipeline.packets) + " packets, " +
         std::to_string(j.pipeline.sub_solvers) + " sub-solvers, fuse " + j.pipeline.fuse;
}

// Counts the groups of layers that stages compute as one.
int as_one(const prepared_job& j) {
  int n = 0;
  for (const auto& stages : j.plan.stages)
    for (auto s : stages) {
      std::vector<const graph_layer*> here;
      for (auto l : j.plan[s].layers) here.push_back(&j.graph.layers[l]);
      for (const auto& step : maths_steps(j.graph, here, j.plan.fuse_layers)) n += step.at.size() > 1 ? 1 : 0;
    }
  return n;
}

using counts = std::map<std::string, int>;

// A net, whole and cut into parts.
struct pair_of_jobs {
  job_spec whole, cut;
  std::uint32_t nodes = 1;
  bool feature = false;  // a layer is split by feature
  bool gathers = false;
};
pair_of_jobs drawn_pair(std::uint64_t seed, const std::string& precision) {
  random_net net(seed);
  pair_of_jobs p;
  p.whole = net.job();
  if (!precision.empty()) p.whole.precision = precision;
  for (auto& l : p.whole.layers)
    if (precision == "bf16") l.share.clear();
  p.cut = p.whole;
  // Fusing layers must not change a bit: half of the jobs fuse in the parts, half in the whole.
  (net.chance(0.5) ? p.whole : p.cut).pipeline.fuse_layers = false;
  p.nodes = static_cast<std::uint32_t>(net.draw(1, 4));
  net.place(p.cut, p.nodes, p.feature);
  if (seed % 3 == 0) net.recompute(p.cut, 0.4);
  p.gathers = seed % 5 < 2 && net.gather(p.cut, 0.6);
  return p;
}

// Duplicates some of the messages between roles.
int copies(const envelope& e, sim::random& r) {
  const bool doubled = std::holds_alternative<forward>(e.body) || std::holds_alternative<backward>(e.body) ||
                       std::holds_alternative<credit>(e.body) || std::holds_alternative<gradient>(e.body) ||
                       std::holds_alternative<push>(e.body) || std::holds_alternative<weights>(e.body) ||
                       std::holds_alternative<layer_weights>(e.body) || std::holds_alternative<report>(e.body);
  return doubled && r.chance(0.3) ? 2 : 1;
}

void count_kinds(const pair_of_jobs& p, const prepared_job& j, counts& drawn, counts& kinds) {
  kinds["gathered"] += p.gathers ? 1 : 0;
  for (const auto& l : p.cut.layers) {
    ++drawn[l.type];
    kinds["shared"] += l.share.empty() ? 0 : 1;
  }
  kinds["computed as one"] += as_one(j);
  ++kinds[p.feature ? "feature" : j.plan.placed ? "placed" : "colocated"];
  const auto& edges = j.plan.edges;
  kinds["input"] += std::any_of(edges.begin(), edges.end(), [](const auto& e) { return e.addend; }) ? 1 : 0;
}

void compare_weights(const pair_of_jobs& p, const std::shared_ptr<prepared_job>& j, std::uint64_t seed,
                     const std::shared_ptr<device>& dev, counts& kinds) {
  sim::world_config c;
  c.seed = seed;
  c.dev = dev.get();
  // With every other seed some messages are duplicated.
  const auto got = run_in_world(j, c, seed % 2 == 0 ? copies : std::function<int(const envelope&, sim::random&)>{});
  ASSERT_TRUE(got.done && !got.weights.empty()) << (got.events.empty() ? "" : message_of(got.events.back()));
  auto alone = prepare_job(p.whole, shared_tables(), nodes_named(1));
  plain_loop loop(*alone, dev);
  while (loop.steps() < static_cast<std::uint64_t>(*p.whole.train.finish.steps)) loop.step();
  const auto off = difference(loop.weights(), got.weights);
  // A normalisation divides by deviations, which may be small and then amplify rounding errors.
  const auto& layers = p.whole.layers;
  const bool normal = std::any_of(layers.begin(), layers.end(), [](const auto& l) { return l.type.ends_with("_norm"); });
  // In bf16 a few sums fall on the other side of a maximum, a margin or zero; these are counted.
  const auto& precision = p.whole.precision;
  const double most = (normal ? 3 : 1) * (precision == "f64" ? 1e-12 : precision == "bf16" ? 1e-2 : 1e-5);
  kinds["flips"] += p.feature && off >= most ? 1 : 0;
  if (p.feature)
    ASSERT_LT(off, precision == "bf16" ? 0.3 : most);
  else
    ASSERT_EQ(off, 0.0);
}

// `precision`: of all jobs; empty: as drawn. `drawn`, `kinds`: counts of layers and features that
// occurred.
void compare_partitions(const std::string& precision, std::uint64_t runs, counts& drawn, counts& kinds) {
  const std::shared_ptr<device> dev = make_cpu_device();
  std::uint64_t ran = 0;
  for (std::uint64_t seed = 1; ran < runs; ++seed) {
    const auto p = drawn_pair(seed, precision);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + described(p.cut));
    auto made = prepare_job(p.cut, shared_tables(), nodes_named(p.nodes));
    if (!made) {
      const auto& why = made.error().front().message;
      const bool meant =
          why.find("gets none of") != std::string::npos || (p.gathers && why.find("gather = true") != std::string::npos);
      ASSERT_TRUE(meant) << why;
      continue;  // refused: more parts than features or packets, or gather is impossible
    }
    ++ran;
    const auto j = *made;
    for (const auto& f : check_plan(j->plan, j->graph)) FAIL() << f.text;
    count_kinds(p, *j, drawn, kinds);
    ASSERT_NO_FATAL_FAILURE(compare_weights(p, j, seed, dev, kinds));
  }
}

TEST(partition_laws, any_partition_of_any_net_gives_the_weights_of_the_whole_net) {
  counts drawn, kinds;
  for (const auto& name : shared_tables()->layers.names()) drawn[name] = 0;
  compare_partitions("", seeds(300), drawn, kinds);
  if (seeds(300) < 300) return;  // fewer seeds need not draw all kinds
  for (const auto& [type, times] : drawn) EXPECT_GT(times, 0) << "layer " << type << " was never drawn: add it to random_net";
  for (const char* kind : {"feature", "input", "placed", "colocated", "computed as one", "gathered", "shared"})
    EXPECT_GT(kinds[kind], 0) << kind;
}

// The same for bf16 activations, bit for bit if only packets are split. Sums over features have
// rounded addends: errors of about 2^-8 of a step.
TEST(partition_laws, any_partition_of_bf16_nets_gives_the_same_weights) {
  counts drawn, kinds;
  compare_partitions("bf16", seeds(100), drawn, kinds);
  for (const char* kind : {"feature", "placed", "colocated", "computed as one", "gathered"}) EXPECT_GT(kinds[kind], 0) << kind;
  EXPECT_LE(200 * kinds["flips"], static_cast<int>(seeds(100)));
}

// The coordinator checks the plan too: with an incomplete plan it starts no role.
TEST(partition_laws, coordinator_refuses_a_plan_with_unclaimed_packets) {
  const std::shared_ptr<device> dev = make_cpu_device();
  shape_of_job s;
  s.workers = 2;
  const auto j = prepare(s);
  for (auto& r : j->plan.roles)
    if (r.name == "worker1/pool1") r.packets.count = 1;
  sim::world_config c;
  c.dev = dev.get();
  const auto got = run_in_world(j, c);
  ASSERT_EQ(got.events.size(), 1u);
  EXPECT_TRUE(got.events[0].is<error_event>());
  EXPECT_EQ(
      message_of(got.events[0]),
      "the plan is refused: layer 'pool1': packet 3, features 0 to 2: no part computes them (worker0/pool1 has packets 0 to 1; "
      "worker1/pool1 has packet 2)");
  EXPECT_TRUE(got.weights.empty());
}

}  // namespace
}  // namespace troupe::testing
