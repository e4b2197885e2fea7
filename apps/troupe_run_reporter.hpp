// Runs a job embedded and prints its progress, for `troupe train` and `troupe test`.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/embedded.hpp"
#include "apps/troupe_job.hpp"
#include "apps/troupe_progress.hpp"
#include "ops/device_descriptors.hpp"
#include "runtime/record/second_place.hpp"

namespace troupe {

// One embedded run. It prints events, writes weights and checkpoints, and stops on Ctrl-C.
class run_reporter {
 public:
  // `from`: origin of the job, for a post-mortem; nullopt: no post-mortem. `begins`: the file that
  // the run starts from.
  run_reporter(std::shared_ptr<prepared_job> j, const output& out, device_list devices, unsigned threads,
               std::optional<job_origin> from = {}, std::optional<beginning_file> begins = {});

  std::string checkpoint_file;    // empty: none is written
  std::string checkpoint_folder;  // if set: folder for checkpoints instead; the newest [checkpoint] keep remain
  std::string weights_file;       // empty: none is written

  int finish();

 private:
  void handle_event(const event_effect& e);
  void keep(const store_effect& s);

  std::shared_ptr<prepared_job> job_;
  std::string numerics_;  // of the devices
  progress progress_;
  std::unique_ptr<embedded_run> run_;
  event_effect done_;
  std::vector<record_error> troubles_;  // of the files written at the end of the run
  kept_file checkpoint_;                // the newest checkpoint
  second_place elsewhere_;
  std::atomic<bool> asked_{false};
};

}  // namespace troupe
