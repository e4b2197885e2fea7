// Two levels of summing, as in Platoon: the workers of a node have consecutive ranks and sum at a
// reducer on the node of the first of them; between the nodes the sums travel as `between` says.
#pragma once

#include "runtime/plan/reducer_descriptor.hpp"

namespace troupe {

option_specs level_options();                    // `between`
reducer_placing place_levels(const options& o);  // of workers and shards
// `across`: of the reducers (reducer_layout::add).
void lay_out_levels(const options& o, reducer_layout& l, bool across);

}  // namespace troupe
