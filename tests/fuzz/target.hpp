// What reads bytes that others have written, one target each: for libFuzzer (scripts/fuzz), and in
// the ordinary suite over sound inputs and mutations of them, so that no target rots
// (fuzz_test.cpp).
//
// A target must answer anything: it crashes, or calls `broken`, where the code that it is for has a
// mistake. One process, one thread.
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
  std::vector<std::string> (*sound)();  // inputs to begin with
};

// Those that are linked, by name.
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

// Takes numbers from the front of an input; zeros when it has ended.
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
