// The keys of a job file, by table (keys.hpp). job_file.cpp uses them to read files.
#pragma once

#include <vector>

#include "runtime/node/config/keys.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

const keys<job_spec>& file_keys();  // keys outside any table
const keys<job_spec>& job_keys();
const keys<data_spec>& data_keys();
const keys<layer_spec>& layer_keys();
const keys<train_spec>& train_keys();
const keys<train_spec>& sampler_keys();
const keys<train_spec>& dynamics_keys();
const keys<train_spec>& schedule_keys();
const keys<warmup_spec>& warmup_keys();
const keys<clip_spec>& clip_keys();
const keys<train_spec>& sync_keys();
const keys<train_spec>& when_keys();
const keys<train_spec>& exchange_keys();
const keys<finish_spec>& finish_keys();
const keys<finish_spec>& custom_keys();
const keys<eval_spec>& eval_keys();
const keys<eval_spec>& eval_sampler_keys();
const keys<checkpoint_spec>& checkpoint_keys();
const keys<pipeline_spec>& pipeline_keys();
const keys<topology_spec>& topology_keys();

void read_maths(table_reader& r, maths_rules& into);  // the keys of [job] for GPUs

// All tables, in the order of the reference page.
std::vector<key_table> job_tables();

}  // namespace troupe
