// The options of a data source that are paths.
#pragma once

#include "ops/options.hpp"
#include "runtime/data/source.hpp"

namespace troupe {

// `o` with absolute paths in place of relative ones, which the source would resolve against the
// current folder. For a source that does not list its files (source_type::files), each text that
// contains '/' or names an existing file counts as a path.
options with_absolute_paths(const options& o, const source_type& type);

}  // namespace troupe
