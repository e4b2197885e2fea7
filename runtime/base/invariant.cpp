#include "runtime/base/invariant.hpp"

#include <stdexcept>
#include <string>

namespace troupe {

void violated(const char* text, const char* file, int line) {
  throw std::logic_error(std::string(file) + ":" + std::to_string(line) + ": invariant violated: " + text);
}

}  // namespace troupe
