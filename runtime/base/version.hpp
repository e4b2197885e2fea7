// The version of Troupe.
#pragma once

namespace troupe {

// "0.1.0", from CMakeLists.txt.
extern const char* const troupe_version;

}  // namespace troupe
