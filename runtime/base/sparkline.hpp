// Values as a line of block characters. Pure.
#pragma once

#include <string>
#include <vector>

namespace troupe {

// `columns` characters at most, one for each run of values, as high as their mean between the least
// and the largest mean. Values that are not finite are left out; a column without any is a blank.
// `blocks`: U+2581 to U+2588, otherwise ASCII.
std::string sparkline(const std::vector<double>& values, std::size_t columns, bool blocks);

// Bars of these heights, from 0 to the largest: a blank for 0.
std::string bars(const std::vector<double>& heights, bool blocks);

}  // namespace troupe
