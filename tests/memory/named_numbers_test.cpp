// For any number in a job file, either the job is refused with the position before memory is
// allocated, or the plan counts the memory that the job takes. Numbers are drawn from a seed, up to
// the limits of their types. Each job is prepared in a child process and runs for two steps if its
// plan is small. TROUPE_NUMBERS (count) and TROUPE_NUMBERS_SEED set the draws.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iostream>
#include <random>

#include "actors/embedded.hpp"
#include "runtime/job/memory_budget.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/node_tables.hpp"
#include "tests/environment.hpp"
#include "tests/memory/allocations.hpp"

namespace troupe {
namespace {

constexpr double mib = 1 << 20;
constexpr double small_job = 128 * mib;  // smaller plans run
constexpr double slack = 64 * mib;       // threads, libraries, messages

constexpr const char* base_job = R"([job]
name = "numbers"
[data]
source = "synthetic"
shape = [1, 8, 8]
classes = 4
examples = 480
test_examples = 48
batch = 24
[[layer]]
name = "conv1"
type = "convolution"
inputs = ["data"]
outputs = 4
kernel = 3
[[layer]]
name = "pool1"
type = "max_pool"
inputs = ["conv1"]
kernel = 2
[[layer]]
name = "ip1"
type = "linear"
inputs = ["pool1"]
outputs = 4
[[layer]]
name = "loss"
type = "softmax_loss"
inputs = ["ip1", "label"]
[train]
sampler = { kind = "shuffle" }
sync = { mode = "bsp" }
finish = { steps = 4 }
[train.dynamics]
rule = "sgd"
lr = 0.01
schedule = { kind = "fixed" }
)";

// A number in a job file: its key, settings that it needs, and its bounds.
struct place {
  std::string path;
  double min = 0, max = 0;
  std::vector<std::string> with = {};
};

void add_options(std::vector<place>& all, const std::string& table, const option_specs& specs,
                 const std::vector<std::string>& with = {}) {
  for (const auto& o : specs)
    if (o.kind == option_kind::integer || o.kind == option_kind::real) all.push_back({table + "." + o.name, o.min, o.max, with});
}

std::vector<place> all_places(const tables& t) {
  std::vector<place> all;
  const std::map<std::string, std::string> paths{{"[[layer]]", "layer.conv1"}};
  for (const auto& table : job_tables()) {
    auto path = table.name;
    if (const auto special = paths.find(path); special != paths.end())
      path = special->second;
    else if (path.size() > 2 && path.front() == '[')
      path = path.substr(1, path.size() - 2);
    else
      continue;
    for (const auto& k : table.entries) {
      if (k.kind == key_kind::whole || k.kind == key_kind::real || k.kind == key_kind::reals)
        all.push_back({path + "." + k.name, k.min, k.max});
      if (k.kind == key_kind::steps_or_time) all.push_back({path + "." + k.name, 1, 9.2e18});
    }
  }
  add_options(all, "data", t.sources.find("synthetic")->specs);
  add_options(all, "layer.conv1", t.layers.find("convolution")->specs);
  add_options(all, "layer.pool1", t.layers.find("max_pool")->specs);
  add_options(all, "layer.ip1", t.layers.find("linear")->specs);
  for (const auto& name : t.modes.names())
    add_options(all, "train.sync", t.modes.find(name)->specs, {"train.sync.mode=\"" + name + "\"", "topology.worker_groups=2"});
  for (const auto& name : t.samplers.names()) {
    if (name == "lanes" || name == "served" || name == "seeded") continue;
    all.push_back({"data.examples", 1, 1e12, {"train.sampler.kind=\"" + name + "\""}});
  }
  for (const char* key : {"eval.sampler.examples", "data.test_examples"})
    all.push_back({key,
                   1,
                   1e12,
                   {"eval.sampler.kind=\"sample\"", "eval.every=1",
                    std::string(key) == "data.test_examples" ? "eval.sampler.examples=48" : "data.test_examples=900000000000"}});
  return all;
}

std::string drawn_value(const place& p, std::mt19937_64& random) {
  static const std::vector<double> values{1e3,        65535, 1e6,  16777215, 16777216, 16777217, 1e8,
                                          2147483647, 1e9,   1e11, 1e12,     1e15,     9e18};
  auto v = values[random() % values.size()];
  if (v > p.max) v = p.max;
  if (v > 9e18) v = 9e18;
  if (v < p.min) v = p.min;
  if (v <= 1 && v != std::floor(v)) return std::to_string(v);
  return std::to_string(static_cast<std::int64_t>(v));
}

// A line of /proc/self/status in bytes, e.g. VmRSS: (now) or VmHWM: (peak since `forget_peak`).
double memory_line(const char* word) {
  std::ifstream in("/proc/self/status");
  double kib = 0;
  for (std::string w; in >> w;)
    if (w == word && in >> kib) break;
  return kib * 1024;
}
void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5" << std::flush; }

// In the child process: prepares and runs the job. Returns what is wrong; empty if nothing.
std::string judged(const std::vector<std::string>& set) {
  const auto all = std::make_shared<const tables>(node_tables());
  forget_peak();
  const auto before = memory_line("VmRSS:");
  const auto taken = [&] { return memory_line("VmHWM:") - before; };
  auto made = prepare_text({base_job, "job.toml", set}, all);
  const auto to_prepare = taken();
  if (!made) {
    if (to_prepare > slack) return "refused after taking " + std::to_string(to_prepare / mib) + " MiB";
    for (const auto& d : made.error())
      if (d.at.line == 0 && d.at.file.rfind("--set", 0) != 0) return "refused without a position: " + d.to_string();
    return {};
  }
  const auto j = *made;
  const auto planned = bytes_on(*j, 0);
  if (to_prepare > slack + planned)
    return "prepared with " + std::to_string(to_prepare / mib) + " MiB, planned " + std::to_string(planned / mib);
  if (planned > small_job) return {};
  int steps = 0;
  embedded_options o;
  o.threads = 2;
  o.stall_after = std::chrono::seconds(20);
  std::unique_ptr<embedded_run> run;
  o.on_event = [&](const event_effect& e) {
    if (e.is<step_event>() && ++steps == 2) run->stop();
  };
  run = std::make_unique<embedded_run>(j, o);
  const auto r = run->run();
  if (taken() > slack + 1.1 * planned)
    return "ran with " + std::to_string(taken() / mib) + " MiB, planned " + std::to_string(planned / mib) + "; " + r.error;
  return r.error.find("bad_alloc") == std::string::npos ? "" : r.error;
}

// Calls judged() in a child process. Returns its result, or how the child ended.
std::string judged_apart(const std::vector<std::string>& set) {
  int ends[2];
  if (::pipe(ends) != 0) return "cannot create a pipe";
  const auto pid = ::fork();
  if (pid == 0) {
    const rlimit most{std::uint64_t{3} << 30, std::uint64_t{3} << 30};
    ::setrlimit(RLIMIT_DATA, &most);
    std::string text;
    try {
      text = judged(set);
    } catch (const std::exception& e) {
      text = std::string("threw ") + e.what();
    }
    text += "\n";
    (void)!::write(ends[1], text.data(), text.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[1024];
  pollfd p{ends[0], POLLIN, 0};
  while (::poll(&p, 1, 60000) == 1)
    if (const auto n = ::read(ends[0], buffer, sizeof buffer); n > 0)
      said.append(buffer, static_cast<std::size_t>(n));
    else
      break;
  ::close(ends[0]);
  ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (said.empty() || said.back() != '\n') return "the child did not end: status " + std::to_string(status);
  said.pop_back();
  return said;
}

TEST(named_numbers, are_counted_in_the_plan_or_refused_with_their_position) {
  if (!testing_memory::allocations::counted()) GTEST_SKIP() << "sanitizers need extra memory";
  const auto places = all_places(node_tables());
  ASSERT_GT(places.size(), 60u);
  const auto seed = from_environment("TROUPE_NUMBERS_SEED", 1);
  const auto count = from_environment("TROUPE_NUMBERS", 40);
  std::mt19937_64 random(seed);
  for (std::uint64_t n = 0; n < count; ++n) {
    const auto& p = places[count >= places.size() ? n % places.size() : random() % places.size()];
    auto set = p.with;
    set.push_back(p.path + "=" + drawn_value(p, random));
    std::string shown;
    for (const auto& s : set) shown += " " + s;
    EXPECT_EQ(judged_apart(set), "") << "seed " << seed << ":" << shown;
  }
}

// Settings that killed daemons before they were counted or refused.
TEST(named_numbers, of_jobs_that_once_killed_daemons_are_counted_or_refused) {
  if (!testing_memory::allocations::counted()) GTEST_SKIP() << "sanitizers need extra memory";
  const std::vector<std::vector<std::string>> found{
      {"data.examples=400000000"},
      {"data.examples=1000000000000", "train.sampler.kind=\"own_order\""},
      {"data.test_examples=1000000000000", "eval.every=1"},
      {"data.test_examples=400000000", "eval.every=1", "eval.sampler={kind=\"sample\", examples=48}"},
  };
  for (const auto& set : found) EXPECT_EQ(judged_apart(set), "") << set.front();
}

}  // namespace
}  // namespace troupe
