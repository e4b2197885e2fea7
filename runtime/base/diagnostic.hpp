// A user's mistake and its position in a file. Printed as `file:line:column: message`.
#pragma once

#include <string>
#include <vector>

namespace troupe {

struct source_position {
  std::string file;
  int line = 0;  // 1-based; 0: no position (`file` alone, e.g. the text of a --set override)
  int column = 0;
  std::string to_string() const { return line > 0 ? file + ":" + std::to_string(line) + ":" + std::to_string(column) : file; }
};

struct diagnostic {
  source_position at;
  std::string message;
  std::string to_string() const {
    auto where = at.to_string();
    return where.empty() ? message : where + ": " + message;
  }
};
using diagnostics = std::vector<diagnostic>;

}  // namespace troupe
