// Files with many mistakes: the first hundred are reported, and the number of the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/document.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/config/sim_file.hpp"
#include "runtime/spec/mistakes.hpp"
#include "tests/node/job_fixture.hpp"

namespace troupe {
namespace {

using namespace job_test;
using ::testing::EndsWith;
using ::testing::StartsWith;

// `line`, repeated up to 900 KB.
std::string full_of(const std::string& line) {
  std::string text;
  while (text.size() + line.size() < 900'000) text += line;
  return text;
}

void expect_a_hundred(const diagnostics& all, const std::string& file, const char* what) {
  ASSERT_EQ(all.size(), max_mistakes_shown + 1) << what;
  EXPECT_THAT(all.front().to_string(), StartsWith(file + ":")) << what;
  EXPECT_THAT(all.back().to_string(), StartsWith(file + ": ... and ")) << what;
  EXPECT_THAT(all.back().to_string(), EndsWith(" more mistakes")) << what;
}

TEST(many_mistakes, only_the_first_hundred_mistakes_of_a_file_are_reported) {
  const auto job = [](const std::string& text) {
    auto r = parse_job(text, "f.toml", *all_tables());
    return !r ? r.error() : diagnostics{};
  };
  expect_a_hundred(job(full_of("[[layer]]\n")), "f.toml", "bare layers");
  expect_a_hundred(job(full_of("[[layer]]\nnope = 1\n")), "f.toml", "unknown keys");
  const auto cluster = parse_cluster(full_of("[[node]]\n"), "f.toml");
  ASSERT_FALSE(cluster);
  expect_a_hundred(cluster.error(), "f.toml", "nodes");
  const auto sim = parse_sim(full_of("[[fault]]\n"), "f.toml");
  ASSERT_FALSE(sim);
  expect_a_hundred(sim.error(), "f.toml", "faults");
  const auto plugins = read_plugins("plugins = [" + full_of("\"x\",") + "]\n", "f.toml");
  ASSERT_FALSE(plugins);
  expect_a_hundred(plugins.error(), "f.toml", "plugins");
}

TEST(many_mistakes, only_the_first_hundred_mistakes_of_a_model_are_reported) {
  std::string text =
      "[data]\nsource = \"synthetic\"\nshape = [4]\nclasses = 2\nexamples = 8\nbatch = 4\n[train]\nfinish = { steps = 1 }\n";
  for (int n = 0; n < 10'000; ++n)
    text += "[[layer]]\nname = \"r" + std::to_string(n) + "\"\ntype = \"relu\"\ninputs = [\"no" + std::to_string(n) + "\"]\n";
  const auto r = prepare_text({text, "f.toml", {}}, all_tables());
  ASSERT_FALSE(r);
  expect_a_hundred(r.error(), "f.toml", "inputs that no layer has");
}

TEST(many_mistakes, layers_of_one_name_are_reported_with_the_first_of_them) {
  std::string text =
      "[data]\nsource = \"synthetic\"\nshape = [4]\nclasses = 2\nexamples = 8\nbatch = 4\n[train]\nfinish = { steps = 1 }\n";
  for (int n = 0; n < 15'000; ++n) text += "[[layer]]\nname = \"same\"\ntype = \"relu\"\ninputs = [\"data\"]\n";
  const auto r = prepare_text({text, "f.toml", {}}, all_tables());
  ASSERT_FALSE(r);
  expect_a_hundred(r.error(), "f.toml", "layers of one name");
  const auto repeated = std::count_if(r.error().begin(), r.error().end(), [](const diagnostic& d) {
    return d.message.starts_with("duplicate layer name 'same'; first used at f.toml:");
  });
  EXPECT_GE(static_cast<std::size_t>(repeated), max_mistakes_shown - 1);
}

TEST(many_mistakes, one_name_that_fills_a_file_is_refused_wherever_it_is) {
  const std::string data = "[data]\nsource = \"synthetic\"\nshape = [4]\nbatch = 4\n[train]\nfinish = { steps = 1 }\n";
  const auto layer = [](const std::string& name, const std::string& input) {
    return "[[layer]]\nname = \"" + name + "\"\ntype = \"relu\"\ninputs = [\"" + input + "\"]\n";
  };
  const auto refused = [&](const std::string& text) {
    const auto r = prepare_text({data + text, "f.toml", {}}, all_tables());
    EXPECT_FALSE(r);
    std::size_t bytes = 0;
    for (const auto& d : r ? diagnostics{} : r.error()) bytes += d.to_string().size();
    EXPECT_LT(bytes, 20'000u);
    return r ? diagnostics{} : r.error();
  };
  const std::string name(900'000, 'n');
  refused(layer(name, "data"));
  refused(layer("x", name));
  const std::string block = "[[block]]\nname = \"b\"\n";
  const std::string use = "[[layer]]\nname = \"u\"\nblock = \"b\"\ninputs = [\"data\"]\nrepeat = 100\n";
  auto inner = layer(name, "in");
  inner.replace(0, 9, "[[block.layer]]");
  refused(block + inner + use);
  expect_a_hundred(refused(full_of(layer("x", "data"))), "f.toml", "one name for all layers");
  std::string inputs = full_of("\"data\", ");
  inputs.resize(inputs.size() - 2);
  refused("[[layer]]\nname = \"x\"\ntype = \"concat\"\ninputs = [" + inputs + "]\n");
}

TEST(many_mistakes, mistakes_of_overrides_and_their_number_are_limited) {
  const auto of = [](std::size_t n) {
    auto r = parse_job("", "f.toml", *all_tables(), std::vector<std::string>(n, "="));
    return !r ? r.error() : diagnostics{};
  };
  EXPECT_EQ(of(100).size(), 100u);
  EXPECT_EQ(of(101).size(), 101u);
  EXPECT_EQ(of(101).back().message, "... and 1 more mistakes");
  EXPECT_EQ(of(max_overrides).size(), 101u);
  const auto more = of(max_overrides + 1);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_EQ(more[0].to_string(), "f.toml: 10001 overrides; the maximum is 10000");
}

}  // namespace
}  // namespace troupe
