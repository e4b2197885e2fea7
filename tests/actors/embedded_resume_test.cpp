// A job that is stopped and goes on from its checkpoint file, in one process: as if nothing had
// happened, with all that people had set and that its finish conditions had come to.
#include <unistd.h>

#include <filesystem>

#include "runtime/base/number_text.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/job/amend.hpp"
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

// The reference is a run that was never stopped, and in which the same was set from the same step
// on.
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

// Bias correction counts the updates that the moments have seen, and not steps: they differ where
// the worker steps by itself, say.
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

// Steps, epochs and examples would mean something else.
TEST_F(embedded_resume, refuses_a_job_that_is_not_the_same_and_names_the_key_and_both_values) {
  const auto c = stopped({}, 3).kept;
  const std::pair<const char*, const char*> wrong[] = {
      {"data.batch=12", "data.batch is 24 in the checkpoint and 12 in the job: "},
      {"data.examples=500", "the number of training examples is 600 in the checkpoint and 500 in the job: "},
      {"train.sync={mode=\"ssp\",staleness=2}", "train.sync.mode is bsp in the checkpoint and ssp staleness=2 in the job: "},
      {"layer.right.type=\"tanh\"", "layer.right.type is relu in the checkpoint and tanh in the job: "},
      {"job.seed=8", "job.seed is 7 in the checkpoint and 8 in the job: "},
      {"pipeline.packets=2", "pipeline.packets is 4 in the checkpoint and 2 in the job: "},
      {"job.precision=\"f64\"", "job.precision is fp32 in the checkpoint and f64 in the job: "}};
  for (const auto& [set, text] : wrong) {
    auto j = job_of(lenet_like(), {set});
    ASSERT_TRUE(j) << set;
    const auto bad = resume_from(*j, c, "c.safetensors", numerics_, {});
    EXPECT_TRUE(bad) << set << " was accepted";
    if (!bad) continue;
    EXPECT_EQ(bad->to_string().rfind(std::string("c.safetensors: ") + text, 0), 0u) << bad->to_string();
    EXPECT_NE(bad->to_string().find("--weights FILE"), std::string::npos) << bad->to_string();
  }
}

// A round under way would never be the one that is counted next, and the job would wait for ever.
TEST_F(embedded_resume, refuses_numbers_that_no_job_can_have_come_to) {
  const auto c = stopped({}, 3).kept;
  for (const char* key : {"evaluated", "rounds", "updates.ip1.weight"}) {
    auto other = c;
    other.progress[key] = "18446744073709551615";
    auto j = job_of(lenet_like());
    const auto bad = resume_from(*j, other, "c.safetensors", numerics_, {});
    EXPECT_NE((bad ? bad->to_string() : "accepted").find(std::string("metadata 'progress.") + key + "' is 18446744073709551615"),
              std::string::npos)
        << key << ": " << (bad ? bad->to_string() : "accepted");
  }
}

// Key, and what stands behind the number.
std::vector<std::pair<std::string, std::string>> numbers_in(const metadata_map& metadata) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const auto& [key, text] : metadata) {
    double number = 0;
    if (read_number(text, number)) fields.emplace_back(key, "");
    if (key == "progress.finish.patience") fields.emplace_back(key, " 0.5");
    if (key == "progress.set.0") fields.insert(fields.end(), {{key, " 0.002 train.dynamics.decay"}, {key, ""}});
  }
  return fields;
}

// Every number of a file, with checksums that fit: the job is refused by the field's name, or
// trains to its end.
TEST_F(embedded_resume, refuses_or_ends_whatever_number_a_sound_file_has) {
  const overrides set{"train.dynamics.lr=0", "train.finish={patience=3}", "eval.every=4"};
  stopped(set, 6, command{"set", "train.dynamics.decay", 0.002, {}});
  const auto file = (folder_ / "c.safetensors").string();
  auto read = read_safetensors(file);
  ASSERT_TRUE(std::holds_alternative<safetensors_content>(read));
  const auto& sound = std::get<safetensors_content>(read);
  const std::vector<std::string> numbers{"0",
                                         "1",
                                         "4",
                                         "5",
                                         "7",
                                         "2147483648",
                                         "4294967295",
                                         "9007199254740993",
                                         "4611686018427387904",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "-1",
                                         "0.5",
                                         "1e308",
                                         "1e999",
                                         "inf",
                                         "nan"};
  const auto fields = numbers_in(sound.metadata);
  EXPECT_GE(fields.size(), 15u);
  std::size_t refused = 0, ended = 0;
  for (const auto& [key, rest] : fields)
    for (const auto& number : numbers) {
      auto metadata = sound.metadata;
      metadata[key] = key == "progress.set.0" && rest.empty() ? "3 " + number + " train.dynamics.decay" : number + rest;
      ASSERT_EQ(write_safetensors(file, sound.named, metadata), std::nullopt);
      auto j = job_of(lenet_like(), set);
      auto loaded = load_checkpoint(file);
      std::optional<record_error> bad;
      if (auto* e = std::get_if<record_error>(&loaded))
        bad = *e;
      else
        bad = resume_from(*j, std::get<checkpoint>(std::move(loaded)), file, numerics_, {});
      if (bad) {
        ++refused;
        const auto field = key.substr(key.find('.') + 1);
        EXPECT_TRUE(bad->message.find(field) != std::string::npos || key.starts_with("made_with."))
            << key << " = " << metadata[key] << ": " << bad->message;
        continue;
      }
      ++ended;
      const auto r = embedded(j);
      const bool named = r.error.find("is not finite") != std::string::npos;  // a rate that people may set, too
      EXPECT_TRUE(r.ok || named) << key << " = " << metadata[key] << ": " << r.error;
    }
  EXPECT_GT(refused, fields.size() * 4);
  EXPECT_GT(ended, fields.size());
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
