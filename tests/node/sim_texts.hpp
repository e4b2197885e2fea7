// Texts of simulation files for tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "runtime/node/config/sim_file.hpp"

namespace troupe::sim_texts {

inline sim_spec good(const std::string& text) {
  auto r = parse_sim(text, "sim.toml");
  if (!r) {
    for (const auto& d : r.error()) ADD_FAILURE() << d.to_string();
    return {};
  }
  return *std::move(r);
}

// n1, n2, ...
inline std::vector<std::string> numbered(int nodes) {
  std::vector<std::string> names;
  for (int i = 1; i <= nodes; ++i) names.push_back("n" + std::to_string(i));
  return names;
}

// A text, the position of its first mistake, and a part of the message.
struct row {
  const char* text;
  const char* at;
  const char* message;
};

inline void expect_mistakes(std::span<const row> rows) {
  for (const auto& r : rows) {
    SCOPED_TRACE(r.text);
    const auto parsed = parse_sim(r.text, "sim.toml");
    const auto* bad = parsed ? nullptr : &parsed.error();
    ASSERT_TRUE(bad);
    ASSERT_FALSE(bad->empty());
    EXPECT_EQ(bad->front().at.to_string(), std::string("sim.toml:") + r.at) << bad->front().message;
    EXPECT_THAT(bad->front().message, ::testing::HasSubstr(r.message));
  }
}

}  // namespace troupe::sim_texts
