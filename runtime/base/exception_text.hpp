// What a caught exception says, for hosts that turn exceptions into values.
#pragma once

#include <exception>
#include <string>

namespace troupe {

// To be called inside a catch (...) only.
inline std::string current_exception_text() {
  try {
    throw;
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace troupe
