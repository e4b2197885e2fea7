// `images`: labelled image folders as a data source (docs/data.md). All images are decoded when the source is opened and kept in
// memory as bytes, because a source has nobody to tell once training runs: a broken file is found before anything starts. The
// bound is memory_mib. Errors: option_error, whose text names the file. Threading: as source.hpp says.
#pragma once

#include "runtime/data/source.hpp"

namespace troupe {

source_type images_source_type();

}  // namespace troupe
