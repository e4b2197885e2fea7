#include "actors/daemon_pages.hpp"

#include <algorithm>

#include "actors/control/client/client.hpp"
#include "actors/metrics/page.hpp"
#include "runtime/node/http/access.hpp"
#include "runtime/node/pki/certificates.hpp"
#include "runtime/node/predict/net_file.hpp"

namespace troupe {

// The nets that node `n` serves. A net is computed by as many threads as the node has CPU devices.
expected<void, coded_error> daemon_pages::read_nets(const cluster_spec& c, const node_spec& n) {
  if (n.predict.nets.empty()) return {};
  const auto where = net::parse_address(n.predict.address);
  if (!where) return unexpected(where.error());
  auto token =
      http::token_for(*where, n.predict.token, n.at.to_string() + ": node '" + n.name + "': predict_address", "predict_token");
  if (!token) return unexpected(token.error());
  predict_server_options o;
  o.where = *where;
  o.token = *std::move(token);
  const auto dir = certificate_folder(c.tls_dir, n.name);
  o.certificate = dir / (n.name + ".pem");
  o.key = dir / (n.name + ".key");
  o.threads = static_cast<unsigned>(std::max<std::ptrdiff_t>(
      1, std::count_if(n.devices.begin(), n.devices.end(), [](const auto& d) { return d.starts_with("cpu:"); })));
  for (const auto& file : n.predict.nets) {
    auto job = open_net_file(file);
    if (!job) return unexpected(coded_error{"bad_net", job.error().front().to_string()});
    nets_.push_back({std::filesystem::path(file).stem().string(), *std::move(job)});
  }
  predict_wanted_ = std::move(o);
  return {};
}

expected<daemon_pages, coded_error> daemon_pages::wanted(const cluster_spec& c, const cluster_rules& rules, const node_spec& n) {
  daemon_pages d;
  if (!n.metrics_address.empty()) {
    auto metrics = metrics_options_of(c, n);
    if (!metrics) return unexpected(metrics.error());
    d.metrics_wanted_ = std::move(*metrics);
  }
  if (auto done = d.read_nets(c, n); !done) return unexpected(done.error());
  if (rules.page.empty() || coordinator_of(c).node != n.name) return d;
  const auto where = net::parse_address(rules.page);
  if (!where) return unexpected(where.error());
  page_options o;
  o.where = *where;
  const auto dir = certificate_folder(c.tls_dir, n.name);
  o.ca = dir / "ca.pem";
  o.certificate = dir / (n.name + ".pem");
  o.key = dir / (n.name + ".key");
  o.role = page_role_named(rules.page_role).value_or(page_role::observer);
  o.title = "Troupe: cluster " + c.name;
  d.page_wanted_ = std::move(o);
  return d;
}

expected<void, coded_error> daemon_pages::open(control_plane& plane, const std::filesystem::path& state,
                                               std::function<void(const std::string& line)> log) {
  if (metrics_wanted_) {
    auto made = metrics_endpoint::open(
        *metrics_wanted_, [&plane] { return plane.facts(); }, [&plane] { return plane.roles(); }, log);
    if (!made) return unexpected(made.error());
    metrics_ = std::move(*made);
    log("metrics: " + metrics_->url());
  }
  if (predict_wanted_) {
    predict_wanted_->log = log;
    auto made = predict_server::open(std::move(nets_), *predict_wanted_);
    if (!made) return unexpected(made.error());
    predict_ = std::move(*made);
    log("predictions: " + predict_->url());
  }
  if (page_wanted_) {
    page_wanted_->token_file = state / "page.token";
    page_wanted_->runs = state / "runs";
    page_wanted_->log = log;
    backend_ = plane.backend({"page", certificate_role::admin});
    auto made = page_server::open(*page_wanted_, *backend_);
    if (!made) return unexpected(made.error());
    page_ = std::move(*made);
    log("page: " + page_->url() + "; its token is in " + page_wanted_->token_file.string());
  }
  return {};
}

std::string daemon_pages::ready_text() const {
  std::string text;
  if (metrics_) text += " metrics " + metrics_->url();
  if (predict_) text += " predict " + predict_->url();
  if (page_) text += " page " + page_->url() + " token " + page_wanted_->token_file.string();
  return text;
}

expected<void, coded_error> daemon_pages::reload_certificates() {
  if (metrics_)
    if (auto done = metrics_->reload_certificates(); !done) return done;
  if (predict_)
    if (auto done = predict_->reload_certificates(); !done) return done;
  return page_ ? page_->reload_certificates() : expected<void, coded_error>();
}

void daemon_pages::close() {
  page_ = nullptr;
  predict_ = nullptr;
  metrics_ = nullptr;
}

}  // namespace troupe
