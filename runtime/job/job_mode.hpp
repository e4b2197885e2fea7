// A job's synchronisation mode and reducer, and checks that they suit the job. Internal to this
// folder.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/diagnostic.hpp"
#include "runtime/base/result.hpp"
#include "runtime/coordinator/mode_facts.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

mode_facts facts_of(const sync_mode& m, const options& o);

// Finds the mode of a user's `mode` command. An error if the running job cannot switch to it.
expected<mode_facts> find_mode(const prepared_job& j, const std::string& name,
                               const std::vector<std::pair<std::string, std::string>>& given);

// Returns the function that lays out the reducer roles; empty if the job's reducer has none.
std::function<void(reducer_layout&)> reducers_of(const prepared_job& j);
reducer_placing placing_of(const prepared_job& j);  // where the reducer needs workers and shards

// Checks that the mode suits the job.
expected<void, diagnostic> check_mode(const prepared_job& j);

}  // namespace troupe
