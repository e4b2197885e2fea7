// Connections of the server, with Boost.Beast. Private to server.cpp: Beast's templates take half a
// minute to compile.
//
// Threads: the server's.
#pragma once

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/node/http/server.hpp"
#include "runtime/node/http/web_socket.hpp"

namespace troupe::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using boost::system::error_code;

inline response status_page(unsigned status, const std::string& text) { return {status, "text/plain; charset=utf-8", text + "\n"}; }

// State of the server that connections use.
struct core {
  server_options options;
  bool plain = true;  // on a loopback address
  struct counters {
    std::atomic<std::uint64_t> connections{0}, served{0}, refused{0}, broken{0}, displaced{0};
  } counts;
  connection_list open;
  std::atomic<std::size_t> body_bytes{0};  // of the bodies that are being read or answered

  // The response that refuses a request; nullopt: it may be served.
  std::optional<response> refusal(const request& r) const;
  // The response to a request that is not refused.
  response answer(const request& r) const;
  // The response to a request whose path, or whose method at this path, has no handler: 404 or 405.
  std::optional<response> unhandled(const request& r) const;
  bool takes_posts(const std::string& path) const;
  const socket_route* socket_at(const std::string& path) const;
  void log(const std::string& line) const {
    if (options.log) options.log(line);
  }
};

// The bytes of one body, as a part of core::body_bytes.
class body_share {
 public:
  explicit body_share(core& c) : core_(c) {}
  ~body_share() { release(); }
  body_share(const body_share&) = delete;
  body_share& operator=(const body_share&) = delete;

  // Grows to `bytes`. Returns false if all bodies together have too many then.
  bool grow(std::size_t bytes) {
    core_.body_bytes += bytes - bytes_;
    bytes_ = bytes;
    return core_.body_bytes <= core_.options.limits.max_bodies;
  }
  void release() { core_.body_bytes -= std::exchange(bytes_, 0); }

 private:
  core& core_;
  std::size_t bytes_ = 0;
};

template <class Stream>
class session final : public connection, public std::enable_shared_from_this<session<Stream>> {
  static constexpr bool secure = std::is_same_v<Stream, tls_stream>;
  using body = bhttp::string_body;

 public:
  template <class... Arguments>
  explicit session(core& c, Arguments&&... a) : core_(c), share_(c), stream_(std::forward<Arguments>(a)...) {}

  void start() {
    wire().expires_after(limits().deadline);
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
  const server_limits& limits() const { return core_.options.limits; }

  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(limits().max_header));
    parser_->body_limit(limits().max_body);
    bhttp::async_read_header(stream_, buffer_, *parser_,
                             [self = this->shared_from_this()](const error_code& ec, std::size_t) { self->have_header(ec); });
  }

  // Answers a request that could not be read. Returns false if it was read.
  bool unreadable(const error_code& ec) {
    if (!ec) return false;
    const bool of_http = ec.category() == bhttp::make_error_code(bhttp::error::end_of_stream).category();
    if (ec == bhttp::error::end_of_stream)
      end();
    else if (ec == bhttp::error::header_limit || ec == bhttp::error::buffer_overflow)
      send(status_page(431, "the request header is too long"), false, false);
    else if (ec == bhttp::error::body_limit)
      send(status_page(413, "the request body is too long"), false, false);
    else if (of_http && ec != bhttp::error::partial_message)
      send(status_page(400, "this is not an HTTP request"), false, false);
    else
      broken();
    return true;
  }

  request read_request() const {
    const auto& q = parser_->get();
    const auto field = [&](bhttp::field f) { return std::string(q[f]); };
    request r{std::string(q.method_string()), std::string(q.target()),          {},
              field(bhttp::field::host),      field(bhttp::field::origin),      field(bhttp::field::authorization),
              field(bhttp::field::cookie),    field(bhttp::field::content_type)};
    if (const auto mark = r.path.find('?'); mark != std::string::npos) {
      r.query = r.path.substr(mark + 1);
      r.path.resize(mark);
    }
    r.secure = secure;
    r.opens_socket = beast::websocket::is_upgrade(q);
    return r;
  }

  void have_header(const error_code& ec) {
    if (unreadable(ec)) return;
    const auto& q = parser_->get();
    const bool head = q.method() == bhttp::verb::head, posts = q.method() == bhttp::verb::post;
    const bool has_body = parser_->chunked() || parser_->content_length().value_or(0) > 0;
    auto r = read_request();
    if (auto refused = core_.refusal(r)) return send(std::move(*refused), head, false);
    if (has_body) {
      if (auto none = core_.unhandled(r)) return send(std::move(*none), head, false);
      if (!posts) return send(status_page(413, "only POST may have a body"), head, false);
      if (parser_->chunked()) return send(status_page(411, "a body must have a Content-Length; chunks are not read"), head, false);
      wire().expires_after(limits().deadline);
      return read_body(std::move(r));
    }
    if (posts && core_.options.later.contains(r.path)) return reply_later(std::move(r));
    const auto* route = r.opens_socket ? core_.socket_at(r.path) : nullptr;
    if (!route) return reply(r);
    if (buffer_.size() > 0) return send(status_page(400, "the client must wait for the WebSocket"), head, false);
    open_socket(std::move(r), *route);
  }

  void read_body(request&& r) {
    bhttp::async_read_some(stream_, buffer_, *parser_,
                           [self = this->shared_from_this(), r = std::move(r)](const error_code& ec, std::size_t) mutable {
                             if (!self->unreadable(ec)) self->have_some_body(std::move(r));
                           });
  }
  void have_some_body(request&& r) {
    auto& received = parser_->get().body();
    if (!share_.grow(received.size())) return send(status_page(503, "the server has too many requests; try again"), false, false);
    if (!parser_->is_done()) return read_body(std::move(r));
    r.body = std::move(received);
    core_.options.later.contains(r.path) ? reply_later(std::move(r)) : reply(r);
  }

  void reply_later(request&& q) {
    wire().expires_never();
    core_.open.used(*this);
    const auto& begin = core_.options.later.find(q.path)->second;
    const auto reply = [self = this->shared_from_this()](response&& r) {
      asio::post(self->stream_.get_executor(), [self, r = std::move(r)]() mutable {
        const bool stays = self->parser_->get().keep_alive() && r.status < 400;
        self->send(std::move(r), false, stays);
      });
    };
    try {
      begin(std::move(q), reply);
    } catch (const std::exception& e) {
      core_.log(std::string("[http] ") + e.what());
      reply(status_page(500, "the request could not be handled; the log has the reason"));
    }
  }

  void reply(const request& q) {
    auto r = core_.answer(q);
    const bool stays = parser_->get().keep_alive() && r.status < 400;
    if (stays) core_.open.used(*this);
    send(std::move(r), q.method == "HEAD", stays);
  }

  // The connection becomes a WebSocket, which takes its place in the list.
  void open_socket(request&& r, const socket_route& route) {
    wire().expires_never();
    core_.open.leave(*this);
    ++core_.counts.served;
    open_web_socket(core_.open, limits(), route, std::move(stream_), {std::move(r), parser_->release(), core_.options.headers});
  }

  void send(response&& r, bool head, bool stays) {
    ++(r.status < 400 ? core_.counts.served : core_.counts.refused);
    share_.release();
    out_ = {};
    out_.version(11);
    out_.result(r.status);
    out_.set(bhttp::field::server, "troupe");
    out_.set(bhttp::field::content_type, r.type);
    out_.set(bhttp::field::cache_control, "no-store");
    out_.set("X-Content-Type-Options", "nosniff");
    if (r.status == 401) out_.set(bhttp::field::www_authenticate, "Bearer");
    for (const auto* list : {&core_.options.headers, &r.headers})
      for (const auto& [name, value] : *list) out_.set(name, value);
    out_.keep_alive(stays);
    out_.content_length(r.body.size());
    if (!head) out_.body() = std::move(r.body);
    wire().expires_after(limits().deadline);
    writer_.emplace(out_);
    writer_->split(false);
    const auto sent = [self = this->shared_from_this(), stays](const error_code& ec, std::size_t) {
      if (ec) return self->broken();
      if (!stays) return self->end();
      self->wire().expires_after(self->limits().idle);
      self->read();
    };
    if (head)
      bhttp::async_write_header(stream_, *writer_, sent);
    else
      bhttp::async_write(stream_, *writer_, sent);
  }

  // Ends the connection in an orderly way: the peer gets all bytes that were sent.
  void end() {
    wire().expires_after(limits().deadline);
    if constexpr (secure)
      stream_.async_shutdown([self = this->shared_from_this()](const error_code&) { self->gone(); });
    else {
      error_code ignored;
      wire().socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
      drain();
    }
  }
  // Reads what the peer still sends, up to a limit: closing a socket with unread bytes would reset
  // the connection, and the peer could lose the response.
  void drain() {
    buffer_.consume(buffer_.size());
    wire().async_read_some(buffer_.prepare(limits().max_header),
                           [self = this->shared_from_this()](const error_code& ec, std::size_t n) {
                             self->drained_ += n;
                             ec || self->drained_ > 64 * self->limits().max_header ? self->gone() : self->drain();
                           });
  }

  void broken() {
    ++core_.counts.broken;
    gone();
  }
  void gone() {
    close();
    core_.open.leave(*this);
  }

  core& core_;
  body_share share_;
  Stream stream_;
  beast::flat_buffer buffer_{};
  std::optional<bhttp::request_parser<body>> parser_;
  bhttp::response<body> out_;
  std::optional<bhttp::response_serializer<body>> writer_;
  std::size_t drained_ = 0;
};

}  // namespace troupe::http
