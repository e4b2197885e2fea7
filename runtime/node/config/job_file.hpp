// Job files: TOML -> job_spec (docs: the job file). Every name, kind and range is checked against
// the tables, so what comes out can be built without further surprises but those of the model
// itself (graph.hpp) and of the data (source.hpp).
// Errors: diagnostics with file, line and column; as many as can be found. Loading a file never
// runs code: read_plugins only says which plugins it wants, the caller loads them into the tables
// before parse_job.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "runtime/job/tables.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// Plugins that a job or cluster file names, resolved against the file's folder; it is an error when
// one is not there. `overrides`: "key.path=value", as given to --set. `only`: a plugin must be one
// of these, by its path or by its file's name, and is found there; no other is looked for.
std::variant<std::vector<std::string>, diagnostics> read_plugins(const std::string& text, const std::string& file,
                                                                 const std::vector<std::string>& overrides = {},
                                                                 const std::vector<std::string>* only = nullptr);

std::variant<job_spec, diagnostics> parse_job(const std::string& text, const std::string& file, const tables& all,
                                              const std::vector<std::string>& overrides = {},
                                              const std::vector<std::string>* only_plugins = nullptr);

// The same with the text from a file (at most 1 MiB).
std::variant<job_spec, diagnostics> read_job_file(const std::string& path, const tables& all,
                                                  const std::vector<std::string>& overrides = {});

// A configuration file's text, for those who send it on.
std::variant<std::string, diagnostics> read_config_text(const std::string& path);

}  // namespace troupe
