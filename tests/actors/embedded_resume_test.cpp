// A job that is stopped and goes on from its checkpoint file, in one process: as if nothing had happened, with all that people had set and that its
// finish conditions had come to.
#include <unistd.h>

#include <filesystem>

#include "runtime/job/amend.hpp"
#include "runtime/pipeline/handover.hpp"
#include "runtime/record/checkpoint.hpp"
#include "tests/actors/embedded_support.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;

struct stopped_run {
  checkpoint kept;
  std::optional<set_value> set;  // as the coordinator heard it
};

class embedded_resume : public testing::Test {
 protected:
  embedded_resume() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe_resume_XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    folder_ = name;
  }
  ~embedded_resume() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  // Stops at a step, and says `word` two steps before; its checkpoint comes from the disk.
  stopped_run stopped(const overrides& set, std::uint64_t at, std::optional<command> word = {}) {
    const auto j = job_of(lenet_like(), set);
    const auto file = (folder_ / "c.safetensors").string();
    stopped_run r;
    embedded_options o;
    o.threads = 2;
    embedded_run* self = nullptr;
    o.on_event = [&](const event_effect& e) {
      if (e.kind == "step" && e.step + 2 == at && word) self->command(*word);
      if (e.kind == "step" && e.step == at) self->stop();
      if (e.kind == "set") r.set = set_value{e.values.at(0).first, e.values.at(0).second, e.step};
    };
    o.on_store = [&](const store_effect& s) {
      if (s.what == "checkpoint") {
        const auto bad = write_checkpoint(file, checkpoint_of(*j, s, numerics_));
        EXPECT_FALSE(bad) << bad->to_string();
      }
    };
    embedded_run run(j, std::move(o));
    self = &run;
    EXPECT_TRUE(run.run().stopped);
    auto read = load_checkpoint(file);
    if (const auto* bad = std::get_if<record_error>(&read)) {
      ADD_FAILURE() << bad->to_string();
      return r;
    }
    r.kept = std::get<checkpoint>(std::move(read));
    return r;
  }
  std::shared_ptr<prepared_job> going_on(const overrides& set, const checkpoint& c, const overrides& given = {}) {
    auto j = job_of(lenet_like(), set);
    const auto bad = resume_from(*j, c, "c.safetensors", numerics_, given);
    EXPECT_FALSE(bad) << bad->to_string();
    return j;
  }

  std::filesystem::path folder_;
  std::unique_ptr<device> dev_ = make_cpu_device();
  std::string numerics_ = dev_->numerics_id();
};

// The reference is a run that was never stopped, and in which the same was set from the same step on.
TEST_F(embedded_resume, what_a_person_has_set_holds_on) {
  for (const char* rule : {"momentum", "adam"}) {
    const overrides set{std::string("train.dynamics={rule=\"") + rule + "\",lr=0.01}", "train.finish.steps=60"};
    const auto half = stopped(set, 12, command{"set", "train.dynamics.lr", 0.002, {}});
    ASSERT_TRUE(half.set);
    ASSERT_LT(half.kept.step, 60u);
    auto unbroken = job_of(lenet_like(), set);
    const auto h = std::make_shared<handover>();
    h->settings = {*half.set};
    continue_at(*unbroken, 0, h, initial_weights(*unbroken, dev_->host()));
    const auto want = embedded(unbroken).weights_sha256;
    auto more = set;
    more.emplace_back("topology.workers_per_group=2");
    EXPECT_EQ(embedded(going_on(more, half.kept)).weights_sha256, want) << rule << " stopped at step " << half.kept.step;
    EXPECT_NE(embedded(job_of(lenet_like(), set)).weights_sha256, want) << "the setting matters";
    // Who goes on may say it anew.
    EXPECT_TRUE(going_on(set, half.kept, {"train.dynamics.lr=0.01"})->before->settings.empty());
    EXPECT_EQ(going_on(set, half.kept, {"train.dynamics.lrr=0.01"})->before->settings.size(), 1u);
  }
}

TEST_F(embedded_resume, patience_counts_on) {
  const overrides set{"train.dynamics.lr=0", "train.finish={patience=5}", "eval.every=4"};
  const auto unbroken = embedded(job_of(lenet_like(), set));
  ASSERT_EQ(unbroken.step, 24u) << "the first evaluation is the best there will be";
  const auto half = stopped(set, 10);
  ASSERT_GE(half.kept.step, 10u);
  ASSERT_LT(half.kept.step, 24u);
  EXPECT_EQ(embedded(going_on(set, half.kept)).step, 24u);
  auto forgetful = half.kept;
  forgetful.progress.erase("finish.patience");
  EXPECT_GT(embedded(going_on(set, forgetful)).step, 24u);
}

// Bias correction counts the updates that the moments have seen, and not steps: they differ where the worker steps by itself, say.
TEST_F(embedded_resume, how_many_updates_the_rule_has_seen_is_kept) {
  const overrides set{"train.dynamics={rule=\"adam\",lr=0.01}", "train.finish.steps=60"};
  const auto half = stopped(set, 8);
  auto other = half.kept;
  std::size_t counted = 0;
  for (auto& [key, text] : other.progress)
    if (key.starts_with("updates.")) {
      EXPECT_EQ(text, std::to_string(half.kept.step));
      text = "1";
      ++counted;
    }
  EXPECT_EQ(counted, job_of(lenet_like())->graph.params.size());
  EXPECT_NE(embedded(going_on(set, other)).weights_sha256, embedded(going_on(set, half.kept)).weights_sha256);
}

// A file of before progress was kept goes on as it always did.
TEST_F(embedded_resume, an_old_file_goes_on_with_the_same_bits) {
  for (const char* rule : {"momentum", "adam"}) {
    const overrides set{std::string("train.dynamics={rule=\"") + rule + "\",lr=0.01}", "train.finish.steps=40"};
    auto old = stopped(set, 7).kept;
    old.progress.clear();
    EXPECT_EQ(embedded(going_on(set, old)).weights_sha256, embedded(job_of(lenet_like(), set)).weights_sha256) << rule;
  }
}

TEST_F(embedded_resume, what_is_malformed_is_refused_by_its_key) {
  auto c = stopped({}, 3).kept;
  c.progress["rounds"] = "many";
  auto j = job_of(lenet_like());
  const auto bad = resume_from(*j, c, "c.safetensors", numerics_, {});
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->to_string(), "c.safetensors: metadata 'progress.rounds' is malformed");
  EXPECT_FALSE(j->before);
}

}  // namespace
}  // namespace troupe
