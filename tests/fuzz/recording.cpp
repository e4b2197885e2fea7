// Fuzz target: plan.json of recordings and post-mortems, and the plan that is made of it, for a
// sound job file and log of messages.
#include <algorithm>

#include "runtime/job/amend.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/node/post_mortem.hpp"
#include "runtime/replay/log_stream.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/node/job_fixture.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::fuzz {
namespace {

struct recording_folder : test::temp_dir {
  recording_folder() {
    std::ofstream(file("job.toml")) << job_test::text_of(job_test::sound_lines());
    replay::log_stream s([](const std::string&) {});
    must(s.open(file("messages.stream"), {role_id{0}, role_id{1}}).has_value(), "cannot write the log of messages");
  }
};

// Returns true if a plan is made.
bool plan_of(const std::string& plan_json) {
  static const recording_folder folder;
  static const auto all = std::make_shared<const tables>(node_tables());
  std::ofstream(folder.file("plan.json"), std::ios::binary) << plan_json;
  auto m = read_post_mortem(folder.path);
  if (!m) {
    must(!m.error().message.empty(), "refused without a reason");
    return false;
  }
  must(m->messages.roles.size() == 2, "the roles of the log have changed");
  // Files and keys that the input names are not read here: job files have a target of their own.
  m->what.overrides.clear();
  m->what.file = "fuzz.toml";
  auto made = prepare_text(m->what, all, m->nodes);
  if (made && m->chosen) choose(**made, *m->chosen);
  if (made && m->changes != amendments{}) made = prepare_again(*made, m->changes);
  if (!made) must(!made.error().empty(), "refused without a reason");
  return made.has_value();
}

void read_recording(input in) { (void)plan_of(text(in)); }

std::vector<std::string> sound_recording() {
  const std::string begin =
      R"({"format": 1, "job": 3, "name": "small", "seed": 7, "file": "job.toml", "overrides": ["x=1"],
"nodes": [{"name": "n1", "devices": ["cpu:0"], "tflops": [0.5], "roles": ["coordinator", "worker", "server", "data"], "memory_limit": 0},
{"name": "n2", "devices": ["cpu:0", "cpu:1"], "tflops": [], "roles": ["coordinator", "worker", "server", "data"],
"memory_limit": 1000000000}], "leg": 1, "words": )";
  const std::string end = R"(, "mode": "bsp", "run": {"keeps_best": true, "histograms_every": 5, "checkpoint_seconds": 1.5},
"plan_sha256": "00ff", "begins": {"with": "fillers", "file": "", "sha256": "", "step": 0}, "node": "n1", "where": "", "error": "",
"step": 4, "began_ms": 1700000000000})";
  const std::vector<std::string> all{
      begin + R"({"layers": [], "without": [], "packets": [], "mode": "", "mode_options": []})" + end,
      begin + R"({"layers": [{"layer": "ip1", "place": ["n2"], "whole": true}], "without": ["n1"], "packets": [2, 2],
"mode": "", "mode_options": []})" +
          end,
      begin + R"({"layers": [], "without": ["n2"], "packets": [], "mode": "ssp", "mode_options": [["staleness", "3"]]})" + end};
  for (const auto& s : all) must(plan_of(s), "a sound file is refused");
  return all;
}

const entry recording_entry({"recording", read_recording, sound_recording, 10});

}  // namespace
}  // namespace troupe::fuzz
