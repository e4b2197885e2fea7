// The text of a TOML file in one layout: `key = value` with single blanks, keys and tables in a
// given order, one empty line between tables. Comments, numbers and strings stay as they were
// written, and so do the lines of a value of several lines, which are indented anew.
//   - Keys are sorted where no comment is among them: a comment may be about several keys.
//   - A comment above a table belongs to the table, one below the keys of a table to these.
//   - Comments behind the values of consecutive lines begin in one column.
// The result is parsed and compared, so the document is the same as before; laying out the result
// again changes nothing.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/job/tables.hpp"
#include "runtime/node/config/document.hpp"

namespace troupe {

// A key of a table and its value as text.
using key_text = std::pair<std::string, std::string>;

struct layout_order {
  // Paths of tables ("train.dynamics") in order. A table that is not listed stays behind the one
  // that it follows.
  std::vector<std::string> tables;
  // The keys of the table `path` in order, of which the file has `keys`; may be empty.
  std::function<std::vector<std::string>(const std::string& path, const std::vector<key_text>& keys)> keys;
};

expected<std::string, diagnostics> laid_out(const std::string& text, const std::string& file, const layout_order& order);

// True if both have the same keys and values, in any order of keys.
bool same_content(const document_table& a, const document_table& b);

// The order of the reference. In a table that names an entry, the name of the table, of the entry
// and the inputs come first, then the options of the entry, then the other keys.
layout_order order_of_job_keys(const tables& all);
layout_order order_of_cluster_keys();

}  // namespace troupe
