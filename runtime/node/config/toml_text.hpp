// Values as TOML, for writers of files. parse_document reads each of them back as the same value of
// the same kind.  Threads: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/options.hpp"

namespace troupe {

// A basic string. Control characters are escaped; invalid UTF-8, which TOML cannot hold, becomes
// U+FFFD.
std::string toml_text(std::string_view s);
std::string toml_text(const std::string& s);
std::string toml_text(const char* s);
std::string toml_text(std::int64_t v);
std::string toml_text(double v);  // always with a point or an exponent, so that it is no integer
std::string toml_text(bool v);
std::string toml_text(const std::vector<std::string>& v);
std::string toml_text(const std::vector<std::int64_t>& v);
std::string toml_text(const std::vector<double>& v);
std::string toml_text(const options& o);  // an inline table
std::string toml_text(const option_value& v);
// A key, in quotes if TOML requires them.
std::string toml_key(const std::string& key);

}  // namespace troupe
