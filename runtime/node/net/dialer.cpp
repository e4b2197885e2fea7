#include "runtime/node/net/dialer.hpp"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <utility>

namespace troupe::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {
constexpr std::chrono::milliseconds longest_pause{500};
}

void dial_turns::add(const std::shared_ptr<dialer>& d) {
  queue_.add(d);
  give();
}

void dial_turns::over(const std::shared_ptr<dialer>& d) {
  queue_.over(d);
  give();
}

void dial_turns::stop() {
  stopped_ = true;
  timer_.cancel();
}

// Gives the turns that are due, and looks again when the next one need not wait longer.
void dial_turns::give() {
  if (stopped_) return;
  const auto now = std::chrono::steady_clock::now();
  for (const auto& d : queue_.begin(now)) d->go();
  const auto next = queue_.next(now);
  if (!next) return;
  timer_.expires_at(*next);
  timer_.async_wait([this](const error_code& ec) {
    if (!ec) give();
  });
}

dialer::dialer(asio::io_context& io, dial_turns& turns, address where, std::chrono::milliseconds within,
               std::chrono::milliseconds per_attempt, events on)
    : io_(io),
      turns_(turns),
      where_(std::move(where)),
      deadline_(std::chrono::steady_clock::now() + within),
      per_attempt_(per_attempt),
      on_(std::move(on)),
      overall_(io),
      step_(io),
      resolver_(io) {}

void dialer::start() { wait_for_turn(); }

void dialer::watch_deadline() {
  overall_.expires_at(deadline_);
  overall_.async_wait([self = shared_from_this()](const error_code& ec) {
    const bool moved = self->waits_since_ || std::chrono::steady_clock::now() < self->deadline_;
    if (ec || self->stopped_ || moved) return;
    const auto gave_up = std::move(self->on_.gave_up);
    self->stop();
    gave_up({"connect_deadline", "[net] " + to_string(self->where_) + " not reached in time; last error: " + self->last_.message});
  });
}

void dialer::extend(std::chrono::milliseconds within) {
  const auto later = std::chrono::steady_clock::now() + within;
  if (stopped_ || later <= deadline_) return;
  deadline_ = later;
  if (!waits_since_) watch_deadline();
}

void dialer::wait_for_turn() {
  if (stopped_) return;
  waits_since_ = std::chrono::steady_clock::now();
  overall_.cancel();
  turns_.add(shared_from_this());
}

void dialer::go() {
  if (stopped_ || !waits_since_) return;
  deadline_ += std::chrono::steady_clock::now() - *std::exchange(waits_since_, std::nullopt);
  watch_deadline();
  attempt();
}

void dialer::stop() {
  stopped_ = true;
  turns_.over(shared_from_this());
  overall_.cancel();
  step_.cancel();
  resolver_.cancel();
  socket_.reset();
  on_ = {};  // the callbacks may keep their owner alive
}

void dialer::attempt() {
  if (stopped_) return;
  error_code ec;
  const auto numeric = asio::ip::make_address(where_.host, ec);
  if (!ec) return connect_to(tcp::resolver::results_type::create(tcp::endpoint(numeric, where_.port), where_.host, ""));
  resolver_.async_resolve(where_.host, std::to_string(where_.port),
                          [self = shared_from_this()](const error_code& e, const tcp::resolver::results_type& found) {
                            if (self->stopped_) return;
                            if (e) return self->failed(e);
                            self->connect_to(found);
                          });
}

void dialer::connect_to(const tcp::resolver::results_type& where) {
  socket_.emplace(io_);
  // The kernel sends a lost SYN again after 1, 3, 7 s: a new attempt is faster.
  step_.expires_after(per_attempt_);
  step_.async_wait([self = shared_from_this()](const error_code& ec) {
    error_code ignored;
    if (!ec && self->socket_) self->socket_->close(ignored);
  });
  asio::async_connect(*socket_, where, [self = shared_from_this()](const error_code& ec, const tcp::endpoint&) {
    if (self->stopped_) return;
    self->step_.cancel();
    if (ec) return self->failed(ec);
    socket ready = std::move(*self->socket_);
    self->socket_.reset();
    self->on_.connected(std::move(ready));
  });
}

void dialer::failed(const error_code& ec) {
  socket_.reset();
  again({"connect_failed", ec.message()});
}

void dialer::again(const coded_error& why) {
  if (stopped_) return;
  last_ = why;
  turns_.over(shared_from_this());
  step_.expires_after(pause_);
  pause_ = std::min(pause_ * 5 / 4, longest_pause);  // the next attempt comes after about a fifth of the time so far
  step_.async_wait([self = shared_from_this()](const error_code& ec) {
    if (!ec) self->wait_for_turn();
  });
}

}  // namespace troupe::net
