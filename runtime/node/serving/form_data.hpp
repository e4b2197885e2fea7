// The parts of a form as browsers and `curl -F` send it: multipart/form-data (RFC 7578).
// Errors: values. Any bytes give parts or an error. Memory: a record for each part, at most
// `most_form_parts`; names and contents refer to the body.  Threads: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"

namespace troupe {

inline constexpr std::size_t most_form_parts = 4096, most_part_header = 8192;  // bytes of the header lines of a part

struct form_part {
  std::string_view name;  // of the field
  std::string_view file;  // name of the file as the client gave it; not to be used as a path
  bool is_file = false;
  std::string_view content;
};

// Whether a Content-Type is multipart/form-data.
bool is_form_data(std::string_view content_type);

// `content_type`: with the boundary.
expected<std::vector<form_part>> form_parts(std::string_view body, std::string_view content_type);

}  // namespace troupe
