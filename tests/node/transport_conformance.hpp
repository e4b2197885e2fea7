// What every transport keeps (runtime/node/net/transport.hpp), over each of them: what arrives, in which order, and what happens when a
// peer is lost. A new transport is one more value at the end of transport_conformance_test.cpp.
#pragma once

#include <gtest/gtest.h>

#include "runtime/node/net/local_transport.hpp"
#include "runtime/node/net/transports.hpp"
#include "tests/node/net_support.hpp"

namespace troupe::net::testing {

inline bool same(const frame& f, const bytes& sent) {
  return f.payload && f.bytes == sent.size() && std::equal(sent.begin(), sent.end(), f.payload.get());
}

// "tcp", "local", "set": local where it reaches and else tcp.
class transport_conformance : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const auto hub = make_local_hub();
    std::vector<transport_row> rows;
    if (GetParam() != "tcp") rows.push_back(local_row(hub));
    if (GetParam() != "local") rows.push_back(tcp_row());
    node::make = [rows](const tcp_options& o, callbacks on) { return make_transports(rows, o, std::move(on)); };
  }
  void TearDown() override { node::make = nullptr; }
};

}  // namespace troupe::net::testing
