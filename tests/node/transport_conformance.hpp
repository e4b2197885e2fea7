// Tests of the guarantees of every transport (runtime/node/net/transport.hpp): what arrives, in
// which order, and what happens when a peer is lost. A new transport is one more value at the end
// of transport_conformance_test.cpp.
#pragma once

#include <gtest/gtest.h>

#include "runtime/node/net/local_transport.hpp"
#include "runtime/node/net/transports.hpp"
#include "tests/node/net_support.hpp"

namespace troupe::net::testing {

inline bool same(const frame& f, const bytes& sent) { return f.payload && whole(f) == sent; }

// "tcp", "local", "set" (local where it reaches, otherwise tcp), "shm" (tcp with shared buffers).
class transport_conformance : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto hub = make_local_hub();
    std::vector<transport_descriptor> entries;
    const bool shares = GetParam() == "shm";
    if (GetParam() != "tcp" && !shares) entries.push_back(local_descriptor(hub));
    if (GetParam() != "local") entries.push_back(tcp_descriptor());
    node::make = [this, entries, shares](tcp_options o, callbacks on) {
      if (shares) o.shares = *shared_arena::make(arena_bytes_);
      return make_transports(entries, o, std::move(on));
    };
  }
  // Returns true if the receiver reads regions of the sender in place.
  static bool by_pointer() { return GetParam() == "local" || GetParam() == "set"; }
  void TearDown() override { node::make = nullptr; }

  std::uint64_t arena_bytes_ = std::uint64_t{4} << 30;  // of every node that shares memory
};

}  // namespace troupe::net::testing
