#include "actors/metrics/endpoint.hpp"

#include "actors/metrics/exposition.hpp"
#include "runtime/node/http/access.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe {
namespace {

constexpr const char* index_page =
    "<!doctype html><html><head><title>troupe</title></head>"
    "<body><h1>troupe</h1><p><a href=\"/metrics\">metrics</a></p></body></html>\n";

}  // namespace

void metrics_endpoint::state::read_expiries() {
  std::vector<metrics_facts::certificate> list;
  const std::pair<const char*, const std::filesystem::path&> files[] = {{"node", certificate}, {"ca", ca}};
  for (const auto& [name, file] : files) {
    if (file.empty()) continue;
    if (const auto c = read_certificate(file)) list.push_back({name, c->until});
  }
  std::lock_guard guard(lock);
  expiries = std::move(list);
}

metrics_facts metrics_endpoint::state::all_facts() {
  auto f = facts();
  std::lock_guard guard(lock);
  f.certificates = expiries;
  return f;
}

expected<void, coded_error> metrics_endpoint::reload_certificates() {
  state_.read_expiries();
  return server_->reload_certificates();
}

expected<metrics_options, coded_error> metrics_options_of(const cluster_spec& c, const node_spec& n) {
  const auto where = net::parse_address(n.metrics_address);
  if (!where) return unexpected(where.error());
  metrics_options o;
  o.where = *where;
  auto token =
      http::token_for(*where, n.metrics_token, n.at.to_string() + ": node '" + n.name + "': metrics_address", "metrics_token");
  if (!token) return unexpected(token.error());
  o.token = *std::move(token);
  const auto dir = certificate_folder(c.tls_dir, n.name);
  o.ca = dir / "ca.pem";
  o.certificate = dir / (n.name + ".pem");
  o.key = dir / (n.name + ".key");
  return o;
}

expected<std::unique_ptr<metrics_endpoint>, coded_error> metrics_endpoint::open(const metrics_options& o,
                                                                                std::function<metrics_facts()> facts,
                                                                                std::function<std::vector<role_published>()> roles,
                                                                                std::function<void(const std::string& line)> log) {
  auto e = std::make_unique<metrics_endpoint>();
  auto* s = &e->state_;
  s->facts = std::move(facts);
  s->roles = std::move(roles);
  s->ca = o.ca;
  s->certificate = o.certificate;
  s->read_expiries();
  http::server_options h;
  h.where = o.where;
  h.certificate = o.certificate;
  h.key = o.key;
  h.token = o.token;
  h.log = std::move(log);
  h.tick = [s] { s->page.sample(s->roles()); };
  h.routes["/metrics"] = [s](const http::request&) {
    return http::response{200, exposition_type, s->page.text(s->all_facts(), s->requests())};
  };
  h.routes["/"] = [](const http::request&) { return http::response{200, "text/html; charset=utf-8", index_page}; };
  auto server = http::server::open(std::move(h));
  if (!server) return unexpected(server.error());
  e->server_ = std::move(*server);
  s->server = e->server_.get();
  return e;
}

}  // namespace troupe
