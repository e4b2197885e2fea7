#include "runtime/base/invariant.hpp"

#include <stdexcept>
#include <string>

namespace troupe {

void violated(const char* text, const std::source_location& at) {
  throw std::logic_error(std::string(at.file_name()) + ":" + std::to_string(at.line()) + ": invariant violated: " + text);
}

}  // namespace troupe
