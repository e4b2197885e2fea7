// A GPU as the REPL shows it, and as a node reports it to the coordinator's daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace troupe {

// Empty: unknown.
struct repl_gpu {
  std::uint32_t number = 0;                       // of "gpu:0" on its node
  std::string name = {}, failure = {};            // failure: why it does not answer; empty: it does
  std::uint64_t memory_total = 0;                 // bytes
  std::optional<std::uint64_t> memory_used = {};  // by all processes
  // Of the tensors of the node's daemon: bytes allocated from the GPU, in use, and the most that
  // was in use.
  std::optional<std::uint64_t> held = {}, in_use = {}, peak = {};
  std::optional<double> utilisation = {}, memory_utilisation = {};  // percent
  std::optional<double> temperature = {}, power = {};               // degrees Celsius, watts
  template <class S>
  static auto fields(S& s) {
    return std::tie(s.number, s.name, s.failure, s.memory_total, s.memory_used, s.held, s.in_use, s.peak, s.utilisation,
                    s.memory_utilisation, s.temperature, s.power);
  }
};

// What another node has reported, without what no GPU can have: at most max_gpus_shown entries of
// different numbers, short printable texts, numbers in their range. Others are unknown.
inline constexpr std::size_t max_gpus_shown = 64, max_gpu_name = 96, max_gpu_failure = 200;
std::vector<repl_gpu> plausible(const std::vector<repl_gpu>& reported);

}  // namespace troupe
