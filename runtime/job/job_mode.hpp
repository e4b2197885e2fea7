// A job's synchronisation mode, and whether it suits the job. For the files of this folder.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/diagnostic.hpp"
#include "runtime/coordinator/mode_facts.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

mode_facts facts_of(const sync_mode& m, const options& o);

// A mode that a person asks for while the job runs.
std::optional<mode_facts> find_mode(const prepared_job& j, const std::string& name,
                                    const std::vector<std::pair<std::string, std::string>>& given, std::string& error);

// What draws the reducers of the job; none: its reducer adds nothing.
std::function<void(reducer_layout&)> reducers_of(const prepared_job& j);
reducer_placing placing_of(const prepared_job& j);  // where it wants workers and shards

// Does the mode suit the job? Else where in the file and why.
std::optional<diagnostic> check_mode(const prepared_job& j);

}  // namespace troupe
