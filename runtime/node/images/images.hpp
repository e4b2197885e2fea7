// `images`: labelled image folders as a data source (docs/data.md). With cache = "memory" all
// images are decoded when the source is opened and kept as bytes, within memory_mib: a damaged file
// is found before the job starts. With cache = "none" only headers are read then, and read()
// decodes: a file that is damaged behind its header, or changes later, fails the job with its name.
// Errors: option_error, whose text names the file. Threading: as in source.hpp.
#pragma once

#include "runtime/data/source.hpp"

namespace troupe {

source_type images_source_type();

}  // namespace troupe
