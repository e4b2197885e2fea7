// `include = "base.toml"` of a job file: other job files whose keys are added to those of the file.
// The client reads the included files and appends their texts to the job's text, as [[included]]
// tables; the parser then finds them there and opens no file. So a daemon sees the same job as the
// client, and a job's text cannot make it read its own files.
// Errors: diagnostics, with positions in the file that has the mistake. The number of files, the
// depth and the size of all together are bounded.
#pragma once

#include <string>

#include "runtime/node/config/document.hpp"

namespace troupe {

constexpr std::size_t max_included = 64;  // files of one job
constexpr int max_include_depth = 8;

// `text` of the job file `file` with the texts of all files that it includes. A text without
// `include`, and one that is not TOML, is returned as it is.
expected<std::string, diagnostics> with_included_texts(const std::string& text, const std::string& file);

// Merges the included documents into `root` and removes `include` and `included`. The keys of
// `root` win, those of a later file over those of an earlier one; tables are merged; lists of
// [[layer]] and [[block]] are appended, included ones first. A file that is included several times
// counts once.
void merge_included(document_table& root, const std::string& file, diagnostics& errors);

}  // namespace troupe
