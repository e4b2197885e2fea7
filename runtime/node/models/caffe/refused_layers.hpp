// Layer types of Caffe and its relatives without a counterpart in Troupe.
// Threads: pure functions.
#pragma once

#include <string>

#include "runtime/node/models/caffe/net.hpp"

namespace troupe::caffe {

// Whether layers of this type work on a net's results (boxes, measures, files) and have no
// counterpart in Troupe: the net is of use without them.
bool is_of_results(const std::string& type);

// What Troupe lacks, and what a user can do.
std::string why_refused(const net_layer& l);

}  // namespace troupe::caffe
