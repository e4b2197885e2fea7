// What a daemon serves over HTTP: /metrics, predictions of nets, and on the coordinator's node the
// browser page.
// Threads: those of the servers; the members are for one thread. Errors: values.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/control/host/plane.hpp"
#include "actors/metrics/endpoint.hpp"
#include "actors/page/server.hpp"
#include "runtime/base/result.hpp"
#include "runtime/node/config/cluster_file.hpp"
#include "runtime/node/serving/predict_server.hpp"

namespace troupe {

class daemon_pages {
 public:
  // Reads what node `n` serves from the cluster file. Opens nothing. Errors: those of
  // metrics_options_of, net::parse_address and open_net_file.
  static expected<daemon_pages, coded_error> wanted(const cluster_spec& c, const cluster_rules& rules, const node_spec& n);

  // Serves. `state`: the daemon's folder, for the page's token. `plane` must outlive the object.
  expected<void, coded_error> open(control_plane& plane, const std::filesystem::path& state,
                                   std::function<void(const std::string& line)> log);
  // For the line "ready": " metrics URL page URL token FILE", what there is of it.
  std::string ready_text() const;
  expected<void, coded_error> reload_certificates();
  void close();

 private:
  expected<void, coded_error> read_nets(const cluster_spec& c, const node_spec& n);

  std::optional<metrics_options> metrics_wanted_;
  std::optional<page_options> page_wanted_;
  std::optional<predict_server_options> predict_wanted_;
  std::vector<served_net> nets_;
  std::unique_ptr<metrics_endpoint> metrics_;
  std::unique_ptr<predict_server> predict_;
  std::unique_ptr<repl_backend> backend_;  // of the page
  std::unique_ptr<page_server> page_;      // last: it uses backend_
};

}  // namespace troupe
