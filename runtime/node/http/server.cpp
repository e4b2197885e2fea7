// The server with Boost.Beast. Only this file and web_socket.cpp include Beast, whose templates
// take half a minute to compile.
#include "runtime/node/http/server.hpp"

#include <pthread.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>
#include <utility>

#include "runtime/node/http/access.hpp"
#include "runtime/node/http/connections.hpp"
#include "runtime/node/net/listener.hpp"

namespace troupe::http {

using tcp = asio::ip::tcp;

std::optional<response> core::refusal(const request& r) const {
  if (options.gate) return options.gate(r);
  if (!options.token.empty() && !bears(r.authorization, options.token)) return status_page(401, "a bearer token is needed");
  if (plain && !names_this_machine(r.host, options.where.host))
    return status_page(403, "the request's Host is not a name of this machine");
  if (!is_own_origin(r.origin, r.host, !plain)) return status_page(403, "the request comes from another site");
  return std::nullopt;
}

std::optional<response> core::unhandled(const request& r) const {
  const bool reads = r.method == "GET" || r.method == "HEAD";
  const bool page = options.routes.contains(r.path) || socket_at(r.path), takes = takes_posts(r.path);
  if (!page && !takes) return status_page(404, options.not_found);
  if ((reads && page) || (r.method == "POST" && takes)) return std::nullopt;
  const std::string methods = !page ? "POST" : takes ? "GET, HEAD, POST" : "GET, HEAD";
  auto no = status_page(405, "this path is only for " + methods);
  no.headers.emplace_back("Allow", methods);
  return no;
}

bool core::takes_posts(const std::string& path) const { return options.posts.contains(path) || options.later.contains(path); }

response core::answer(const request& r) const {
  if (auto none = unhandled(r)) return *std::move(none);
  if (socket_at(r.path)) return status_page(400, "this path is a WebSocket");
  const auto& list = r.method == "POST" ? options.posts : options.routes;
  const auto route = list.find(r.path);
  if (route == list.end()) return status_page(404, options.not_found);
  try {
    return route->second(r);
  } catch (const std::exception& e) {
    log("[http] " + r.path + ": " + e.what());
    return status_page(500, "this page could not be made; the log has the reason");
  }
}

const socket_route* core::socket_at(const std::string& path) const {
  const auto at = options.sockets.find(path);
  return at == options.sockets.end() ? nullptr : &at->second;
}

namespace {

expected<std::shared_ptr<asio::ssl::context>, coded_error> tls_context(const server_options& o) {
  auto c = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  error_code ec;
  if (c->use_certificate_chain_file(o.certificate.string(), ec))
    return unexpected(coded_error{"certificate_unreadable", "[http] " + o.certificate.string() + ": " + ec.message()});
  if (c->use_private_key_file(o.key.string(), asio::ssl::context::pem, ec))
    return unexpected(coded_error{"certificate_unreadable", "[http] " + o.key.string() + ": " + ec.message()});
  SSL_CTX_set_min_proto_version(c->native_handle(), TLS1_3_VERSION);
  return c;
}

expected<tcp::acceptor, coded_error> bind_to(asio::io_context& io, const net::address& where) {
  auto bound = net::listener::bind(io, where);
  if (!bound && bound.error().code == "address_in_use")
    return unexpected(coded_error{bound.error().code, bound.error().message + ": name another port, or port 0 for any free one"});
  return bound;
}

}  // namespace

expected<void, coded_error> check_free(const net::address& where) {
  asio::io_context io{1};
  if (auto bound = bind_to(io, where); !bound) return unexpected(std::move(bound).error());
  return {};
}

struct server::impl {
  core shared;
  std::shared_ptr<asio::ssl::context> tls;  // null: plain
  std::uint16_t port = 0;
  asio::io_context io{1};
  net::listener listener{io};
  asio::steady_timer timer{io};
  std::thread thread;

  explicit impl(server_options o) { shared.options = std::move(o); }
  ~impl() {
    stop();
    shared.open.end_all();
  }

  void stop() {
    io.stop();
    if (thread.joinable()) thread.join();
  }

  // The thread's loop. An exception of a handler of the library, as by lack of memory, costs one
  // connection.
  void run() {
    ::pthread_setname_np(::pthread_self(), "http");  // for `top -H` and bench/page_cost.py
    const auto work = asio::make_work_guard(io);
    while (!io.stopped()) {
      try {
        io.run();
      } catch (const std::exception& e) {
        shared.log(std::string("[http] ") + e.what());
      }
    }
  }

  template <class Stream, class... Arguments>
  void serve(Arguments&&... a) {
    auto s = std::make_shared<session<Stream>>(shared, std::forward<Arguments>(a)...);
    shared.open.enter(s);
    s->start();
  }

  void accepted(tcp::socket&& socket) {
    ++shared.counts.connections;
    if (shared.open.size() >= shared.options.limits.max_connections) {
      ++shared.counts.displaced;
      shared.open.displace();
    }
    tls ? serve<tls_stream>(std::move(socket), *tls) : serve<plain_stream>(std::move(socket));
  }

  void tick() {
    timer.expires_after(shared.options.tick_every);
    timer.async_wait([this](const error_code& ec) {
      if (ec) return;
      shared.options.tick();
      tick();
    });
  }
};

server::server(std::unique_ptr<impl> p) : impl_(std::move(p)) {}
server::~server() = default;

expected<std::unique_ptr<server>, coded_error> server::open(server_options o) {
  auto p = std::make_unique<impl>(std::move(o));
  auto& options = p->shared.options;
  auto bound = bind_to(p->io, options.where);
  if (!bound) return unexpected(bound.error());
  error_code ec;
  const auto end = bound->local_endpoint(ec);
  if (ec) return unexpected(coded_error{"address_unavailable", "[http] " + ec.message()});
  p->shared.plain = end.address().is_loopback();
  p->port = end.port();
  if (!p->shared.plain) {
    if (options.certificate.empty() || (options.token.empty() && !options.gate))
      return unexpected(coded_error{"insecure", "[http] " + net::to_string(options.where) +
                                                    " can be reached from other machines: it needs TLS and a bearer token; "
                                                    "or use a loopback address, as in 127.0.0.1:" +
                                                    std::to_string(options.where.port)});
    auto c = tls_context(options);
    if (!c) return unexpected(c.error());
    p->tls = std::move(*c);
  }
  auto* q = p.get();
  asio::post(p->io, [q, acceptor = std::make_shared<tcp::acceptor>(std::move(*bound))] {
    q->listener.start(
        std::move(*acceptor), [q](tcp::socket&& s) { q->accepted(std::move(s)); },
        [q](const std::string& line) { q->shared.log(line); });
    if (q->shared.options.tick) q->tick();
  });
  p->thread = std::thread([q] { q->run(); });
  return std::unique_ptr<server>(new server(std::move(p)));
}

void server::stop() { impl_->stop(); }
std::uint16_t server::port() const { return impl_->port; }

std::string server::url(const std::string& path) const {
  const auto& s = impl_->shared;
  return (s.plain ? "http://" : "https://") + net::to_string({s.options.where.host, impl_->port}) + path;
}

server_counts server::counts() const {
  const auto& c = impl_->shared.counts;
  return {c.connections, c.served, c.refused, c.broken, c.displaced};
}

expected<void, coded_error> server::reload_certificates() {
  if (impl_->shared.plain) return {};
  auto c = tls_context(impl_->shared.options);
  if (!c) return unexpected(c.error());
  asio::post(impl_->io, [p = impl_.get(), made = std::move(*c)] { p->tls = made; });
  return {};
}

}  // namespace troupe::http
