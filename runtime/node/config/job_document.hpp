// The document of a job file as its readers see it: included files are merged (include.hpp),
// overrides are applied, and blocks are written out as layers (blocks.hpp).
// Errors: diagnostics. No file is opened.
#pragma once

#include <string>
#include <vector>

#include "runtime/node/config/blocks.hpp"
#include "runtime/node/config/document.hpp"

namespace troupe {

struct job_document {
  document_table root;
  layer_origins origins;   // of layers that blocks became
  bool every_key = false;  // an earlier version of Troupe wrote it with every key (resolved_job.hpp)
};

// `overrides` of keys of a layer that only exists once blocks are written out
// ("layer.stage2_1_conv1.outputs=10") are applied to that layer.
expected<job_document, diagnostics> read_job_document(const std::string& text, const std::string& file,
                                                      const std::vector<std::string>& overrides);

}  // namespace troupe
