// From what a person typed to a prepared job, and between jobs and files.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/troupe_output.hpp"
#include "runtime/job/job.hpp"
#include "runtime/record/safetensors.hpp"
#include "runtime/role.hpp"

namespace troupe {

// What every command that takes a job takes.
struct job_arguments {
  std::string file;
  std::vector<std::string> overrides;  // --set
  bool json = false;
};

// Reads the job file, loads its plugins, checks everything. Nothing runs yet. `nodes`: as in a
// cluster file; empty: embedded.
std::variant<std::shared_ptr<prepared_job>, diagnostics> load_job(const job_arguments& a, const std::vector<node_spec>& nodes = {});
// The same for a job that is to train in this process: refused is also what its memory cannot hold.
std::variant<std::shared_ptr<prepared_job>, diagnostics> load_job_to_train(const job_arguments& a);

// Weights to begin from; the error names the file. Returns the step that the file says its weights
// are of (0: it does not say).
std::variant<std::uint64_t, record_error> begin_from_weights(prepared_job& j, const std::string& file);
// The checkpoint that somebody means by the name of a file, or of a folder of checkpoints: there
// the newest that is sound. The others that should have been it are remarked on. Nothing is read
// where it is a file.
std::variant<std::string, record_error> checkpoint_at(const std::string& path, const output& out);
// A checkpoint to continue. Refuses what would not continue bit for bit.
std::optional<record_error> resume_from(prepared_job& j, const std::string& file, const std::string& numerics,
                                        const std::vector<std::string>& overrides);

std::optional<record_error> save_weights(const prepared_job& j, const named_tensors& named, std::uint64_t step,
                                         const std::string& file);
std::optional<record_error> save_checkpoint_file(const prepared_job& j, const store_effect& s, const std::string& numerics,
                                                 const std::string& file);

// Why `file` could not be written later, as far as can be seen now; empty: nothing known against
// it. Asked before hours of training.
std::string why_unwritable(const std::string& file);
// A file that cannot be used, told as the user's mistake.
int wrong_file(const output& out, const record_error& e);

// "lenet-fashion: 431,080 parameters, ..."
std::string job_summary(const prepared_job& j);

}  // namespace troupe
