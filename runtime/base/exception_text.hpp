// The text of the exception that is being handled, for hosts that turn exceptions into values.
#pragma once

#include <exception>
#include <string>

namespace troupe {

// Call only inside a catch (...) block.
inline std::string current_exception_text() {
  try {
    throw;
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace troupe
