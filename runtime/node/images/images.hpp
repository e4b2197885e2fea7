// `images`: labelled image folders as a data source (docs/data.md). With cache = "memory" all
// images are decoded when the source is opened and kept as bytes, within memory_mib: a broken file
// is found before anything starts. With cache = "none" only headers are read then, and read()
// decodes: a file that is broken behind its header, or turns so later, fails the job by its name.
// Errors: option_error, whose text names the file. Threading: as source.hpp says.
#pragma once

#include "runtime/data/source.hpp"

namespace troupe {

source_type images_source_type();

}  // namespace troupe
