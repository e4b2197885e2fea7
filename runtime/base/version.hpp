// The version of Troupe.
#pragma once

namespace troupe {

// MAJOR.MINOR.PATCH, from CMakeLists.txt.
extern const char* const troupe_version;

}  // namespace troupe
