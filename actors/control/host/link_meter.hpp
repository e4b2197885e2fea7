// Measures connections of the data plane: the sender sends probes, and the receiver answers each
// when it is complete. Probes are frames of types of their own beside the messages between roles
// (runtime/node/role_frames.hpp):
//
//   2 probe   id: of the probe; any payload, which may be shared as tensors are; answered by
//   3 answer  id: of the probe; no payload
//
// Threads: any; measure() blocks, the other functions do not.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/node/machine/facts.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::control {

class link_meter {
 public:
  // Handles a frame of the data plane if it is a probe or an answer; returns false otherwise.
  bool take(net::transport& t, const std::string& peer, const net::frame& f);

  // Connects if necessary, then measures the round trip and, with `burst`, the rate: 1 MiB, then
  // what the connection carries in about 0.1 s, at most 32 MiB. Takes less than 15 s.
  machine::link measure(net::transport& t, const std::string& peer, const net::address& at, bool burst);
  // Ends a measurement in progress; later ones fail.
  void stop();

 private:
  // Sends `count` probes and waits for their answers. Seconds; nullopt: they did not come.
  std::optional<double> ask(net::transport& t, const std::string& peer, std::size_t bytes, std::uint64_t count);
  bool connected(net::transport& t, const std::string& peer, const net::address& at);

  std::mutex lock_;  // of the following
  std::condition_variable changed_;
  bool stopped_ = false;
  std::uint64_t first_ = 1, end_ = 1;  // probes whose answers are awaited
  std::uint64_t left_ = 0;             // how many of them
};

}  // namespace troupe::control
