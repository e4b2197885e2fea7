// A registry of types that a job file can name: layers, rules, schedules. Entries have a `name`, a
// `doc` and `specs` (their options).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

template <class Row>
class type_table {
 public:
  // A later entry of the same name replaces the earlier one.
  void add(Row row) {
    std::string name = row.name;
    rows_.insert_or_assign(std::move(name), std::move(row));
  }
  const Row* find(std::string_view name) const {
    auto i = rows_.find(name);
    return i == rows_.end() ? nullptr : &i->second;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, row] : rows_) all.push_back(name);
    return all;
  }

 private:
  std::map<std::string, Row, std::less<>> rows_;
};

}  // namespace troupe
