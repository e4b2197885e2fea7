// The keys of [train.average], and their reader.
#pragma once

#include "runtime/node/config/keys.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

const keys<average_spec>& average_keys();
void read_average(table_reader& r, average_spec& into);

}  // namespace troupe
