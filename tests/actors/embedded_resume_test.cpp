// Tests of stopping a job and resuming it from its checkpoint file in one process: it continues as
// if unbroken, with the settings of users and the progress of its finish conditions.
#include <unistd.h>

#include <filesystem>

#include "runtime/base/number_text.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/job/amend.hpp"
#include "runtime/record/checkpoint.hpp"
#include "tests/actors/embedded_support.hpp"
#include "tests/error_text.hpp"

namespace troupe {
namespace {

using namespace testing_embedded;

struct stopped_run {
  checkpoint kept;
  std::optional<set_value> set;  // as the coordinator applied it
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
  // Runs until it is stopped at step `at`, with the command `word` two steps before. Returns the
  // checkpoint from disk.
  stopped_run stopped(const overrides& set, std::uint64_t at, std::optional<command> word = {}) {
    const auto j = job_of(lenet_like(), set);
    const auto file = (folder_ / "c.safetensors").string();
    stopped_run r;
    embedded_options o;
    o.threads = 2;
    embedded_run* self = nullptr;
    o.on_event = [&](const event_effect& e) {
      if (e.is<step_event>() && e.step + 2 == at && word) self->command(*word);
      if (e.is<step_event>() && e.step == at) self->stop();
      if (const auto* s = e.as<set_event>()) r.set = set_value{s->setting.first, s->setting.second, e.step};
    };
    o.on_store = [&](const store_effect& s) {
      if (s.what == store_effect::kind_of::checkpoint) {
        EXPECT_EQ(test::error_text(write_checkpoint(file, checkpoint_of(*j, s, numerics_))), "");
      }
    };
    embedded_run run(j, std::move(o));
    self = &run;
    EXPECT_TRUE(run.run().stopped);
    auto read = load_checkpoint(file);
    if (!read) {
      ADD_FAILURE() << read.error().to_string();
      return r;
    }
    r.kept = *std::move(read);
    return r;
  }
  std::shared_ptr<prepared_job> going_on(const overrides& set, const checkpoint& c, const overrides& given = {}) {
    auto j = job_of(lenet_like(), set);
    EXPECT_EQ(test::error_text(resume_from(*j, c, "c.safetensors", numerics_, given)), "");
    return j;
  }

  std::filesystem::path folder_;
  std::unique_ptr<device> dev_ = make_cpu_device();
  std::string numerics_ = dev_->numerics_id();
};

// The reference is an unbroken run with the same setting from the same step on.
TEST_F(embedded_resume, retains_settings_made_by_a_user) {
  for (const char* rule : {"momentum", "adam"}) {
    const overrides set{std::string("train.dynamics={rule=\"") + rule + "\",lr=0.01}", "train.finish.steps=60"};
    const auto half = stopped(set, 12, command{set_command{"train.dynamics.lr", 0.002}});
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
    // An override at the resume replaces the retained setting.
    EXPECT_TRUE(going_on(set, half.kept, {"train.dynamics.lr=0.01"})->before->settings.empty());
    EXPECT_EQ(going_on(set, half.kept, {"train.dynamics.lrr=0.01"})->before->settings.size(), 1u);
  }
}

// The rate depends on the step of the job, and the moments on the updates: both continue.
TEST_F(embedded_resume, continues_adamw_and_cosines_in_their_middle_with_the_same_bits) {
  for (const char* schedule : {"{kind=\"cosine\",steps=40,final=0.001,warmup={steps=20,from=0.1}}",
                               "{kind=\"cosine_restarts\",steps=7,growth=2,warmup={steps=5,from=0.1,prefix=true}}"}) {
    const overrides set{std::string("train.dynamics={rule=\"adamw\",lr=0.01,decay=0.05,schedule=") + schedule + "}",
                        "layer.loss.label_smoothing=0.1", "layer.ip2.decay_scale=[1,0]", "train.finish.steps=60"};
    const auto half = stopped(set, 12);
    ASSERT_LT(half.kept.step, 60u);
    auto more = set;
    more.emplace_back("topology.workers_per_group=2");
    EXPECT_EQ(embedded(going_on(more, half.kept)).weights_sha256, embedded(job_of(lenet_like(), set)).weights_sha256)
        << schedule << " stopped at step " << half.kept.step;
  }
}

TEST_F(embedded_resume, continues_the_count_of_patience) {
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

// Bias correction counts the updates of the moments and not steps. They differ if, for example, the
// worker steps by itself.
TEST_F(embedded_resume, retains_the_update_count_of_the_rule) {
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

// With a shorter interval the next evaluation by the old count lies before the first step. The job
// waited for that step without end.
TEST_F(embedded_resume, evaluates_at_the_next_multiple_when_the_interval_is_shorter) {
  const auto half = stopped({"train.finish.steps=1000", "eval.every=1000"}, 6);
  // The step at which a stopped job ends depends on how far its actors have run ahead.
  const auto last = half.kept.step / 5 * 5 + 18;
  std::vector<std::uint64_t> expected, evaluated;
  for (std::uint64_t step = (half.kept.step + 4) / 5 * 5; step < last; step += 5) expected.push_back(step);
  expected.push_back(last);
  embedded_options o;
  o.on_event = [&](const event_effect& e) {
    if (e.is<eval_event>()) evaluated.push_back(e.step);
  };
  const auto r =
      embedded_run(going_on({"train.finish.steps=" + std::to_string(last), "eval.every=5"}, half.kept), std::move(o)).run();
  EXPECT_TRUE(r.ok) << r.error;
  EXPECT_EQ(evaluated, expected);
}

// A file from before progress was saved.
TEST_F(embedded_resume, continues_an_old_file_without_progress_with_the_same_bits) {
  for (const char* rule : {"momentum", "adam"}) {
    const overrides set{std::string("train.dynamics={rule=\"") + rule + "\",lr=0.01}", "train.finish.steps=40"};
    auto old = stopped(set, 7).kept;
    old.progress.clear();
    EXPECT_EQ(embedded(going_on(set, old)).weights_sha256, embedded(job_of(lenet_like(), set)).weights_sha256) << rule;
  }
}

// In a different job the saved steps, epochs and examples would have another meaning.
TEST_F(embedded_resume, names_the_key_and_both_values_when_the_job_differs) {
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
    const auto why = test::error_text(resume_from(*j, c, "c.safetensors", numerics_, {}));
    EXPECT_EQ(why.rfind(std::string("c.safetensors: ") + text, 0), 0u) << set << ": " << why;
    EXPECT_NE(why.find("--weights FILE"), std::string::npos) << why;
  }
}

// With such a number the round in progress would never match, and the job would wait without end.
TEST_F(embedded_resume, refuses_progress_numbers_that_no_job_can_reach) {
  const auto c = stopped({}, 3).kept;
  for (const char* key : {"evaluated", "rounds", "updates.ip1.weight"}) {
    auto other = c;
    other.progress[key] = "18446744073709551615";
    auto j = job_of(lenet_like());
    const auto why = test::error_text(resume_from(*j, other, "c.safetensors", numerics_, {}));
    EXPECT_NE(why.find(std::string("metadata 'progress.") + key + "' is 18446744073709551615"), std::string::npos)
        << key << ": " << why;
  }
}

// Pairs of a key with a number as its value, and the text after the number.
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

// Replaces every number of a file, with valid checksums: the job is either refused with the field's
// name, or trains to its end.
TEST_F(embedded_resume, refuses_or_ends_for_any_number_in_a_valid_file) {
  const overrides set{"train.dynamics.lr=0", "train.finish={patience=3}", "eval.every=4"};
  stopped(set, 6, command{set_command{"train.dynamics.decay", 0.002}});
  const auto file = (folder_ / "c.safetensors").string();
  auto read = read_safetensors(file);
  ASSERT_TRUE(read);
  const auto& sound = *read;
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
      ASSERT_EQ(test::error_text(write_safetensors(file, sound.named, metadata)), "");
      auto j = job_of(lenet_like(), set);
      auto loaded = load_checkpoint(file);
      expected<void, record_error> resumed;
      if (!loaded)
        resumed = unexpected(loaded.error());
      else
        resumed = resume_from(*j, *std::move(loaded), file, numerics_, {});
      if (!resumed) {
        ++refused;
        const auto& why = resumed.error().message;
        const auto field = key.substr(key.find('.') + 1);
        EXPECT_TRUE(why.find(field) != std::string::npos || key.starts_with("made_with."))
            << key << " = " << metadata[key] << ": " << why;
        continue;
      }
      ++ended;
      const auto r = embedded(j);
      const bool named = r.error.find("is not finite") != std::string::npos;  // users may set such a rate too
      EXPECT_TRUE(r.ok || named) << key << " = " << metadata[key] << ": " << r.error;
    }
  EXPECT_GT(refused, fields.size() * 4);
  EXPECT_GT(ended, fields.size());
}

TEST_F(embedded_resume, names_the_key_when_a_value_is_malformed) {
  auto c = stopped({}, 3).kept;
  c.progress["rounds"] = "many";
  auto j = job_of(lenet_like());
  EXPECT_EQ(test::error_text(resume_from(*j, c, "c.safetensors", numerics_, {})),
            "c.safetensors: metadata 'progress.rounds' is malformed");
  EXPECT_FALSE(j->before);
}

}  // namespace
}  // namespace troupe
