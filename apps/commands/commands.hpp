// The commands of `troupe`. Each has a file of its name, with its options and its implementation.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/command.hpp"

namespace troupe {

cli_command train_command();
cli_command resume_run_command();
cli_command attach_command();
cli_command fetch_command();
cli_command jobs_command();
cli_command runs_command();
cli_command plot_command();
cli_command sql_command();
cli_command test_command();
cli_command predict_command();
cli_command sample_command();
cli_command serve_command();
cli_command time_command();
cli_command init_command();
cli_command new_command();
cli_command data_command();
cli_command pack_command();
cli_command unroll_command();
cli_command import_command();
cli_command export_command();
cli_command plan_command();
cli_command sim_command();
cli_command check_command();
cli_command fmt_command();
cli_command check_layer_command();
cli_command init_cluster_command();
cli_command certs_command();
cli_command layers_command();
cli_command modes_command();
cli_command reference_command();
cli_command device_query_command();
cli_command diagnose_command();
cli_command critical_command();
cli_command replay_command();
cli_command doctor_command();
cli_command repl_command_entry();

// What `troupe new --from` takes.
std::vector<std::string> job_template_names();
// What `troupe reference` takes.
const std::vector<std::string>& reference_names();

}  // namespace troupe
