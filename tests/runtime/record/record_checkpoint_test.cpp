#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "runtime/data/random.hpp"
#include "runtime/record/checkpoint.hpp"
#include "tests/error_text.hpp"
#include "tests/failing_fsync.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe {
namespace {

using test::temp_dir;
using testing::HasSubstr;

tensor filled(shape s, std::uint64_t seed) {
  auto v = std::make_shared<std::vector<float>>(static_cast<std::size_t>(s.count()));
  for (std::size_t i = 0; i < v->size(); ++i) (*v)[i] = static_cast<float>(hash_at(seed, i) >> 40) * 0x1p-24f - 0.5f;
  return tensor::adopt(v, v->data(), s, dtype::f32);
}

// LeNet's small layers with momentum: 5 KB and 100 KB tensors, one of them spanning many pages.
checkpoint sample(std::uint64_t step) {
  checkpoint c;
  c.job = "lenet-fashion";
  c.step = step;
  c.seed = 42;
  c.packets = 4;
  c.numerics = "openblas-0.3.21-skylakex/packets=4";
  c.sampler_position = step + 1;
  c.named = {{"conv1.weight", filled({20, 1, 5, 5}, step)},
             {"conv1.weight@momentum", filled({20, 1, 5, 5}, step + 1)},
             {"conv1.bias", filled({20}, step + 2)},
             {"conv2.weight", filled({50, 20, 5, 5}, step + 3)},
             {"conv2.weight@momentum", filled({50, 20, 5, 5}, step)}};
  return c;
}

std::string load_error_of(const std::string& file) {
  const auto r = load_checkpoint(file);
  return r ? "no error" : r.error().to_string();
}

TEST(record_checkpoint, load_returns_what_was_saved) {
  temp_dir dir;
  const auto folder = dir.file("deep/folder");
  const auto c = sample(1200);
  ASSERT_EQ(test::error_text(save_checkpoint(folder, c)), "");
  EXPECT_THAT(checkpoint_files(folder), testing::ElementsAre(folder + "/checkpoint-000001-step-1200.safetensors"));
  const auto found = load_newest_checkpoint(folder);
  ASSERT_TRUE(found.newest);
  EXPECT_EQ(found.file, checkpoint_files(folder)[0]);
  EXPECT_TRUE(found.refused.empty());
  const auto& d = *found.newest;
  EXPECT_EQ(d.job, c.job);
  EXPECT_EQ(d.step, 1200u);
  EXPECT_EQ(d.seed, 42u);
  EXPECT_EQ(d.packets, 4u);
  EXPECT_EQ(d.numerics, c.numerics);
  EXPECT_EQ(d.sampler_position, 1201u);
  ASSERT_EQ(d.named.size(), c.named.size());
  for (std::size_t i = 0; i < c.named.size(); ++i) {
    EXPECT_EQ(d.named[i].first, c.named[i].first);
    EXPECT_EQ(d.named[i].second.dims(), c.named[i].second.dims());
    EXPECT_EQ(std::memcmp(d.named[i].second.raw(), c.named[i].second.raw(), c.named[i].second.bytes()), 0);
  }
}

TEST(record_checkpoint, keeps_the_last_two_and_the_newest_is_the_one_written_last) {
  temp_dir dir;
  for (std::uint64_t step : {100u, 200u, 300u}) ASSERT_EQ(test::error_text(save_checkpoint(dir.path, sample(step))), "");
  EXPECT_EQ(checkpoint_files(dir.path).size(), 2u);
  EXPECT_EQ(load_newest_checkpoint(dir.path).newest->step, 300u);
  // The job went back to step 150.
  ASSERT_EQ(test::error_text(save_checkpoint(dir.path, sample(150))), "");
  EXPECT_EQ(load_newest_checkpoint(dir.path).newest->step, 150u);
  EXPECT_EQ(checkpoint_files(dir.path).size(), 2u);
}

TEST(record_checkpoint, leaves_other_files_in_the_folder_alone) {
  temp_dir dir;
  for (const char* name : {"weights.safetensors", "checkpoint-x-step-1.safetensors", "checkpoint-1", "notes.tmp"})
    test::write_bytes(dir.file(name), {1});
  test::write_bytes(dir.file("checkpoint-000009-step-1.safetensors.tmp"), {1});
  for (std::uint64_t step = 0; step < 4; ++step) ASSERT_EQ(test::error_text(save_checkpoint(dir.path, sample(step))), "");
  for (const char* name : {"weights.safetensors", "checkpoint-x-step-1.safetensors", "checkpoint-1", "notes.tmp"})
    EXPECT_TRUE(std::filesystem::exists(dir.file(name))) << name;
  EXPECT_FALSE(std::filesystem::exists(dir.file("checkpoint-000009-step-1.safetensors.tmp"))) << "a killed writer's file remains";
}

TEST(record_checkpoint, loads_the_previous_one_if_the_newest_is_damaged) {
  temp_dir dir;
  ASSERT_EQ(test::error_text(save_checkpoint(dir.path, sample(1))), "");
  ASSERT_EQ(test::error_text(save_checkpoint(dir.path, sample(2))), "");
  const auto newest = checkpoint_files(dir.path)[0];
  auto b = test::read_bytes(newest);
  b.back() ^= 0x10;
  test::write_bytes(newest, b);
  auto found = load_newest_checkpoint(dir.path);
  ASSERT_TRUE(found.newest);
  EXPECT_EQ(found.newest->step, 1u);
  ASSERT_EQ(found.refused.size(), 1u);
  EXPECT_EQ(found.refused[0].to_string(), newest + ": tensor 'conv2.weight@momentum': damaged: its checksum differs");
  EXPECT_FALSE(load_newest_checkpoint(dir.file("none")).newest);
}

TEST(record_checkpoint, rejects_weights_of_other_tools) {
  temp_dir dir;
  ASSERT_EQ(test::error_text(write_safetensors(dir.file("w"), sample(1).named)), "");
  EXPECT_EQ(load_error_of(dir.file("w")), dir.file("w") + ": not a checkpoint");
  metadata_map m = {{"troupe.checkpoint", "1"}, {"troupe.job", "j"},     {"troupe.step", "12x"},           {"troupe.seed", "1"},
                    {"troupe.packets", "4"},    {"troupe.numerics", ""}, {"troupe.sampler_position", "12"}};
  ASSERT_EQ(test::error_text(write_safetensors(dir.file("w"), {}, m)), "");
  EXPECT_EQ(load_error_of(dir.file("w")), dir.file("w") + ": metadata 'troupe.step' is missing or malformed");
  m["troupe.checkpoint"] = "2";
  ASSERT_EQ(test::error_text(write_safetensors(dir.file("w"), {}, m)), "");
  EXPECT_EQ(load_error_of(dir.file("w")), dir.file("w") + ": unknown checkpoint format: 2");
}

// A tensor's name and its range in the file.
struct range {
  std::string name;
  std::size_t begin, end;
};
std::vector<range> ranges_of(const checkpoint& c, std::size_t file_bytes) {
  std::size_t data = 0;
  for (const auto& [name, t] : c.named) data += t.bytes();
  std::vector<range> out;
  std::size_t at = file_bytes - data;  // all are f32, so they are stored in the given order
  for (const auto& [name, t] : c.named) {
    out.push_back({name, at, at + t.bytes()});
    at += t.bytes();
  }
  return out;
}

// Promise 10 (docs/promises.md).
TEST(record_checkpoint, rejects_files_truncated_at_every_4_kib_with_the_tensors_name) {
  temp_dir dir;
  const auto c = sample(7);
  ASSERT_EQ(test::error_text(save_checkpoint(dir.path, c)), "");
  const auto file = checkpoint_files(dir.path)[0];
  const auto whole = test::read_bytes(file);
  const auto ranges = ranges_of(c, whole.size());
  std::set<std::string> named;
  for (std::size_t n = 0; n < whole.size(); n += 4096) {
    test::write_bytes(file, {whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)});
    const auto error = load_error_of(file);
    EXPECT_THAT(error, HasSubstr(file + ": ")) << n;
    EXPECT_THAT(error, HasSubstr(n == 0 ? "it is an empty file" : "truncated")) << n;
    for (const auto& r : ranges) {
      if (n >= r.end || n < ranges[0].begin) continue;
      EXPECT_THAT(error, HasSubstr("tensor '" + r.name + "'")) << n;
      named.insert(r.name);
      break;
    }
  }
  EXPECT_GE(named.size(), 3u);
}

// Promise 10 (docs/promises.md).
TEST(record_checkpoint, rejects_1000_random_bit_flips_with_the_tensors_name) {
  temp_dir dir;
  const auto c = sample(7);
  ASSERT_EQ(test::error_text(save_checkpoint(dir.path, c)), "");
  const auto file = checkpoint_files(dir.path)[0];
  const auto b = test::read_bytes(file);
  const auto ranges = ranges_of(c, b.size());
  std::fstream out(file, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](std::uint64_t at, std::uint8_t v) {
    out.seekp(static_cast<std::streamoff>(at));
    out.put(static_cast<char>(v));
    out.flush();
  };
  counter_rng rng(10);
  for (int i = 0; i < 1000; ++i) {
    // Every fourth one is in the header, which otherwise would get few of them.
    const auto at = rng.draw_below(i % 4 == 0 ? ranges[0].begin : b.size());
    const auto bit = static_cast<std::uint8_t>(1u << rng.draw_below(8));
    put(at, static_cast<std::uint8_t>(b[at] ^ bit));
    const auto error = load_error_of(file);
    EXPECT_THAT(error, HasSubstr(file + ": ")) << "byte " << at;
    for (const auto& r : ranges)
      if (at >= r.begin && at < r.end) {
        EXPECT_EQ(error, file + ": tensor '" + r.name + "': damaged: its checksum differs");
      }
    put(at, b[at]);
  }
  EXPECT_EQ(load_error_of(file), "no error");
}

// Promise 9 (docs/promises.md).
TEST(record_checkpoint, newest_complete_one_loads_after_each_of_200_random_kills) {
  temp_dir dir;
  temp_dir trial;
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t s = 0; s < 4; ++s) ASSERT_EQ(test::error_text(save_checkpoint(trial.path, sample(s))), "");
  const auto one_save = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count() / 4;
  counter_rng rng(9);
  std::uint64_t step = 0;
  // Kills come before and after the end of a save: the bound grows while no save is completed.
  auto bound = static_cast<double>(2 * one_save + 1000);
  for (int kill = 0; kill < 200; ++kill) {
    const auto pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      for (auto s = step + 1;; ++s)
        if (!save_checkpoint(dir.path, sample(s))) ::_exit(1);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(rng.draw_below(static_cast<std::uint64_t>(bound))));
    ::kill(pid, SIGKILL);
    int status = 0;
    ::waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed before the kill";
    const auto found = load_newest_checkpoint(dir.path);
    EXPECT_TRUE(found.refused.empty()) << found.refused[0].to_string();
    if (step > 0) {
      ASSERT_TRUE(found.newest) << "kill " << kill;
    }
    bound *= found.newest && found.newest->step > step ? 0.9 : 1.1;
    if (!found.newest) continue;
    EXPECT_GE(found.newest->step, step);
    step = found.newest->step;
  }
  EXPECT_GT(step, 20u) << "the writers made too little progress for a test";
}

// Promise 11 (docs/promises.md): the disk is full, here by a limit on file sizes.
TEST(record_checkpoint, a_failed_save_keeps_the_old_checkpoints) {
  temp_dir dir;
  ASSERT_EQ(test::error_text(save_checkpoint(dir.path, sample(1))), "");
  ASSERT_EQ(test::error_text(save_checkpoint(dir.path, sample(2))), "");
  const auto before = checkpoint_files(dir.path);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{50000, old.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto e = save_checkpoint(dir.path, sample(3));
  ::setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, handler);
  EXPECT_THAT(test::error_text(e), HasSubstr("checkpoint-000003-step-3.safetensors: cannot write: File too large"));
  EXPECT_EQ(checkpoint_files(dir.path), before);
  EXPECT_EQ(load_newest_checkpoint(dir.path).newest->step, 2u);
}

// Promise 11 (docs/promises.md): the disk fails. Returns the text of an attempt in a child process
// with a failing fsync; empty if the kernel does not allow that.
std::string with_failing_fsync(const std::function<std::string()>& attempt) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const auto pid = ::fork();
  if (pid == 0) {
    const auto said = test::fail_fsync() ? attempt() : std::string();
    const auto n = ::write(ends[1], said.data(), said.size());
    ::_exit(n == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[1024];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) said.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return said;
}

TEST(record_checkpoint, a_failed_fsync_keeps_the_old_checkpoints) {
  temp_dir dir;
  ASSERT_EQ(test::error_text(save_checkpoint(dir.path, sample(1))), "");
  ASSERT_EQ(test::error_text(save_checkpoint(dir.path, sample(2))), "");
  ASSERT_EQ(test::error_text(write_checkpoint(dir.file("one"), sample(2))), "");
  const auto before = checkpoint_files(dir.path);
  const auto said = with_failing_fsync([&] { return test::error_text(save_checkpoint(dir.path, sample(3))); });
  if (said.empty()) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(said, dir.file("checkpoint-000003-step-3.safetensors") + ": cannot sync: Input/output error");
  EXPECT_EQ(checkpoint_files(dir.path), before);
  EXPECT_EQ(load_newest_checkpoint(dir.path).newest->step, 2u);
  const auto one = with_failing_fsync([&] { return test::error_text(write_checkpoint(dir.file("one"), sample(3))); });
  EXPECT_THAT(one, HasSubstr("cannot sync: Input/output error"));
  const auto kept = load_checkpoint(dir.file("one"));
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->step, 2u);
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(dir.path)) ++files;
  EXPECT_EQ(files, 3u) << "a partly written file remains";
}

}  // namespace
}  // namespace troupe
