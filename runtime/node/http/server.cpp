// The server with Boost.Beast. This is the only file that includes Beast, whose templates take half
// a minute to compile.
#include "runtime/node/http/server.hpp"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/node/http/access.hpp"
#include "runtime/node/net/listener.hpp"

namespace troupe::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;
using plain_stream = beast::tcp_stream;
using tls_stream = beast::ssl_stream<beast::tcp_stream>;

response status_page(unsigned status, const std::string& text) { return {status, "text/plain; charset=utf-8", text + "\n"}; }

// A connection; used only by the server's thread.
struct connection {
  virtual ~connection() = default;
  virtual void close() = 0;

  using list = std::list<std::shared_ptr<connection>>;
  list::iterator at{};  // in core::open
  bool listed = false;
};

// State of the server that connections use.
struct core {
  server_options options;
  bool plain = true;  // on a loopback address
  struct counters {
    std::atomic<std::uint64_t> connections{0}, served{0}, refused{0}, broken{0}, displaced{0};
  } counts;
  // Those without an accepted request for the longest time first.
  connection::list open;

  void enter(const std::shared_ptr<connection>& c) {
    c->at = open.insert(open.end(), c);
    c->listed = true;
  }
  void leave(connection& c) {
    if (std::exchange(c.listed, false)) open.erase(c.at);
  }
  void accept_request_of(connection& c) {
    if (c.listed) open.splice(open.end(), open, c.at);
  }
  response answer(const bhttp::request<bhttp::empty_body>& q) const;
  void log(const std::string& line) const {
    if (options.log) options.log(line);
  }
};

response core::answer(const bhttp::request<bhttp::empty_body>& q) const {
  if (!options.token.empty() && !bears(q[bhttp::field::authorization], options.token))
    return status_page(401, "a bearer token is needed");
  if (plain && !names_this_machine(q[bhttp::field::host], options.where.host))
    return status_page(403, "the request's Host is not a name of this machine");
  if (q.method() != bhttp::verb::get && q.method() != bhttp::verb::head) return status_page(405, "only GET and HEAD are served");
  request r{std::string(q.method_string()), std::string(q.target()), {}};
  if (const auto mark = r.path.find('?'); mark != std::string::npos) {
    r.query = r.path.substr(mark + 1);
    r.path.resize(mark);
  }
  const auto route = options.routes.find(r.path);
  if (route == options.routes.end()) return status_page(404, "there is no such page");
  try {
    return route->second(r);
  } catch (const std::exception& e) {
    log("[http] " + r.path + ": " + e.what());
    return status_page(500, "this page could not be made; the log has the reason");
  }
}

template <class Stream>
class session final : public connection, public std::enable_shared_from_this<session<Stream>> {
  static constexpr bool secure = std::is_same_v<Stream, tls_stream>;

 public:
  template <class... Arguments>
  explicit session(core& c, Arguments&&... a) : core_(c), stream_(std::forward<Arguments>(a)...) {}

  void start() {
    wire().expires_after(core_.options.deadline);
    if constexpr (secure)
      stream_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this()](const error_code& ec) { ec ? self->broken() : self->read(); });
    else
      read();
  }

  void close() override {
    error_code ignored;
    wire().socket().close(ignored);
  }

 private:
  plain_stream& wire() { return beast::get_lowest_layer(stream_); }

  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(core_.options.max_header));
    bhttp::async_read_header(stream_, buffer_, *parser_,
                             [self = this->shared_from_this()](const error_code& ec, std::size_t) { self->have_header(ec); });
  }

  void have_header(const error_code& ec) {
    if (ec == bhttp::error::end_of_stream) return end();
    if (ec == bhttp::error::header_limit || ec == bhttp::error::buffer_overflow)
      return send(status_page(431, "the request header is too long"), false, false);
    if (ec && ec.category() == bhttp::make_error_code(bhttp::error::end_of_stream).category() &&
        ec != bhttp::error::partial_message)
      return send(status_page(400, "this is not an HTTP request"), false, false);
    if (ec) return broken();
    const auto& q = parser_->get();
    const bool head = q.method() == bhttp::verb::head;
    if (parser_->chunked() || parser_->content_length().value_or(0) > 0)
      return send(status_page(413, "requests must not have a body"), head, false);
    auto r = core_.answer(q);
    const bool stays = q.keep_alive() && r.status < 400;
    if (stays) core_.accept_request_of(*this);
    send(std::move(r), head, stays);
  }

  void send(response&& r, bool head, bool stays) {
    ++(r.status < 400 ? core_.counts.served : core_.counts.refused);
    out_ = {};
    out_.version(11);
    out_.result(r.status);
    out_.set(bhttp::field::server, "troupe");
    out_.set(bhttp::field::content_type, r.type);
    out_.set(bhttp::field::cache_control, "no-store");
    out_.set("X-Content-Type-Options", "nosniff");
    if (r.status == 401) out_.set(bhttp::field::www_authenticate, "Bearer");
    if (r.status == 405) out_.set(bhttp::field::allow, "GET, HEAD");
    out_.keep_alive(stays);
    out_.content_length(r.body.size());
    if (!head) out_.body() = std::move(r.body);
    wire().expires_after(core_.options.deadline);
    writer_.emplace(out_);
    writer_->split(false);
    const auto sent = [self = this->shared_from_this(), stays](const error_code& ec, std::size_t) {
      if (ec) return self->broken();
      if (!stays) return self->end();
      self->wire().expires_after(self->core_.options.idle);
      self->read();
    };
    if (head)
      bhttp::async_write_header(stream_, *writer_, sent);
    else
      bhttp::async_write(stream_, *writer_, sent);
  }

  // Ends the connection in an orderly way: the peer gets all bytes that were sent.
  void end() {
    wire().expires_after(core_.options.deadline);
    if constexpr (secure)
      stream_.async_shutdown([self = this->shared_from_this()](const error_code&) { self->gone(); });
    else {
      error_code ignored;
      wire().socket().shutdown(tcp::socket::shutdown_send, ignored);
      drain();
    }
  }
  // Reads what the peer still sends, up to a limit: closing a socket with unread bytes would reset
  // the connection, and the peer could lose the response.
  void drain() {
    buffer_.consume(buffer_.size());
    wire().async_read_some(buffer_.prepare(core_.options.max_header),
                           [self = this->shared_from_this()](const error_code& ec, std::size_t n) {
                             self->drained_ += n;
                             ec || self->drained_ > 64 * self->core_.options.max_header ? self->gone() : self->drain();
                           });
  }

  void broken() {
    ++core_.counts.broken;
    gone();
  }
  void gone() {
    close();
    core_.leave(*this);
  }

  core& core_;
  Stream stream_;
  beast::flat_buffer buffer_{};
  std::optional<bhttp::request_parser<bhttp::empty_body>> parser_;
  bhttp::response<bhttp::string_body> out_;
  std::optional<bhttp::response_serializer<bhttp::string_body>> writer_;
  std::size_t drained_ = 0;
};

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

}  // namespace

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
    io.stop();
    if (thread.joinable()) thread.join();
    shared.open.clear();
  }

  // The thread's loop. An exception of a handler of the library, as by lack of memory, costs one
  // connection.
  void run() {
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
    shared.enter(s);
    s->start();
  }

  void accepted(tcp::socket&& socket) {
    ++shared.counts.connections;
    if (shared.open.size() >= shared.options.max_connections) {
      ++shared.counts.displaced;
      const auto oldest = shared.open.front();
      shared.leave(*oldest);
      oldest->close();
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
  auto bound = net::listener::bind(p->io, options.where);
  if (!bound) return unexpected(bound.error());
  error_code ec;
  const auto end = bound->local_endpoint(ec);
  if (ec) return unexpected(coded_error{"address_unavailable", "[http] " + ec.message()});
  p->shared.plain = end.address().is_loopback();
  p->port = end.port();
  if (!p->shared.plain) {
    if (options.certificate.empty() || options.token.empty())
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
