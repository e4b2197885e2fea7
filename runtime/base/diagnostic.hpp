// A user's mistake, with the place it was made. Printed as `file:line:col: message`.
#pragma once

#include <string>
#include <vector>

namespace troupe {

struct source_position {
  std::string file;
  int line = 0;  // from 1; 0: no position (an override on the command line names itself in `file`)
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
