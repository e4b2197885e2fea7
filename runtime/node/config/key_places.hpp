// The keys of a job file as dotted paths ("train.dynamics.lr"): for hints about a key in the wrong
// table, or with the name that other programs use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/job/tables.hpp"
#include "runtime/node/config/document.hpp"
#include "runtime/node/config/table_reader.hpp"

namespace troupe {

// All keys of a job file except those of [[layer]], with the options of the entries that a table
// may choose.
std::vector<std::string> job_key_paths(const tables& all);

// The `paths` that end with the key `name`, in any case and with '-' for '_'; else the key for
// which other programs use this name ("batch_size"); else the paths that end with the most similar
// key. Of several, the least nested ones. Empty if no key is similar.
std::vector<std::string> places_of_key(std::string_view name, const std::vector<std::string>& paths);

// The key for which other programs use this name: "train.dynamics.lr" for "learning-rate". Empty:
// none.
std::string key_called_elsewhere(std::string_view name);

// "--Batch-Size" as "batch_size", to compare names of options and keys.
std::string simplified_name(std::string_view name);

// For a reader of job files: places_of_key(), layer.NAME for the name of a layer of `root`, and the
// key that names the entry of a table.
// `root` and `all` must outlive the result.
key_finder finder_of_job_keys(const document_table& root, const tables& all);

}  // namespace troupe
