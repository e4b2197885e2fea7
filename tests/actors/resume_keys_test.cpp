// Tests of the table of keys that may differ between the job that wrote a checkpoint and the job
// that resumes it: the table has every key of the job file, and resume_from behaves as it says.
#include "runtime/job/resume_keys.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/coordinator/handover.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/job/coarse.hpp"
#include "runtime/job/data_identity.hpp"
#include "runtime/job/job_rule.hpp"
#include "runtime/node/config/job_keys.hpp"
#include "tests/actors/embedded_support.hpp"
#include "tests/error_text.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;

const resume_key* row_of(const std::string& key) {
  const auto& all = resume_keys();
  const auto at = std::find_if(all.begin(), all.end(), [&](const auto& k) { return k.key == key; });
  return at == all.end() ? nullptr : &*at;
}

// "[train.dynamics]" and "lr": "train.dynamics.lr".
std::string path_of(const std::string& table, const std::string& key) {
  const auto from = table.find_first_not_of('[');
  if (table[0] != '[') return key;
  return table.substr(from, table.find(']') - from) + "." + key;
}

// Every key that holds a value, and the options of every entry that a key names.
std::set<std::string> keys_of_the_file() {
  std::set<std::string> tables, keys;
  for (const auto& t : job_tables()) tables.insert(t.name);
  for (const auto& t : job_tables())
    for (const auto& r : t.entries) {
      const auto path = path_of(t.name, r.name);
      const bool table = r.kind == key_kind::table || r.kind == key_kind::tables;
      if (table && (tables.contains("[" + path + "]") || tables.contains("[[" + path + "]]"))) continue;
      keys.insert(path);
      if (r.kind == key_kind::entry && path != "train.sync.*") keys.insert(path_of(t.name, "*"));
    }
  return keys;
}

// A job that differs from the checkpoint's job in this key: by overrides, or by a change of the
// text from `from` to `to`.
struct other_job {
  overrides set;
  std::string from = {}, to = {};
  overrides both = {};  // overrides of both jobs
};
// size: a table, one entry per key
const std::map<std::string, other_job>& other_jobs() {
  static const std::map<std::string, other_job> all{
      {"job.name", {{"job.name=\"other\""}}},
      {"job.seed", {{"job.seed=8"}}},
      {"job.devices", {{"job.devices=[\"cpu:1\"]"}}},
      {"job.tflops", {{"job.tflops=[2.0]"}}},
      {"job.max_failures", {{"job.max_failures=2"}}},
      {"job.min_nodes", {{"job.min_nodes=1"}}},
      {"job.max_nodes", {{"job.max_nodes=1"}}},
      {"job.spares", {{"job.spares=0"}}},
      {"job.precision", {{"job.precision=\"bf16\""}}},
      {"job.record", {{"job.record=true"}}},
      {"job.tf32", {{"job.tf32=true"}}},
      {"job.conv_workspace", {{"job.conv_workspace=\"64MiB\""}}},
      {"data.batch", {{"data.batch=12"}}},
      {"the number of training examples", {{"data.examples=500"}}},
      {"the training examples", {{"data.noise=0.3"}}},
      {"data.validation", {{"data.validation=0.1"}}},
      {"data.readers", {{"data.readers=2"}}},
      {"data.augment", {{"data.augment={mirror=true}"}}},
      {"data.*", {{"data.noise=0.4"}}},
      {"layer.name", {{}, "\"right\"", "\"wrong\""}},
      {"layer.type", {{"layer.right.type=\"tanh\""}}},
      {"layer.inputs", {{"layer.join.inputs=[\"right\",\"left\"]"}}},
      {"layer.share",
       {{"layer.right.share=\"left\""},
        {},
        {},
        {"layer.right.type=\"convolution\"", "layer.right.outputs=6", "layer.right.kernel=3", "layer.right.pad=1"}}},
      {"layer.phase", {{}, "phase = \"test\"", ""}},
      {"layer.*", {{"layer.drop1.ratio=0.5"}}},
      {"layer.algorithm", {{"layer.conv1.algorithm=\"direct\""}}},
      {"layer.wire", {{"layer.ip1.wire=\"bf16\""}}},
      {"layer.compress", {{"layer.ip1.compress=\"fp16\""}}},
      {"layer.gather", {{"layer.ip1.gather=true", "pipeline.sub_solvers=4"}}},
      {"layer.lr_scale", {{"layer.ip1.lr_scale=2"}}},
      {"layer.decay_scale", {{"layer.ip1.decay_scale=0.5"}}},
      {"layer.loss_weight", {{"layer.loss.loss_weight=0.5"}}},
      {"layer.recompute", {{"layer.conv1.recompute=true"}}},
      {"layer.partition", {{"layer.ip1.partition=\"none\"", "layer.ip1.place=[\"local\"]"}}},
      {"layer.place", {{"layer.ip1.place=[\"local\"]"}}},
      {"layer.fraction", {{"layer.ip1.fraction=[1.0]"}}},
      {"train.sampler.kind", {{"train.sampler={kind=\"sequential\"}"}}},
      {"train.dynamics.rule", {{"train.dynamics={rule=\"sgd\",lr=0.05}"}}},
      {"train.dynamics.*", {{"train.dynamics.momentum=0.8"}}},
      {"train.dynamics.lr", {{"train.dynamics.lr=0.02"}}},
      {"train.dynamics.decay", {{"train.dynamics.decay=0.1"}}},
      {"train.dynamics.decay_l1", {{"train.dynamics.decay_l1=0.1"}}},
      {"train.dynamics.lr_scale", {{"train.dynamics.lr_scale=\"sqrt\"", "train.dynamics.base_batch=12"}}},
      {"train.dynamics.base_batch", {{"train.dynamics.lr_scale=\"linear\"", "train.dynamics.base_batch=12"}}},
      {"train.dynamics.clip.value", {{"train.dynamics.clip={value=1}"}}},
      {"train.dynamics.clip.norm", {{"train.dynamics.clip={norm=1}"}}},
      {"train.dynamics.schedule.kind", {{"train.dynamics.schedule={kind=\"fixed\"}"}}},
      {"train.dynamics.schedule.*", {{"train.dynamics.schedule.every=4"}}},
      {"train.dynamics.schedule.warmup.steps", {{"train.dynamics.schedule.warmup={steps=5}"}}},
      {"train.dynamics.schedule.warmup.from", {{"train.dynamics.schedule.warmup={steps=5,from=0.5}"}}},
      {"train.dynamics.schedule.warmup.prefix", {{"train.dynamics.schedule.warmup={steps=5,prefix=true}"}}},
      {"train.average.kind", {{"train.average={kind=\"swa\"}"}, {}, {}, {"train.average={kind=\"ema\"}"}}},
      {"train.average.decay", {{"train.average.decay=0.5"}, {}, {}, {"train.average={kind=\"ema\"}"}}},
      {"train.average.bias_correction", {{"train.average.bias_correction=true"}, {}, {}, {"train.average={kind=\"ema\"}"}}},
      {"train.average.start", {{"train.average.start=3"}, {}, {}, {"train.average={kind=\"ema\"}"}}},
      {"train.average.start_fraction",
       {{"train.average.start_fraction=0.25"}, {}, {}, {"train.average={kind=\"ema\",start_fraction=0.5}"}}},
      {"train.average.every", {{"train.average.every=2"}, {}, {}, {"train.average={kind=\"ema\"}"}}},
      {"train.average.evaluate", {{"train.average.evaluate=\"both\""}, {}, {}, {"train.average={kind=\"ema\"}"}}},
      {"train.average.write", {{"train.average.write=\"weights\""}, {}, {}, {"train.average={kind=\"ema\"}"}}},
      {"train.sync.mode", {{"train.sync={mode=\"ssp\",staleness=2}"}}},
      {"train.sync.when.kind",
       {{"train.sync.when={kind=\"every\",steps=2}"}, {}, {}, {"train.sync={mode=\"easgd\",when={kind=\"every\",steps=3}}"}}},
      {"train.exchange.reducer", {{"train.exchange={reducer=\"tree\"}"}}},
      {"train.exchange.compress", {{"train.exchange={reducer=\"server\",compress=\"fp16\"}"}}},
      {"train.exchange.fraction",
       {{"train.exchange.fraction=0.2"}, {}, {}, {"train.exchange={reducer=\"server\",compress=\"topk\"}"}}},
      {"train.exchange.threshold",
       {{"train.exchange.threshold=0.2"}, {}, {}, {"train.exchange={reducer=\"server\",compress=\"threshold\"}"}}},
      {"train.freeze", {{"train.freeze=[\"conv1\"]"}}},
      {"train.max_skipped", {{"train.max_skipped=3"}}},
      {"train.deterministic", {{"train.deterministic=false"}}},
      {"train.finish.epochs", {{"train.finish={epochs=3}"}}},
      {"train.finish.steps", {{"train.finish.steps=30"}}},
      {"train.finish.patience", {{"train.finish={patience=3}", "eval.every=5"}}},
      {"train.finish.measure", {{"train.finish={patience=3,measure=\"loss\"}", "eval.every=5"}}},
      {"train.finish.target_accuracy", {{"train.finish={target_accuracy=0.9}", "eval.every=5"}}},
      {"train.finish.time", {{"train.finish={time=\"1h\"}"}}},
      {"train.finish.who", {{"train.finish.who=\"any\""}}},
      {"train.finish.custom.kind", {{"train.finish={custom={kind=\"epochs\",count=2}}"}}},
      {"eval.every", {{"eval.every=5"}}},
      {"eval.batch", {{"eval.batch=36"}}},
      {"eval.split", {{"eval.split=\"train\""}}},
      {"checkpoint.every", {{"checkpoint.every=5"}}},
      {"checkpoint.keep", {{"checkpoint.keep=3"}}},
      {"checkpoint.dir", {{"checkpoint.dir=\"/tmp\""}}},
      {"checkpoint.resume", {{"checkpoint.resume=\"auto\""}}},
      {"checkpoint.match", {{"checkpoint.match=\"names\""}}},
      {"pipeline.packets", {{"pipeline.packets=2"}}},
      {"pipeline.sub_solvers", {{"pipeline.sub_solvers=2"}}},
      {"pipeline.fuse", {{"pipeline.fuse=\"auto\""}}},
      {"pipeline.fuse_layers", {{"pipeline.fuse_layers=false"}}},
      {"pipeline.weights", {{"pipeline.weights=\"stash\""}}},
      {"topology.worker_groups", {{"topology.worker_groups=2"}, {}, {}, {"train.sync={mode=\"easgd\"}"}}},
      {"topology.workers_per_group", {{"topology.workers_per_group=2"}}},
      {"topology.servers_per_group", {{"topology.servers_per_group=2"}}},
      {"topology.colocated", {{"topology.colocated=false"}}},
      {"topology.max_block", {{"topology.max_block=4096"}}},
  };
  return all;
}

class resume_key_table : public testing::Test {
 protected:
  static std::string text_for(const other_job& o) {
    std::string text = lenet_like();
    for (auto at = o.from.empty() ? std::string::npos : text.find(o.from); at != std::string::npos; at = text.find(o.from, at))
      text.replace(at, o.from.size(), o.to);
    return text;
  }
  checkpoint kept(const prepared_job& j, const std::string& mode = {}) {
    store_effect s{store_effect::kind_of::checkpoint, 3, initial_weights(j, dev_->host()), std::make_shared<handover>()};
    const auto params = s.named;
    for (const auto& [name, value] : params)
      for (const auto& state : make_rule(j)->states()) s.named.emplace_back(name + "@" + state, value);
    auto h = std::make_shared<handover>();
    h->step = h->evaluated = 3;
    h->mode = mode;
    s.with = h;
    return checkpoint_of(j, s, numerics_);
  }
  std::string refusal(prepared_job& j, const checkpoint& c) const {
    return test::error_text(resume_from(j, c, "c.safetensors", numerics_, {}));
  }

  std::unique_ptr<device> dev_ = make_cpu_device();
  std::string numerics_ = dev_->numerics_id();
};

class read_source final : public source {
 public:
  shape example() const override { return {2}; }
  std::int64_t classes() const override { return 2; }
  std::int64_t size(split) const override { return 3; }
  void read(split, const std::vector<std::int64_t>&, tensor&, tensor&) const override { ++reads; }
  mutable int reads = 0;
};

TEST(data_identity, reads_each_of_several_sources_once) {
  const auto one = std::make_shared<read_source>(), other = std::make_shared<read_source>();
  for (int i = 0; i < 3; ++i)
    for (const auto& s : {one, other}) EXPECT_TRUE(identity_of(s).starts_with("sha256 "));
  EXPECT_EQ(one->reads, 3);
  EXPECT_EQ(other->reads, 3);
}

TEST(data_identity, is_empty_without_data) {
  const auto j = job_of(lenet_like());
  EXPECT_NE(identity_of(j->data), "");
  EXPECT_EQ(identity_of(make_counted(*j, j->nodes).value()->data), "");
  EXPECT_EQ(identity_of(nullptr), "");
}

TEST_F(resume_key_table, contains_every_key_of_the_job_file_exactly_once) {
  const auto keys = keys_of_the_file();
  EXPECT_GT(keys.size(), 70u);
  for (const auto& k : keys) EXPECT_TRUE(row_of(k)) << k << " has no entry";
  std::set<std::string> seen;
  for (const auto& k : resume_keys()) {
    EXPECT_TRUE(seen.insert(k.key).second) << k.key << " has two entries";
    EXPECT_TRUE(keys.contains(k.key) || k.key.find(' ') != std::string::npos) << k.key << " is no key of the job file";
  }
}

// Keys in `untried` need more than one process and one file: another plugin, other data, several
// nodes.
TEST_F(resume_key_table, agrees_with_the_refusals_of_resume_from) {
  const std::set<std::string> untried{"include",           "included",         "block",
                                      "plugins",           "data.source",      "the order of the classes",
                                      "train.algorithm",   "train.sampler.*",  "train.sync.*",
                                      "train.sync.when.*", "train.exchange.*", "train.finish.custom.*",
                                      "eval.sampler.kind", "eval.sampler.*",   "topology.server_groups",
                                      "topology.replicas"};
  for (const auto& k : resume_keys()) {
    const auto at = other_jobs().find(k.key);
    EXPECT_NE(at == other_jobs().end(), untried.contains(k.key) == false) << k.key;
    if (at == other_jobs().end()) continue;
    const auto text = text_for(at->second);
    const auto c = kept(*job_of(lenet_like(), at->second.both));
    auto set = at->second.both;
    set.insert(set.end(), at->second.set.begin(), at->second.set.end());
    auto j = job_of(text, set);
    ASSERT_TRUE(j) << k.key;
    const auto why = refusal(*j, c);
    auto free = set;
    free.emplace_back("train.deterministic=false");
    const auto why_free = refusal(*job_of(text, free), c);
    EXPECT_EQ(why.empty(), k.rule == on_resume::allowed) << k.key << ": " << why;
    EXPECT_EQ(why_free.empty(), k.rule != on_resume::refused) << k.key << ": " << why_free;
    const auto named = k.key.substr(k.key.find('.') == std::string::npos ? 0 : k.key.rfind('.') + 1);
    if (!why.empty() && named != "*") {
      EXPECT_NE(why.find(named + " is "), std::string::npos) << why;
    }
  }
}

TEST_F(resume_key_table, accepts_the_mode_of_the_job_file_and_the_mode_switched_to) {
  const auto c = kept(*job_of(lenet_like()), "ssp staleness=2");
  auto as_filed = job_of(lenet_like());
  EXPECT_EQ(refusal(*as_filed, c), "");
  ASSERT_EQ(as_filed->before->notes.size(), 1u);
  EXPECT_EQ(as_filed->before->notes[0], "continues in mode bsp of the job file; the checkpoint was made in mode ssp staleness=2");
  auto switched = job_of(lenet_like(), {"train.sync={mode=\"ssp\",staleness=2}"});
  EXPECT_EQ(refusal(*switched, c), "");
  EXPECT_TRUE(switched->before->notes.empty());
  EXPECT_NE(refusal(*job_of(lenet_like(), {"train.sync={mode=\"ssp\",staleness=3}"}), c), "");
}

// A plan with amendments belongs to the same job.
TEST_F(resume_key_table, does_not_depend_on_moves_and_mode_switches) {
  const auto original = job_of(lenet_like(), {"topology.workers_per_group=2"});
  amendments switched, moved;
  switched.mode = "ssp";
  switched.mode_options = {{"staleness", "2"}};
  moved.layers = {{"ip1", {"local"}, true}};
  for (const auto& words : {switched, moved}) {
    auto made = prepare_again(original, words);
    if (!made) FAIL() << made.error().front().to_string();
    EXPECT_EQ(made_with(**made), made_with(*original));
  }
}

TEST_F(resume_key_table, accepts_older_checkpoints_without_the_keys) {
  auto c = kept(*job_of(lenet_like()));
  c.made_with.clear();
  EXPECT_EQ(refusal(*job_of(lenet_like(), {"data.batch=12"}), c), "");
  EXPECT_NE(refusal(*job_of(lenet_like(), {"job.seed=8"}), c), "") << "all files contain the seed";
}

}  // namespace
}  // namespace troupe
