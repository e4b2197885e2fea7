// Sources of examples in files of other programs, whose readers are libraries.
#pragma once

#include <functional>

#include "runtime/data/source.hpp"
#include "runtime/node/formats/numpy_array.hpp"

namespace troupe {

constexpr std::int64_t most_classes = 1 << 24;  // that labels may name

source_type hdf5_source_type();   // hdf5_source.cpp
source_type lmdb_source_type();   // lmdb_source.cpp
source_type numpy_source_type();  // numpy_source.cpp

// A source of arrays of another origin, with the options of source "numpy" but `path` and
// `memory_mib`. `open`: returns the array that option `key` names, which allocates at most `most`
// bytes, or throws option_error. The source allocates at most option `memory_mib` for its arrays,
// labels and list of examples, and half of the memory that is left.
using array_opener = std::function<numpy_array(const options&, const char* key, std::uint64_t most)>;
option_specs array_options();
std::shared_ptr<const source> open_arrays(const options& o, const array_opener& open);
source_type array_source_type(std::string name, std::string doc, option_specs more, array_opener open);

}  // namespace troupe
