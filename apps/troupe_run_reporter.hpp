// An embedded run as a command shows it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/embedded.hpp"
#include "apps/troupe_job.hpp"
#include "apps/troupe_progress.hpp"
#include "runtime/record/second_place.hpp"

namespace troupe {

constexpr const char* no_device = "this machine has no CPU that the kernels know";

// One embedded run that prints what happens, and keeps a word about its files. Ctrl-C stops it.
class run_reporter {
 public:
  // `from`: of a run that leaves a post-mortem if it fails, and `begins` with a file.
  run_reporter(std::shared_ptr<prepared_job> j, const output& out, std::shared_ptr<device> dev, unsigned threads,
               std::optional<job_origin> from = {}, std::optional<beginning_file> begins = {});

  std::string checkpoint_file;    // empty: none is written
  std::string checkpoint_folder;  // not empty: they go there instead, and as many of the newest stay as the job says
  std::string weights_file;       // empty: none is written

  int finish();

 private:
  void handle_event(const event_effect& e);
  void keep(const store_effect& s);

  std::shared_ptr<prepared_job> job_;
  std::shared_ptr<device> dev_;
  progress progress_;
  std::unique_ptr<embedded_run> run_;
  event_effect done_;
  std::vector<record_error> troubles_;  // of files that the run ends with
  kept_file checkpoint_;                // the newest
  second_place elsewhere_;
  std::atomic<bool> asked_{false};
};

}  // namespace troupe
