// Comparison of two job_specs field by field, for tests of files that hold a job.
#pragma once

#include <string>
#include <vector>

#include "runtime/job/tables.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe::job_test {

const tables& every_table();  // of node_tables()

// The fields of `a` and `b` that differ. Options count with their defaults, paths of data as
// absolute paths; positions do not count, except the presence of a layer's `partition`.
std::vector<std::string> differences(const job_spec& a, const job_spec& b);

// The job of a text. Throws std::runtime_error with the mistakes.
job_spec parsed(const std::string& text, const std::vector<std::string>& overrides = {}, const std::string& file = "job.toml");

// Checks that the resolved text of `s` is read as the same job, whose resolved text is the same.
// Returns the text.
std::string expect_round_trip(const job_spec& s);

}  // namespace troupe::job_test
