// The files of the page, web/dist, as they are in the program. CMake writes files.cpp.in with their
// bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct page_file {
  const char* path;  // "/app.js"; "/" is index.html
  const char* type;  // "text/javascript; charset=utf-8"
  std::string_view bytes;
};
const std::vector<page_file>& page_files();

}  // namespace troupe
