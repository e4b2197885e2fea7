// The terminal on stdout: whether lines can be redrawn and coloured, its width, and text that fits
// it. Off a terminal, and with TERM=dumb, output is plain lines; NO_COLOR switches colours off.
#pragma once

#include <cstddef>
#include <string>

namespace troupe {

enum class tint { none, faint, bold, good, warning };

struct screen {
  bool redraws = false;  // a terminal that understands control sequences
  bool colours = false;

  static screen of_stdout();
  // Columns of the terminal now; `otherwise` off a terminal.
  static std::size_t columns(std::size_t otherwise = 80);
  std::string painted(const std::string& text, tint t) const;  // printable, for output::drawn()
};

// Columns that UTF-8 text without control sequences takes, one for each character.
std::size_t width_of(const std::string& text);
// The first `columns` characters.
std::string cut_to(const std::string& text, std::size_t columns);

// `text` in lines of at most `columns`, broken at blanks; further lines begin with `indent` blanks.
// A line break in the text is kept. A word that is longer than a line is not broken.
std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent = 0);

// The path relative to the working directory if it is below it, else the path itself.
std::string near_path(const std::string& path);

// "data      TEXT": a label in a column of its own, with a line end, printable for output::drawn().
// On a terminal the text is wrapped to its width.
std::string labelled(const screen& s, const std::string& label, const std::string& text);

// Whether the locale's encoding is UTF-8. Also if no locale is named, as in many containers.
bool writes_utf8();

int terminal_width();     // of stdout; else $COLUMNS, else 80
bool terminal_unicode();  // the locale is UTF-8 and the terminal is not "dumb"
bool terminal_colour();   // stdout is a terminal that is not "dumb", and NO_COLOR is not set

// Whether stdin and stdout are a terminal, so that a question can be answered.
bool can_ask();
// Prints the question and reads a line. True for "y" and "yes".
bool ask_yes(const std::string& question);

}  // namespace troupe
