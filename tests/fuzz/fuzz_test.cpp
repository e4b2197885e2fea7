// Runs every fuzz target on its valid inputs and mutations of them, without libFuzzer, in any build
// (promise 20, docs/promises.md).
#include <gtest/gtest.h>

#include <set>

#include "tests/fuzz/target.hpp"
#include "tests/mutated.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::fuzz {
namespace {

input input_of(const std::string& s) { return {reinterpret_cast<const std::uint8_t*>(s.data()), s.size()}; }

TEST(fuzz, every_target_handles_mutated_inputs) {
  for (const auto& t : targets()) {
    SCOPED_TRACE(t.name);
    const auto sound = t.sound();
    ASSERT_FALSE(sound.empty());
    t.one({});
    for (const auto& s : sound) t.one(input_of(s));
    counter_rng random(20);
    for (auto n = test::fuzz_inputs(5000) / t.cost; n > 0; --n) {
      // An allocation of the exact size, so that sanitizers find reads beyond the end.
      const auto b = test::mutated(sound, random);
      const std::vector<std::uint8_t> exact(b.begin(), b.end());
      t.one(exact);
    }
  }
}

TEST(fuzz, all_targets_are_linked) {
  std::set<std::string> linked;
  for (const auto& t : targets()) EXPECT_TRUE(linked.insert(t.name).second) << t.name;
  EXPECT_EQ(linked,
            (std::set<std::string>{"caffemodel",  "checkpoint",     "cluster_file", "control",   "csv",          "exchange",
                                   "form_data",   "frame",          "hdf5",         "hello",     "http",         "idx",
                                   "image",       "job_file",       "journal",      "layout",    "lmdb",         "message",
                                   "message_log", "message_stream", "net_file",     "npy",       "npz",          "onnx",
                                   "packed",      "prototxt",       "recording",    "repl_line", "request_body", "run_files",
                                   "safetensors", "shared_buffers", "trace",        "web_socket"}));
}

}  // namespace
}  // namespace troupe::fuzz
