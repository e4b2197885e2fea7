// A node with two devices that cannot access each other's memory: roles are assigned to both, their
// messages cross, and the weights have the bits of a single CPU.
#include <gtest/gtest.h>

#include <set>

#include "actors/shell/node_host.hpp"
#include "tests/actors/embedded_support.hpp"
#include "tests/apart/apart_device.hpp"
#include "tests/sim/random_net.hpp"

namespace troupe::testing {
namespace {

struct two_devices {
  std::shared_ptr<apart::machine> machine;
  std::vector<std::shared_ptr<device>> list;
  explicit two_devices(std::uint64_t seed, apart::planted fault = apart::planted::none)
      : machine(std::make_shared<apart::machine>(seed)) {
    machine->fault = fault;
    const std::shared_ptr<device> maths = make_cpu_device();
    for (std::int16_t k = 0; k < 2; ++k) list.push_back(apart::make_device(maths, machine, k));
  }
  ~two_devices() {
    for (const auto& f : machine->findings()) ADD_FAILURE() << f;
  }
};

const std::vector<std::string> two{"apart:0", "apart:1"}, one_cpu{"cpu:0", "cpu:1"};

expected<std::shared_ptr<prepared_job>, diagnostics> prepared(const job_spec& spec, std::uint32_t nodes,
                                                              const std::vector<std::string>& offered) {
  std::vector<node_spec> list(nodes);
  for (std::uint32_t i = 0; i < nodes; ++i) list[i].name = "n" + std::to_string(i + 1), list[i].devices = offered;
  return prepare_job(spec, shared_tables(), list);
}

run_result run(const std::shared_ptr<prepared_job>& j, std::uint64_t seed, const std::vector<std::shared_ptr<device>>& devices) {
  sim::world_config c;
  c.seed = seed;
  c.dev = devices.front().get();
  for (const auto& d : devices) c.devices.push_back(d.get());
  return run_in_world(j, c);
}

// Number of edges of the plan between roles of one node that are on different devices.
std::size_t crossings(const job_plan& p) {
  return static_cast<std::size_t>(std::count_if(p.edges.begin(), p.edges.end(), [&](const plan_edge& e) {
    return p[e.from].node == p[e.to].node && p[e.from].device != p[e.to].device;
  }));
}

// Adds a device to some places. Returns their number.
std::uint64_t name_devices(job_spec& spec, random_net& net) {
  std::uint64_t n = 0;
  for (auto& l : spec.layers)
    for (auto& place : l.place)
      if (net.chance(0.7)) place += "/" + two[static_cast<std::size_t>(net.draw(0, 1))], ++n;
  return n;
}

// Runs random nets with layers at random places, on two nodes; those of even seeds also on named
// devices. Calls `each` with the job on CPUs,
// the job on two devices per node, and a seed.
template <class F>
void placed_nets(std::uint64_t want, F each) {
  std::uint64_t ran = 0, edges = 0, named = 0;
  for (std::uint64_t seed = 1; ran < want; ++seed) {
    random_net net(seed);
    auto spec = net.job();
    bool feature = false;
    net.place(spec, 2, feature);
    auto on_devices = spec;
    if (seed % 2 == 0) named += name_devices(on_devices, net);
    auto plain = prepared(spec, 2, one_cpu), apart = prepared(on_devices, 2, two);
    if (!plain) continue;
    ++ran;
    const auto& j = *apart;
    edges += crossings(j->plan);
    each(*plain, j, seed);
  }
  EXPECT_GT(edges, ran) << "tensors must cross between devices of a node";
  EXPECT_GT(named, ran / 4) << "places must name devices";
}

TEST(two_devices, placed_layers_have_the_bits_of_one_cpu) {
  const std::vector<std::shared_ptr<device>> cpu{make_cpu_device()};
  placed_nets(25, [&](const auto& plain, const auto& j, std::uint64_t seed) {
    const auto want = run(plain, seed, cpu);
    const two_devices d(seed);
    const auto got = run(j, seed, d.list);
    ASSERT_TRUE(want.done && !want.weights.empty()) << "seed " << seed;
    ASSERT_EQ(got.bytes(), want.bytes()) << "seed " << seed;
    const bool same_roles = seed % 2 != 0;  // places on devices add hosts and shards
    ASSERT_TRUE(!same_roles || got.trace == want.trace) << "seed " << seed;
  });
}

// A gradient is the sum over the parts of a layer that is split by feature. Its order is that of
// the parts, also if an earlier layer is on the device of a later part.
TEST(two_devices, gradients_of_parts_are_added_in_the_order_of_the_parts) {
  const std::vector<std::shared_ptr<device>> cpu{make_cpu_device()};
  shape_of_job s;
  s.packets = 4, s.steps = 20;
  const auto placed = [&](const std::string& earlier, const std::vector<std::string>& parts) {
    auto j = small_spec(s);
    j.precision = "f64";
    for (auto& l : j.layers) {
      if (l.name == "left") l.place = {earlier}, l.partition = "none", l.key_at["partition"] = {};
      if (l.name == "score") l.place = parts, l.partition = "feature", l.key_at["partition"] = {};
    }
    return j;
  };
  const auto want = run(*prepared(placed("n1", {"n1", "n1", "n1"}), 2, one_cpu), 1, cpu).bytes();
  const std::vector<std::string> places{"n1", "n1/apart:0", "n1/apart:1", "n2"};
  for (const auto& earlier : places)
    for (const auto& a : places)
      for (const auto& b : places)
        for (const auto& c : places) {
          const two_devices d(1);
          const auto got = run(*prepared(placed(earlier, {a, b, c}), 2, two), 1, d.list);
          ASSERT_EQ(got.bytes(), want) << earlier << ": " << a << " " << b << " " << c;
        }
}

// Planted mistake: all devices report one memory space, so hosts do not transfer tensors.
TEST(two_devices, missing_transfers_are_found) {
  placed_nets(10, [&](const auto&, const auto& j, std::uint64_t seed) {
    const two_devices d(seed, apart::planted::crossing_left_out);
    if (crossings(j->plan) == 0) return;
    try {
      run(j, seed, d.list);
      ADD_FAILURE() << "the missing transfer was not detected, seed " << seed;
    } catch (const std::logic_error& e) {
      EXPECT_NE(std::string(e.what()).find("is given memory of apart:"), std::string::npos) << e.what();
    }
  });
}

// Workers and shards on different devices, in every mode: sums, weights, differences and shares
// cross.
TEST(two_devices, every_mode_has_the_bits_of_one_cpu) {
  const std::vector<std::shared_ptr<device>> cpu{make_cpu_device()};
  for (const auto& name : shared_tables()->modes.names()) {
    SCOPED_TRACE(name);
    shape_of_job s;
    s.workers = 4, s.packets = 8, s.shards = 3, s.sub_solvers = 2, s.eval_every = 2;
    if (name == "eamsgd") s.rule = "nesterov";
    auto spec = small_spec(s);
    spec.train.sync = {name, check_options({}, shared_tables()->modes.find(name)->specs), {}};
    auto plain = prepared(spec, 1, one_cpu), apart = prepared(spec, 1, two);
    if (!plain) {
      ADD_FAILURE() << plain.error().front().to_string();
      continue;
    }
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const auto want = run(*plain, seed, cpu);
      const two_devices d(seed);
      const auto got = run(*apart, seed, d.list);
      ASSERT_TRUE(want.done && !want.weights.empty()) << "seed " << seed;
      ASSERT_EQ(got.bytes(), want.bytes()) << "seed " << seed;
      ASSERT_EQ(got.trace, want.trace) << "seed " << seed;
    }
  }
}

std::shared_ptr<prepared_job> small_job_on_two() {
  const auto made = prepared(small_spec({.packets = 4, .workers = 2, .shards = 2, .sub_solvers = 2, .steps = 3}), 1, two);
  return *made;
}

TEST(two_devices, the_small_job_has_the_same_bits_for_a_thousand_orders_of_operations) {
  const auto j = small_job_on_two();
  std::string want;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const two_devices d(seed);
    const auto got = run(j, 1, d.list);
    ASSERT_TRUE(got.done && !got.weights.empty()) << "seed " << seed;
    if (seed == 1) want = got.bytes();
    ASSERT_EQ(got.bytes(), want) << "seed " << seed;
  }
}

// Planted mistakes of the order of operations.
TEST(two_devices, a_missing_wait_is_found_in_the_small_job_with_every_seed) {
  const auto j = small_job_on_two();
  using apart::planted;
  for (const auto fault : {planted::read_does_not_wait, planted::write_does_not_wait, planted::reuse_does_not_wait})
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const auto machine = std::make_shared<apart::machine>(seed);
      machine->fault = fault;
      const std::shared_ptr<device> maths = make_cpu_device();
      run(j, 1, {apart::make_device(maths, machine, 0), apart::make_device(maths, machine, 1)});
      EXPECT_FALSE(machine->findings().empty()) << static_cast<int>(fault) << ", seed " << seed;
    }
}

// The same with actors, which have their own threads.
TEST(two_devices, an_embedded_job_has_the_weights_of_one_cpu) {
  using namespace testing_embedded;
  for (const overrides& set : {overrides{"topology.workers_per_group=2", "topology.servers_per_group=2", "pipeline.sub_solvers=2"},
                               overrides{"topology.workers_per_group=3", "topology.servers_per_group=2", "pipeline.fuse=auto",
                                         "train.exchange={reducer=\"tree\"}"}}) {
    const auto plain = job_of(lenet_like(), set);
    const auto j = job_of(lenet_like(), set, two);
    ASSERT_TRUE(plain && j);
    std::set<std::uint32_t> used;
    for (const auto& r : j->plan.roles) used.insert(r.device);
    EXPECT_EQ(used.size(), 2u);
    const two_devices d(5);
    embedded_options o;
    o.devices = d.list;
    const auto r = embedded(j, std::move(o));
    ASSERT_TRUE(r.ok) << r.where << ": " << r.error;
    EXPECT_EQ(r.weights_sha256, plain_hash(plain, 20));
  }
}

TEST(two_devices, a_role_on_a_device_that_the_host_lacks_is_refused) {
  using namespace testing_embedded;
  const auto j = job_of(lenet_like(), {"topology.workers_per_group=2"}, two);
  node_host host({});
  EXPECT_THROW(host.spawn(1, j, 0), std::invalid_argument);
}

}  // namespace
}  // namespace troupe::testing
