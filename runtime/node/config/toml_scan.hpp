// The parts of a TOML text that a layout keeps: statements with their comments, and values as
// tokens. Used on texts that the parser has accepted; on others the result has no meaning, but the
// functions end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct toml_statement {
  enum class kinds { blank, comment, header, key } kind = kinds::blank;
  std::string key;      // of a key; the path of a header: "train.dynamics"
  std::string text;     // the statement in the layout, without the comment behind it
  std::string comment;  // with '#'; of a comment line, or behind a statement
  bool list = false;    // a header [[...]]
};

// The statements of a text, line by line; a value of several lines is one statement.
std::vector<toml_statement> toml_statements(std::string_view text);

}  // namespace troupe
