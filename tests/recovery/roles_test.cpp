// A node with a role of each kind dies at several moments, in jobs whose roles have state that the
// small jobs of the sweeps do not have: placed layers, averages, carried state, data servers, a
// tester, a changed mode, residuals of a codec.
#include "runtime/node/simulation/sim_run.hpp"

#include <filesystem>
#include <fstream>

#include "tests/recovery/storm.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"
#include "tests/sim/mode_run.hpp"

namespace troupe::recovery {
namespace {

using namespace std::chrono_literals;

enum class keeps : std::uint8_t {
  bits,  // the weights and the reported values are those of an undisturbed run
  end    // the job ends with weights
};

struct job_row {
  const char* name;
  std::string text;
  std::vector<std::string> kinds;  // parts of the names of roles that nodes n2 to n4 have
  keeps what = keeps::bits;
  bool coordinator_works = true;
};

std::string lines(std::initializer_list<const char*> all) {
  std::string t;
  for (const auto* l : all) t += std::string(l) + "\n";
  return t;
}

// A chain of three linear layers, the middle one on n3, the last on n4.
std::string placed(const std::string& pipeline, const char* more = "") {
  return lines({"[job]",
                "name = \"placed\"",
                "seed = 3",
                "precision = \"f64\"",
                "[data]",
                "source = \"synthetic\"",
                "shape = [6]",
                "classes = 4",
                "examples = 64",
                "test_examples = 16",
                "batch = 8",
                "[[layer]]",
                "name = \"a\"",
                "type = \"linear\"",
                "inputs = [\"data\"]",
                "outputs = 6",
                "place = \"n2\"",
                "[[layer]]",
                "name = \"b\"",
                "type = \"linear\"",
                "inputs = [\"a\"]",
                "outputs = 6",
                "place = \"n3\"",
                more,
                "[[layer]]",
                "name = \"c\"",
                "type = \"linear\"",
                "inputs = [\"b\"]",
                "outputs = 4",
                "place = \"n4\"",
                "[[layer]]",
                "name = \"loss\"",
                "type = \"softmax_loss\"",
                "inputs = [\"c\", \"label\"]",
                "[train]",
                "sync = { mode = \"bsp\" }",
                "finish = { steps = 24 }",
                "[train.dynamics]",
                "rule = \"momentum\"",
                "lr = 0.05",
                "[eval]",
                "every = 6",
                "[checkpoint]",
                "every = 6"}) +
         "[pipeline]\n" + pipeline;
}

std::string text_file() {
  static const test::temp_dir dir;
  auto path = dir.file("text.txt");
  if (!std::filesystem::exists(path)) {
    std::ofstream f(path);
    for (std::uint32_t i = 0, x = 7; i < 400; ++i) f << static_cast<char>('a' + (x = x * 1103515245u + 12345u) / 65536u % 9);
  }
  return path;
}

std::string recurrent(const std::string& path) {
  return lines({"[job]", "name = \"recurrent\"", "seed = 3", "precision = \"f64\"", "[data]", "source = \"text\""}) + "path = \"" +
         path + "\"\n" +
         lines({"sequence = 5",
                "test_fraction = 0.3026",
                "batch = 8",
                "[[layer]]",
                "name = \"embed\"",
                "type = \"embedding\"",
                "inputs = [\"data\"]",
                "vocabulary = 9",
                "outputs = 4",
                "[[layer]]",
                "name = \"one\"",
                "type = \"gru\"",
                "inputs = [\"embed\"]",
                "units = 5",
                "[[layer]]",
                "name = \"score\"",
                "type = \"linear\"",
                "inputs = [\"one\"]",
                "outputs = 9",
                "axis = 2",
                "[[layer]]",
                "name = \"loss\"",
                "type = \"softmax_loss\"",
                "inputs = [\"score\", \"label\"]",
                "[train]",
                "algorithm = \"bptt\"",
                "sampler = { kind = \"lanes\" }",
                "sync = { mode = \"bsp\" }",
                "finish = { steps = 24 }",
                "[train.dynamics]",
                "rule = \"momentum\"",
                "lr = 0.05",
                "[checkpoint]",
                "every = 5",
                "[pipeline]",
                "packets = 4",
                "[topology]",
                "workers_per_group = 3",
                "servers_per_group = 2"});
}

std::string small(const char* mode, const small_text& s, const char* train = "", const char* more = "") {
  auto t = text_of(mode_named(mode), s);
  t = replaced(t, "[train.dynamics]", std::string(train) + "[train.dynamics]");
  return t + more;
}

std::vector<job_row> rows() {
  small_text plain;
  plain.workers = 4, plain.eval_every = 4;
  auto with = [&](const char* sampler) {
    auto s = plain;
    s.sampler = sampler;
    return s;
  };
  const std::vector<std::string> usual{"worker", "shard", "/loader"};
  return {{"layers in a row", placed("packets = 4\nsub_solvers = 2\n"), {"host0", "host1", "host2"}},
          {"stash", placed("packets = 4\nsub_solvers = 2\nweights = \"stash\"\n"), {"host0", "host1", "host2"}, keeps::end},
          {"latest", placed("packets = 4\nsub_solvers = 2\nweights = \"latest\"\n"), {"host0", "host1", "host2"}, keeps::end},
          {"gathered packets", placed("packets = 4\nsub_solvers = 4\n", "gather = true"), {"host1", "host2"}},
          {"averages", small("bsp", plain, "average = { kind = \"ema\", decay = 0.5 }\n"), usual},
          {"a data server", small("bsp", with("served")), usual},
          {"a server of seeds", small("bsp", with("seeded")), usual},
          {"a tree of loaders", small("bsp", with("replicate")), usual},
          {"a tester", small("ssp", plain), {"worker", "shard", "tester"}, keeps::end, false},
          {"replicas", small("bsp", plain, "", "replicas = 2\n"), {"worker", "shard", "/replica"}}};
}

// The losses of steps and evaluations that the client has heard, by kind and step.
std::map<std::pair<std::string, std::uint64_t>, double> losses(const fleet& f, const char* kind) {
  std::map<std::pair<std::string, std::uint64_t>, double> all;
  for (const auto& e : f.events())
    if (e.kind == kind)
      for (const auto& [name, value] : e.values)
        if (name == "loss") all[{e.kind, e.step}] = value;
  return all;
}

struct told {
  outcome got;
  std::map<std::pair<std::string, std::uint64_t>, double> steps, evaluations;
};

told run_told(const fleet_config& c, const std::function<void(fleet&)>& prepare = {}) {
  told t;
  t.got = run_fleet(c, prepare, [&](const fleet& f) { t.steps = losses(f, "step"), t.evaluations = losses(f, "eval"); });
  return t;
}

fleet_config four_nodes(const std::string& job) {
  fleet_config c;
  c.nodes = 4;
  c.job = job;
  c.logs = std::getenv("TROUPE_TRACE") != nullptr;
  return c;
}

// A node other than the coordinator's that hosts a role with such a name; empty: none does now.
std::string host_of(fleet& f, const std::string& kind) {
  for (const auto& name : f.names())
    if (name != f.coordinator() && f.alive(name))
      for (const auto& r : f.at(name)->roles())
        if (r.name.find(kind) != std::string::npos) return name;
  return {};
}

TEST(recovery_roles, a_job_loses_nothing_when_a_node_with_a_role_of_any_kind_dies) {
  for (const auto& row : rows()) {
    auto c = four_nodes(row.text);
    c.coordinator_works = row.coordinator_works;
    const auto calm = run_told(c);
    ASSERT_EQ(calm.got.wrong, "") << row.name;
    ASSERT_EQ(calm.got.kind, "done") << row.name << ": " << calm.got.text;
    for (const auto& kind : row.kinds) {
      std::size_t recovered = 0, hit = 0;
      for (std::uint64_t part = 1; part < 8; ++part) {
        SCOPED_TRACE(std::string(row.name) + ", " + kind + " at " + std::to_string(part) + "/8");
        const auto got = run_told(c, [&](fleet& f) {
          f.after_point(calm.got.points * part / 8, [&](const std::string&) {
            const auto victim = host_of(f, kind);
            if (victim.empty()) return;
            ++hit;
            f.kill(victim);
          });
        });
        ASSERT_EQ(got.got.wrong, "");
        ASSERT_EQ(got.got.kind, "done") << got.got.text;
        recovered += got.got.recovered;
        if (row.what == keeps::end) continue;
        ASSERT_EQ(got.got.sha, calm.got.sha);
        EXPECT_EQ(got.steps, calm.steps);
        EXPECT_EQ(got.evaluations, calm.evaluations);
      }
      EXPECT_GT(hit, 3u) << row.name << ": the test finds no node with a role " << kind;
      EXPECT_GT(recovered, 0u) << row.name << ", " << kind;
    }
  }
}

// The state that sequences carry is only with their worker, so the job returns to its checkpoint,
// or to its beginning. It never continues with zeros.
TEST(recovery_roles, a_job_that_carries_state_returns_to_a_checkpoint_when_a_worker_dies) {
  const auto path = std::filesystem::path(text_file());
  auto c = simulated(four_nodes(recurrent(path.string())), testing::shared_mode_tables());
  for (auto& n : c.cluster.nodes) n.data = {path.parent_path().string()};
  const auto calm = run_cluster(c, {});
  ASSERT_EQ(calm.how, sim::run_result::end::done) << calm.text;
  std::uint64_t again = 0;
  for (int part = 1; part < 8; ++part)
    for (const std::uint32_t node : {1u, 2u}) {
      sim::happening h;
      h.kind = sim::fault_kind::kill;
      h.at = (calm.over - calm.begun) * part / 8;
      h.nodes = {node};
      h.length = 200ms;
      const auto got = run_cluster(c, {.faults = {h}});
      ASSERT_EQ(got.how, sim::run_result::end::done) << got.text;
      EXPECT_EQ(got.weights_sha256, calm.weights_sha256) << "part " << part << ", node " << node;
      for (const auto& r : got.recoveries) EXPECT_FALSE(r.what.live) << r.what.message;
      again += got.steps_again();
    }
  EXPECT_GT(again, 0u);
}

// The mode that a command has chosen is that of the plan after a failure.
TEST(recovery_roles, a_job_keeps_its_new_mode_when_a_node_dies) {
  small_text s;
  s.workers = 4, s.steps = 60;
  const auto c = four_nodes(text_of(mode_named("bsp"), s));
  const auto calm = run_fleet(c);
  ASSERT_EQ(calm.wrong, "");
  for (std::uint64_t part = 3; part < 8; ++part) {
    std::size_t counted = 0;
    const auto got = run_fleet(
        c,
        [&](fleet& f) {
          f.after_point(calm.points / 4, [&f](const std::string&) { f.tell({mode_command{{"ssp", {{"staleness", "0"}}}}}); });
          f.after_point(calm.points * part / 8, [&f](const std::string&) { f.kill("n3"); });
        },
        [&](const fleet& f) { counted = f.count("staleness"); });
    ASSERT_EQ(got.wrong, "");
    ASSERT_EQ(got.kind, "done") << got.text;
    EXPECT_EQ(got.recovered, 1u);
    EXPECT_EQ(got.sha, calm.sha) << "part " << part;
    EXPECT_GT(counted, 0u) << "the job ends in bsp, which counts no staleness";
  }
}

// Residuals of a codec that a failed node had are lost: the weights still come close to the
// minimiser of least squares.
TEST(recovery_roles, a_job_with_a_codec_converges_when_a_node_dies) {
  small_text s;
  s.workers = 4, s.shards = 1, s.sampler = "whole", s.falling = true, s.steps = 500, s.checkpoint = "50", s.rule = "sgd",
  s.lr = 0.2;
  const auto plain = run_fleet(four_nodes(text_of(mode_named("bsp"), s)));
  ASSERT_EQ(plain.wrong, "");
  for (const char* codec : {"int8", "onebit", "topk"}) {
    auto m = mode_named("bsp");
    m.exchange = std::string("{ compress = \"") + codec + "\" }";
    const auto c = four_nodes(text_of(m, s));
    const auto got = run_fleet(c, [&](fleet& f) { f.after_point(plain.points / 4, [&f](const std::string&) { f.kill("n4"); }); });
    ASSERT_EQ(got.wrong, "") << codec;
    ASSERT_EQ(got.kind, "done") << codec << got.text;
    EXPECT_EQ(got.recovered, 1u) << codec;
    EXPECT_LT(apart(got.weights, plain.weights), converged) << codec;
  }
}

}  // namespace
}  // namespace troupe::recovery
