#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {

std::vector<target>& targets() {
  static std::vector<target> all;
  return all;
}

}  // namespace troupe::fuzz
