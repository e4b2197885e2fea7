// Runs a job embedded and prints its progress, for `troupe train` and `troupe test`.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/embedded.hpp"
#include "actors/metrics/run_metrics.hpp"
#include "actors/page/server.hpp"
#include "actors/repl/run_backend.hpp"
#include "apps/commands/job.hpp"
#include "apps/commands/train/progress.hpp"
#include "ops/device_descriptors.hpp"
#include "runtime/base/result.hpp"
#include "runtime/node/runs/run_recorder.hpp"
#include "runtime/record/second_place.hpp"

namespace troupe {

// One embedded run. It prints events, writes weights and checkpoints, and stops on Ctrl-C.
class run_reporter {
 public:
  // `from`: origin of the job, for a post-mortem; nullopt: no post-mortem. `begins`: the file that
  // the run starts from. `trace`: file for a trace of the run; empty: none.
  run_reporter(std::shared_ptr<prepared_job> j, const output& out, device_list devices, unsigned threads,
               std::optional<job_origin> from = {}, std::optional<beginning_file> begins = {}, const std::string& trace = {});

  std::string checkpoint_file;           // empty: none is written
  std::string checkpoint_folder;         // if set: folder for checkpoints instead; the newest [checkpoint] keep remain
  std::string weights_file;              // empty: none is written
  std::unique_ptr<run_recorder> record;  // of the run folder; null: none
  std::vector<std::string> next;         // commands that the summary suggests

  void head(const std::vector<head_line>& lines) { progress_.head(lines); }
  // Serves /metrics of the run at [HOST:]PORT.
  expected<void, coded_error> serve_metrics(const std::string& where);
  // Serves the browser page of the run at [HOST:]PORT. Needs `record`: the token is in the run
  // folder. Returns the address and the token's file, for the user.
  expected<std::string, coded_error> serve_page(const std::string& where);

  // Runs the job and returns the exit code: 128 + signal if a signal has stopped it.
  int finish();

 private:
  void handle_event(const event_effect& e);
  void announce(const event_effect& e);
  void tell_failure(const embedded_result& r);
  void handle_trace(const expected<trace_summary>& t, std::uint64_t step);
  void tell_left_out(std::uint64_t step);
  void save_weights_of(const embedded_result& r);
  void end_record(const embedded_result& r);
  void tell_end(const embedded_result& r);
  void keep(const store_effect& s);
  void write_checkpoint_of(const store_effect& s);
  std::vector<role_published> roles() const;
  void make_backend();

  std::shared_ptr<prepared_job> job_;
  std::string numerics_;  // of the devices
  progress progress_;
  std::unique_ptr<embedded_run> run_;
  std::unique_ptr<run_backend> backend_;  // of the REPL and the page, with a run folder
  std::unique_ptr<page_server> page_;
  std::unique_ptr<run_metrics> metrics_;
  std::vector<record_error> troubles_;  // of the files written at the end of the run
  kept_file checkpoint_;                // the newest checkpoint
  second_place elsewhere_;
  std::atomic<bool> asked_{false};
};

}  // namespace troupe
