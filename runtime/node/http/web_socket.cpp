// WebSockets with Boost.Beast. In a file of its own, as server.cpp: Beast's templates take minutes
// to compile.
#include "runtime/node/http/web_socket.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <chrono>
#include <deque>

namespace troupe::http {
namespace {

template <class Stream>
class web_socket final : public connection, public socket, public std::enable_shared_from_this<web_socket<Stream>> {
  using error_code = boost::system::error_code;

 public:
  web_socket(connection_list& open, const server_limits& l, const socket_route& route, Stream&& s)
      : open_(open), limits_(l), route_(route), stream_(std::move(s)), late_(stream_.get_executor()) {
    is_socket = true;
  }

  void start(socket_opening&& o) {
    namespace websocket = boost::beast::websocket;
    stream_.set_option(websocket::stream_base::timeout{limits_.deadline, limits_.idle, true});
    stream_.set_option(websocket::stream_base::decorator([headers = std::move(o.headers)](websocket::response_type& out) {
      out.set(boost::beast::http::field::server, "troupe");
      for (const auto& [name, value] : headers) out.set(name, value);
    }));
    stream_.read_message_max(limits_.max_message);
    stream_.auto_fragment(false);
    const auto message = std::make_shared<decltype(o.message)>(std::move(o.message));
    stream_.async_accept(*message, [self = this->shared_from_this(), message, r = std::move(o.asked)](const error_code& ec) {
      if (ec) return self->gone();
      self->accepted_ = true;
      self->route_.opened(self, r);
      self->read();
    });
  }

  void send(std::shared_ptr<const std::string> text) override {
    if (over_) return;
    queued_ += text->size();
    out_.push_back(std::move(text));
    if (queued_ > limits_.max_queued) return close();
    if (out_.size() == 1) write();
  }
  std::size_t queued() const override { return queued_; }

  void close() override {
    if (std::exchange(over_, true)) return;
    error_code ignored;
    boost::beast::get_lowest_layer(stream_).socket().close(ignored);  // the pending read fails, and calls gone()
    late_.cancel();
  }

  void server_ends() override {
    over_ = true;
    if (std::exchange(accepted_, false)) route_.closed(this->shared_from_this());
  }

 private:
  void read() {
    if (over_) return gone();
    if (queued_ > limits_.max_message) return;  // written() continues
    reading_ = true;
    stream_.async_read(in_, [self = this->shared_from_this()](const error_code& ec, std::size_t) {
      self->reading_ = false;
      if (ec) return self->gone();
      self->open_.used(*self);
      const auto text = boost::beast::buffers_to_string(self->in_.data());
      self->in_.consume(self->in_.size());
      self->route_.received(self, text);
      self->read();
    });
  }

  void write() {
    late_.expires_after(limits_.deadline);
    late_.async_wait([self = this->shared_from_this()](const error_code& ec) {
      if (!ec && !self->out_.empty() && self->late_.expiry() <= std::chrono::steady_clock::now()) self->close();
    });
    stream_.text(true);
    stream_.async_write(boost::asio::buffer(*out_.front()),
                        [self = this->shared_from_this()](const error_code& ec, std::size_t) { self->written(ec); });
  }

  void written(const error_code& ec) {
    queued_ -= out_.front()->size();
    out_.pop_front();
    late_.cancel();
    if (ec || over_) return close_and_leave();
    open_.used(*this);
    if (!out_.empty()) write();
    if (!reading_) read();
  }

  void close_and_leave() {
    close();
    if (!reading_) gone();
  }
  // Once no operation reads any more.
  void gone() {
    close();
    open_.leave(*this);
    if (std::exchange(accepted_, false)) route_.closed(this->shared_from_this());
  }

  connection_list& open_;
  const server_limits& limits_;
  const socket_route& route_;
  boost::beast::websocket::stream<Stream> stream_;
  boost::asio::steady_timer late_;
  boost::beast::flat_buffer in_{};
  std::deque<std::shared_ptr<const std::string>> out_;  // the first is being written
  std::size_t queued_ = 0;                              // bytes of out_
  bool accepted_ = false, reading_ = false, over_ = false;
};

template <class Stream>
void open_socket(connection_list& open, const server_limits& l, const socket_route& route, Stream s, socket_opening&& o) {
  auto made = std::make_shared<web_socket<Stream>>(open, l, route, std::move(s));
  open.enter(made);
  made->start(std::move(o));
}

}  // namespace

void open_web_socket(connection_list& open, const server_limits& l, const socket_route& route, plain_stream&& s,
                     socket_opening&& o) {
  open_socket(open, l, route, std::move(s), std::move(o));
}
void open_web_socket(connection_list& open, const server_limits& l, const socket_route& route, tls_stream&& s, socket_opening&& o) {
  open_socket(open, l, route, std::move(s), std::move(o));
}

}  // namespace troupe::http
