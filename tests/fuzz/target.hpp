// Fuzz targets, one for each reader of untrusted bytes: for libFuzzer (scripts/fuzz), and for the
// ordinary test suite, which runs them on valid inputs and mutations (fuzz_test.cpp).
//
// A target must handle any input. It crashes or calls `broken` when the code under test has a bug.
// One process, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace troupe::fuzz {

using input = std::span<const std::uint8_t>;

struct target {
  const char* name;
  void (*one)(input);
  std::vector<std::string> (*sound)();  // valid inputs to start from
  std::uint64_t cost = 1;               // of an input; fuzz_test.cpp divides its number of inputs by it
};

// The linked targets, in the order of static initialisation.
std::vector<target>& targets();
struct entry {
  explicit entry(target t) { targets().push_back(t); }
};

[[noreturn]] inline void broken(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}
inline void must(bool holds, const char* what) {
  if (!holds) broken(what);
}

template <class Bytes>
std::string text(const Bytes& b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}

// Reads numbers and pieces from the front of an input; returns zeros and empty pieces at its end.
class reader {
 public:
  explicit reader(input in) : in_(in) {}
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      if (!in_.empty()) n |= std::uint64_t{in_[0]} << (8 * i), in_ = in_.subspan(1);
    }
    return n;
  }
  input take(std::size_t bytes) {
    const auto part = in_.first(bytes < in_.size() ? bytes : in_.size());
    in_ = in_.subspan(part.size());
    return part;
  }
  input rest() const { return in_; }
  bool done() const { return in_.empty(); }

 private:
  input in_;
};

}  // namespace troupe::fuzz
