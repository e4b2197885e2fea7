// The pages of the job file and of the cluster file list exactly the keys of the readers.
#include "runtime/node/config/reference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/config/cluster_keys.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "runtime/node/config/json_schema.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

using words = std::set<std::string>;

std::string page(const std::string& name) {
  std::ifstream f(std::string(TROUPE_SOURCE_DIR) + "/docs/" + name);
  std::stringstream all;
  all << f.rdbuf();
  return all.str();
}

TEST(reference, the_pages_are_what_the_command_prints) {
  EXPECT_TRUE(page("job-file.md") == job_reference(node_tables())) << "stale: troupe reference job > docs/job-file.md";
  EXPECT_TRUE(page("cluster-file.md") == cluster_reference()) << "stale: troupe reference cluster > docs/cluster-file.md";
  EXPECT_TRUE(page("job.schema.json") == job_schema(node_tables()).dump(2) + "\n")
      << "stale: troupe reference schema > docs/job.schema.json";
  EXPECT_TRUE(page("cluster.schema.json") == cluster_schema().dump(2) + "\n")
      << "stale: troupe reference schema cluster > docs/cluster.schema.json";
}

const std::string job_text = R"([job]
[data]
source = "synthetic"
[data.augment]
[[layer]]
name = "a"
type = "linear"
[train]
[train.sampler]
kind = "shard"
[train.dynamics]
rule = "momentum"
[train.dynamics.schedule]
kind = "step"
[train.dynamics.schedule.warmup]
steps = 2
[train.dynamics.clip]
value = 1
[train.average]
kind = "ema"
[train.sync]
mode = "easgd"
[train.sync.when]
kind = "schedule"
[train.exchange]
reducer = "tree"
[train.finish]
steps = 1
[train.finish.custom]
kind = "patience"
[checkpoint]
[eval]
[eval.sampler]
kind = "sample"
[pipeline]
[topology]
)";

const std::string cluster_text = R"([cluster]
name = "c"
[cluster.tls]
dir = "certs"
[[node]]
name = "n1"
address = "127.0.0.1:7701"
)";

constexpr const char* stranger = "zzzzzzzzzzzz";

// `text` with an unknown key in the table `name` ("The file": at the top).
std::string with_stranger(const std::string& text, const std::string& name) {
  const std::string line = std::string(stranger) + " = 1\n";
  if (name == "The file") return line + text;
  const auto at = text.find(name + "\n");
  EXPECT_NE(at, std::string::npos) << name;
  return at == std::string::npos ? text : text.substr(0, at + name.size() + 1) + line + text.substr(at + name.size() + 1);
}

// The keys that a reader knows in a table, from the list in its error about an unknown key.
words known_to_reader(const diagnostics& errors) {
  const std::string asked = "unknown key '" + std::string(stranger) + "'; known: ";
  for (const auto& e : errors)
    if (const auto at = e.message.find(asked); at != std::string::npos) {
      words found;
      std::stringstream list(e.message.substr(at + asked.size()));
      for (std::string w; std::getline(list, w, ',');) found.insert(w.substr(w.find_first_not_of(' ')));
      return found;
    }
  ADD_FAILURE() << "no error about the unknown key";
  return {};
}

words names_of(const option_specs& specs) {
  words w;
  for (const auto& s : specs) w.insert(s.name);
  return w;
}

// Options of the entries that job_text names; they are written in these tables too.
words options_beside(const std::string& table, const tables& all) {
  if (table == "[data]") return names_of(all.sources.find("synthetic")->specs);
  if (table == "[[layer]]") return names_of(all.layers.find("linear")->specs);
  if (table == "[train.sampler]") return names_of(all.samplers.find("shard")->specs);
  if (table == "[train.dynamics]") return names_of(all.rules.find("momentum")->specs);
  if (table == "[train.dynamics.schedule]") return names_of(all.schedules.find("step")->specs);
  if (table == "[train.sync]") return names_of(all.modes.find("easgd")->specs);
  if (table == "[train.sync.when]") return names_of(all.conditions.find("schedule")->specs);
  if (table == "[train.exchange]") return names_of(all.reducers.find("tree")->specs);
  if (table == "[train.finish.custom]") return names_of(all.finishes.find("patience")->specs);
  if (table == "[eval.sampler]") return names_of(all.eval_samplers.find("sample")->specs);
  return {};
}

words rows_of(const key_table& t) {
  words w;
  for (const auto& k : t.entries) w.insert(k.name);
  return w;
}

TEST(reference, job_page_lists_exactly_the_keys_that_the_reader_knows) {
  const auto all = node_tables();
  for (const auto& t : job_tables()) {
    SCOPED_TRACE(t.name);
    const auto parsed = parse_job(with_stranger(job_text, t.name), "job.toml", all);
    ASSERT_FALSE(parsed);
    auto wanted = rows_of(t);
    wanted.merge(options_beside(t.name, all));
    EXPECT_EQ(known_to_reader(parsed.error()), wanted);
  }
}

TEST(reference, cluster_page_lists_exactly_the_keys_that_the_reader_knows) {
  for (const auto& t : cluster_tables()) {
    SCOPED_TRACE(t.name);
    const auto parsed = parse_cluster(with_stranger(cluster_text, t.name), "cluster.toml");
    ASSERT_FALSE(parsed);
    EXPECT_EQ(known_to_reader(parsed.error()), rows_of(t));
  }
}

TEST(reference, every_key_has_a_description) {
  auto tables = job_tables();
  for (auto& t : cluster_tables()) tables.push_back(std::move(t));
  for (const auto& t : tables)
    for (const auto& k : t.entries) EXPECT_FALSE(k.doc.empty()) << t.name << " " << k.name;
}

// A default on the page is the value that the reader uses when the key is absent.
TEST(reference, defaults_are_those_of_an_empty_table) {
  const auto parsed = parse_job(
      "[data]\nsource = \"synthetic\"\n[[layer]]\nname = \"a\"\ntype = \"linear\"\noutputs = 2\n"
      "[train]\nfinish = { steps = 1 }\n",
      "job.toml", node_tables());
  ASSERT_TRUE(parsed) << parsed.error()[0].to_string();
  const auto& j = *parsed;
  const auto said = [](const key_table& t, const std::string& key) {
    const auto i = std::find_if(t.entries.begin(), t.entries.end(), [&](const key_descriptor& k) { return k.name == key; });
    return i == t.entries.end() ? "there is no such key" : i->fallback;
  };
  EXPECT_EQ(said(data_keys().described(), "batch"), std::to_string(j.data.batch));
  EXPECT_EQ(said(job_keys().described(), "precision"), "\"" + j.precision + "\"");
  EXPECT_EQ(said(train_keys().described(), "sampler"), "{ kind = \"" + j.data.sampler.kind + "\" }");
  EXPECT_EQ(said(train_keys().described(), "dynamics"), "{ rule = \"" + j.train.rule.kind + "\" }");
  EXPECT_EQ(said(train_keys().described(), "sync"), "{ mode = \"" + j.train.sync.kind + "\" }");
  EXPECT_EQ(said(train_keys().described(), "exchange"), "{ reducer = \"" + j.train.reducer + "\" }");
  EXPECT_EQ(said(dynamics_keys().described(), "schedule"), "{ kind = \"" + j.train.schedule.kind + "\" }");
  EXPECT_EQ(said(eval_keys().described(), "sampler"), "{ kind = \"" + j.eval.sampler.kind + "\" }");
  EXPECT_EQ(said(eval_keys().described(), "split"), j.eval.on_training ? "\"train\"" : "\"test\"");
}

}  // namespace
}  // namespace troupe
