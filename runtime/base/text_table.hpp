// Text tables with aligned columns. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace troupe {

std::size_t shown_width(const std::string& utf8);  // in characters

// Each column is as wide as its widest cell, with two blanks between columns.
class text_table {
 public:
  explicit text_table(std::vector<std::string> head) : rows_{std::move(head)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void right(std::size_t column) { right_.push_back(column); }  // aligns a column, e.g. of numbers, to the right
  std::string text() const;                                     // without a newline at the end

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> right_;
};

}  // namespace troupe
