// The text of a result's error, for assertions: EXPECT_EQ(error_text(save(file)), "").
#pragma once

#include <string>

#include "runtime/base/result.hpp"

namespace troupe::test {

// Empty if `r` has no error.
template <class T, class E>
std::string error_text(const expected<T, E>& r) {
  if (r) return {};
  const auto& e = r.error();
  if constexpr (requires { e.to_string(); }) {
    return e.to_string();
  } else if constexpr (requires { e.message; }) {
    return e.message;
  } else if constexpr (requires { e.text; }) {
    return e.text;
  } else {
    return all_of(e).text;  // diagnostics
  }
}

}  // namespace troupe::test
