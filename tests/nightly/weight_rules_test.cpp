// Weight rule `latest` on real threads, compared with the simulator with this machine's measured
// task times: the number of versions between a packet's forward and its backward. Nightly, because
// on a busy machine the times differ from the measured ones.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "actors/embedded.hpp"
#include "runtime/plain/plain_loop.hpp"
#include "tests/sim/chain_job.hpp"

namespace troupe::testing {
namespace {

using histogram = std::map<std::uint64_t, double>;

// Histogram of each stage's weights, as shares that sum to 1.
std::map<std::string, histogram> shares_of(const staleness_event& e) {
  std::map<std::string, histogram> all;
  for (const auto& row : e.parameters)
    if (row.parameter.ends_with(".weight"))
      for (const auto& [lag, n] : row.reads) all[row.parameter][lag] = static_cast<double>(n) / static_cast<double>(row.count());
  return all;
}

double total_variation(const histogram& a, const histogram& b) {
  double sum = 0;
  for (std::uint64_t lag = 0; lag < 16; ++lag) sum += std::abs((a.count(lag) ? a.at(lag) : 0) - (b.count(lag) ? b.at(lag) : 0));
  return sum / 2;
}

// Median times of layers and update over 9 steps of the plain loop.
plain_times measured(const job_spec& spec) {
  plain_loop loop(prepared(spec, 1), make_cpu_device());
  std::vector<plain_times> runs(9);
  for (int i = 0; i < 2; ++i) loop.step();
  for (auto& t : runs) loop.step(&t);
  const auto median = [&](auto part) {
    std::vector<double> v;
    for (const auto& t : runs) v.push_back(part(t));
    std::nth_element(v.begin(), v.begin() + 4, v.end());
    return v[4];
  };
  auto m = runs[0];
  for (std::size_t l = 0; l < m.layers.size(); ++l) {
    m.layers[l].forward = median([&](const plain_times& t) { return t.layers[l].forward; });
    m.layers[l].backward = median([&](const plain_times& t) { return t.layers[l].backward; });
  }
  m.update = median([](const plain_times& t) { return t.update; });
  return m;
}

chain_shape shape() {
  chain_shape c;
  c.weights = "latest";
  c.precision = "fp32";
  c.rule = "sgd";
  c.fuse = "auto";
  c.width = 768;
  c.steps = 300;
  return c;
}

job_spec spec_of(const chain_shape& c, bool placed) {
  auto j = chain_spec(c, placed);
  j.data.batch = 256;
  j.data.values = checked(with({{"shape", std::vector<std::int64_t>{1, 8, 8}},
                                {"classes", option_value(std::int64_t{4})},
                                {"examples", option_value(std::int64_t{1024})}}),
                          shared_tables()->sources.find("synthetic")->specs);
  return j;
}

TEST(nightly_weight_rules, histogram_of_latest_matches_the_simulator_with_measured_times) {
  const auto c = shape();
  const auto j = prepared(spec_of(c, true), nodes_of(c));
  ASSERT_EQ(j->plan.warm_up, 3u);
  for (auto& r : j->plan.roles) r.node = 0;  // the four nodes' roles in one process, on two threads
  const auto times = measured(spec_of(c, false));

  std::map<std::string, histogram> real, simulated;
  embedded_options o;
  o.threads = 2;
  o.on_event = [&](const event_effect& e) {
    if (const auto* s = e.as<staleness_event>()) real = shares_of(*s);
  };
  embedded_run run(j, o);
  const auto got = run.run();
  ASSERT_TRUE(got.ok) << got.error;

  sim::world_config w;
  w.network.fabric = sim::fabric_kind::star;
  w.network.local = std::chrono::microseconds(5);
  w.compute.cores = 2;
  w.compute.floor = std::chrono::microseconds(5);
  w.compute.bytes_per_second =
      12.0 * static_cast<double>(j->graph.parameter_count) / std::max(times.update, 1e-9);  // sgd: 3 x 4 bytes
  sim::world world(w);
  for (const auto& r : j->plan.roles) world.add(r.id, r.node, make_role(j, r.id));
  world.measured = [&](role_id r, const task_cost& cost) -> std::optional<duration> {
    const std::string_view kind = cost.kind;
    if (kind != "forward" && kind != "backward") return std::nullopt;
    double s = 0;
    for (auto l : j->plan[r].layers) s += kind == "forward" ? times.layers[l].forward : times.layers[l].backward;
    return duration(static_cast<std::int64_t>(1e9 * s));
  };
  bool done = false;
  world.on_event = [&](const event_effect& e) {
    if (const auto* s = e.as<staleness_event>()) simulated = shares_of(*s);
    done = done || e.is<done_event>();
  };
  envelope go;
  go.h.dst = role_id{0};
  go.body = start{};
  world.inject(go);
  ASSERT_TRUE(world.run(5'000'000, [&] { return done; }) && done);

  ASSERT_EQ(real.size(), 4u);
  for (const auto& [name, shares] : real) {
    const auto off = total_variation(shares, simulated[name]);
    for (const auto& [lag, share] : shares) std::printf("%s lag %d: %.3f\n", name.c_str(), static_cast<int>(lag), share);
    for (const auto& [lag, share] : simulated[name])
      std::printf("%s lag %d: %.3f (simulated)\n", name.c_str(), static_cast<int>(lag), share);
    EXPECT_LE(off, 0.1) << name;
  }
}

}  // namespace
}  // namespace troupe::testing
