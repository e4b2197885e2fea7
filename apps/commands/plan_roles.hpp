// Describes one role of a plan, for `troupe plan`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/job/job.hpp"

namespace troupe {

// The column `holds` of the role table: the role's layers, packets or parameters. May be empty.
std::string role_text(const prepared_job& j, const role_plan& r);

// Adds the JSON fields that only roles of this kind have.
void add_role_fields(nlohmann::ordered_json& o, const prepared_job& j, const role_plan& r);

}  // namespace troupe
