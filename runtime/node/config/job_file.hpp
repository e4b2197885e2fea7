// Job files: TOML -> job_spec (docs/job-file.md). Every name, kind and range is checked against the
// tables, so that later errors can only concern the model itself (graph.hpp) and the data
// (source.hpp).
// Errors: diagnostics with file, line and column; as many as can be found. Reading a file never
// runs code: read_plugins returns the plugins that it names, and the caller loads them into the
// tables before parse_job.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/job/tables.hpp"
#include "runtime/node/config/job_document.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// The plugins that a job or cluster file names, resolved against the file's folder; a missing one
// is an error. `overrides`: "key.path=value", as given to --set. `only`: a plugin must be one of
// these, given by its path or file name; no other file is accessed.
expected<std::vector<std::string>, diagnostics> read_plugins(const std::string& text, const std::string& file,
                                                             const std::vector<std::string>& overrides = {},
                                                             const std::vector<std::string>* only = nullptr);

expected<job_spec, diagnostics> parse_job(const std::string& text, const std::string& file, const tables& all,
                                          const std::vector<std::string>& overrides = {},
                                          const std::vector<std::string>* only_plugins = nullptr);

// The same of a document of `file` that was read before: a reader of both parses a text only once.
expected<std::vector<std::string>, diagnostics> read_plugins(const job_document& d, const std::string& file,
                                                             const std::vector<std::string>* only = nullptr);
expected<job_spec, diagnostics> parse_job(const job_document& d, const std::string& file, const tables& all,
                                          const std::vector<std::string>* only_plugins = nullptr);

// As parse_job, with the text from a file (at most 1 MiB).
expected<job_spec, diagnostics> read_job_file(const std::string& path, const tables& all,
                                              const std::vector<std::string>& overrides = {});

// The text of a job file and of the files that it includes (include.hpp), for callers that parse or
// send it. Other configuration files: their text.
expected<std::string, diagnostics> read_config_text(const std::string& path);

}  // namespace troupe
