// Properties of the terminal that stdout is, and questions to the user.
#pragma once

#include <string>

namespace troupe {

int terminal_width();     // of stdout; else $COLUMNS, else 80
bool terminal_unicode();  // the locale is UTF-8 and the terminal is not "dumb"
bool terminal_colour();   // stdout is a terminal that is not "dumb", and NO_COLOR is not set

// Whether stdin and stdout are a terminal, so that a question can be answered.
bool can_ask();
// Prints the question and reads a line. True for "y" and "yes".
bool ask_yes(const std::string& question);

}  // namespace troupe
