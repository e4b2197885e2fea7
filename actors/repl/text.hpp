// Numbers and JSON lines for the REPL's tables. Private to actors/repl/.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "runtime/base/number_text.hpp"

namespace troupe::repl_text {

using json_object = nlohmann::ordered_json;

inline std::string line_of(const json_object& o) { return o.dump(-1, ' ', false, json_object::error_handler_t::replace); }

inline std::string number(double x) { return general_text(x, 6); }
template <class T>
requires std::is_integral_v<T> std::string number(T n) { return std::to_string(n); }

}  // namespace troupe::repl_text
