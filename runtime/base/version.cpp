#include "runtime/base/version.hpp"

namespace troupe {

const char* const troupe_version = TROUPE_VERSION;

}  // namespace troupe
