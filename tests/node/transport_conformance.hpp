// Tests of the guarantees of every transport (runtime/node/net/transport.hpp): what arrives, in
// which order, and what happens when a peer is lost. A new transport is one more value at the end
// of transport_conformance_test.cpp.
#pragma once

#include <gtest/gtest.h>

#include "runtime/node/net/tcp_transport.hpp"
#include "tests/node/net_support.hpp"

namespace troupe::net::testing {

inline bool same(const frame& f, const bytes& sent) { return f.payload && whole(f) == sent; }

// "tcp"; "shm": tcp that shares buffers with nodes of the same machine.
class transport_conformance : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    node::make = [this, shares = GetParam() == "shm"](tcp_options o, callbacks on) {
      if (shares) o.shares = *shared_arena::make(arena_bytes_);
      return make_tcp_transport(o, std::move(on));
    };
  }
  void TearDown() override { node::make = nullptr; }

  std::uint64_t arena_bytes_ = std::uint64_t{4} << 30;  // of every node that shares memory
};

}  // namespace troupe::net::testing
