// The page /metrics of a process: what it publishes already, as Prometheus metrics. Pure but for
// the facts of the process itself.
//
//   sample()   once a second: adds what roles have done since to totals that never fall
//   text()     for each scrape
//
// A value; for one thread. Errors: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/metrics/event_totals.hpp"
#include "actors/metrics/role_totals.hpp"
#include "actors/shell/router.hpp"
#include "runtime/cluster/view/view.hpp"
#include "runtime/node/http/server.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe {

class exposition;

// What the page shows. A daemon that does not coordinate has no jobs and nodes in its view.
struct metrics_facts {
  struct plane {
    std::string name;  // "data", "control"
    net::transport_stats stats;
  };
  struct pool {
    std::string name;                            // "tensors", "data", "control"
    std::uint64_t held = 0, used = 0, peak = 0;  // bytes
  };
  struct certificate {
    std::string name;  // "node", "ca"
    std::chrono::system_clock::time_point until;
  };

  repl_view view;  // its roles are not used
  bool coordinates = false;
  std::vector<role_published> roles;  // on this node
  std::map<std::uint32_t, job_totals> totals;
  std::set<std::string> nodes;  // of the cluster file: the peers that have links of their own
  std::vector<plane> planes;
  router_counts frames;
  std::vector<pool> pools;
  std::vector<certificate> certificates;
};

class metrics_page {
 public:
  void sample(const std::vector<role_published>& roles) { roles_.take(roles); }
  std::string text(const metrics_facts& f, const http::server_counts& requests);

 private:
  role_totals roles_;
  double last_took_ = 0;  // seconds
};

// Parts of the page, by file.
void add_process(exposition& x, const metrics_facts& f);                          // page_process.cpp
void add_jobs(exposition& x, const metrics_facts& f);                             // page_jobs.cpp
void add_roles(exposition& x, const metrics_facts& f, const role_totals& roles);  // page_roles.cpp
void add_links(exposition& x, const metrics_facts& f);                            // page_links.cpp

}  // namespace troupe
