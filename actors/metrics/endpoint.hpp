// Serves the page /metrics of a process, from facts that it publishes already.
// Threads: one of its own, which calls `facts` and `roles`; the members may be called from any
// thread. Errors: values.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/metrics/page.hpp"
#include "runtime/base/result.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

struct metrics_options {
  net::address where;                          // port 0: any free port
  std::filesystem::path ca, certificate, key;  // of the node; empty: none
  std::string token;
};
// The options of a node whose `metrics_address` is set. Errors: "insecure", those of
// http::read_token, "bad_address".
expected<metrics_options, coded_error> metrics_options_of(const cluster_spec& c, const node_spec& n);

class metrics_endpoint {
 public:
  // `facts`: for a page; `roles`: once a second. They must not wait for actors.
  static expected<std::unique_ptr<metrics_endpoint>, coded_error> open(const metrics_options& o,
                                                                       std::function<metrics_facts()> facts,
                                                                       std::function<std::vector<role_published>()> roles,
                                                                       std::function<void(const std::string& line)> log);
  std::string url() const { return server_->url("/metrics"); }
  // Reads the certificates again.
  expected<void, coded_error> reload_certificates();

 private:
  struct state {
    metrics_page page;
    std::filesystem::path ca, certificate;
    std::mutex lock;
    std::vector<metrics_facts::certificate> expiries;  // guarded by `lock`

    void read_expiries();
    metrics_facts all_facts();

    std::function<metrics_facts()> facts;
    std::function<std::vector<role_published>()> roles;
    std::atomic<const http::server*> server{nullptr};
    http::server_counts requests() const {
      const auto* s = server.load();
      return s ? s->counts() : http::server_counts{};
    }
  };
  state state_;
  std::unique_ptr<http::server> server_;  // last: its thread uses state_
};

}  // namespace troupe
