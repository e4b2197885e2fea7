// /metrics of a run in this process (`troupe train --metrics PORT`).
//
//   auto m = run_metrics::open("9101", *job, [&] { ... published roles ... });
//   m->event(e);                    // for every event of the run
//   m->saving(); m->saved(true);    // around the writing of a checkpoint
//
// Threads: the members may be called from any thread; `roles` is called on the server's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/shell/node_host.hpp"
#include "runtime/base/result.hpp"
#include "runtime/job/job.hpp"

namespace troupe {

class run_metrics {
 public:
  // `where`: PORT or HOST:PORT, with a loopback address; port 0: any free port. Errors:
  // "bad_address", "not_loopback" (wrong usage), and those of http::server::open().
  static expected<std::unique_ptr<run_metrics>, coded_error> open(const std::string& where, const prepared_job& j,
                                                                  std::function<std::vector<role_published>()> roles);
  ~run_metrics();
  run_metrics(const run_metrics&) = delete;
  run_metrics& operator=(const run_metrics&) = delete;

  std::string url() const;  // "http://127.0.0.1:9101/metrics"
  void event(const event_effect& e);
  void saving();
  void saved(bool good);

 private:
  struct impl;
  explicit run_metrics(std::unique_ptr<impl> p);
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
