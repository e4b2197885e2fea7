#include "actors/daemon_pages.hpp"

#include "actors/control/client/client.hpp"
#include "actors/metrics/page.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe {

expected<daemon_pages, coded_error> daemon_pages::wanted(const cluster_spec& c, const cluster_rules& rules, const node_spec& n) {
  daemon_pages d;
  if (!n.metrics_address.empty()) {
    auto metrics = metrics_options_of(c, n);
    if (!metrics) return unexpected(metrics.error());
    d.metrics_wanted_ = std::move(*metrics);
  }
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
  if (page_) text += " page " + page_->url() + " token " + page_wanted_->token_file.string();
  return text;
}

expected<void, coded_error> daemon_pages::reload_certificates() {
  if (metrics_)
    if (auto done = metrics_->reload_certificates(); !done) return done;
  return page_ ? page_->reload_certificates() : expected<void, coded_error>();
}

void daemon_pages::close() {
  page_ = nullptr;
  metrics_ = nullptr;
}

}  // namespace troupe
