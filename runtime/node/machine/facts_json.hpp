// Facts as JSON. Members that the text does not have keep their defaults, so that programs of
// different versions can read each other's facts.
#pragma once

#include <string>

#include "runtime/base/result.hpp"
#include "runtime/node/machine/facts.hpp"

namespace troupe::machine {

std::string to_json(const facts& f);
std::string to_json(const link& l);
expected<facts> facts_of_json(const std::string& text);
expected<link> link_of_json(const std::string& text);

}  // namespace troupe::machine
