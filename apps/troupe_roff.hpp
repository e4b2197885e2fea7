// Writes roff with the macros of man(7).
#pragma once

#include <string>

namespace troupe {

// A text within a line: backslashes and hyphens are escaped, and `code` is bold.
std::string roff_text(const std::string& text);
// A text of several lines as filled text. A line break stays behind a short line, and before a line
// such as "mlp: a perceptron".
std::string roff_lines(const std::string& text);
// Lines as they are, indented: examples.
std::string roff_example(const std::string& text);
// The pages of runtime/node/config/reference.hpp: headings, paragraphs, fenced text, and tables of
// four columns, whose rows become entries.
std::string roff_of_reference(const std::string& markdown);

}  // namespace troupe
