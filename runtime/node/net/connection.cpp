#include "runtime/node/net/connection.hpp"

#include <boost/asio/post.hpp>
#include <exception>
#include <span>
#include <utility>

#include "runtime/node/pki/certificates.hpp"

namespace troupe::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::size_t staging_bytes = 32 << 10;

std::string name_of(const asio::ip::tcp::socket& socket) {
  error_code ec;
  const auto end = socket.remote_endpoint(ec);
  return ec ? "(gone)" : to_string(address{end.address().to_string(), end.port()});
}

}  // namespace

connection::connection(const connection_setting& setting, asio::ip::tcp::socket&& socket, bool dialed, std::string wanted)
    : io_(setting.io),
      options_(setting.options),
      pool_(setting.pool),
      owner_(setting.owner),
      dialed_(dialed),
      wanted_(std::move(wanted)),
      remote_(name_of(socket)),
      stream_(std::move(socket), setting.tls),
      timer_(io_),
      parser_(options_.max_frame, [this](std::size_t bytes) { return admit(bytes); }),
      accounts_(make_accounts(options_.window)) {}

// Nothing a handler throws may reach the I/O loop: it costs the connection, not the process.
template <class F>
void connection::guard(F&& f) noexcept {
  try {
    try {
      f();
    } catch (const std::exception& e) {
      close({"exception", std::string("[net] in a handler: ") + e.what()});
    } catch (...) {
      close({"exception", "[net] in a handler"});
    }
  } catch (...) {  // the owner's on_closed threw as well: the connection is closed all the same
  }
}

void connection::start() {
  arm(options_.handshake);
  stream_.handshake(
      !dialed_, [self = shared_from_this()](const error_code& ec, std::size_t) { self->guard([&] { self->on_handshake(ec); }); });
}

void connection::on_handshake(const error_code& ec) {
  if (state_ == state::closed) return;
  if (ec) return close(stream_.describe(ec));
  state_ = state::greeting;
  hello mine;
  mine.incarnation = options_.incarnation;
  mine.window = options_.window;
  mine.max_frame = options_.max_frame;
  mine.cluster = options_.cluster;
  mine.node = options_.node;
  mine.wanted = wanted_;
  queue_.push_control(control_type::hello, encode_hello(mine));
  staging_.resize(staging_bytes);
  pump();
  read_next();
}

void connection::read_next() {
  std::span<std::byte> into = parser_.window();
  reading_direct_ = !into.empty();
  if (!reading_direct_) into = staging_;
  stream_.read_some(
      into, [self = shared_from_this()](const error_code& ec, std::size_t n) { self->guard([&] { self->on_read(ec, n); }); });
}

void connection::on_read(const error_code& ec, std::size_t n) {
  if (state_ == state::closed) return;
  if (ec) return close(stream_.describe(ec));
  silent_ticks_ = 0;
  std::span<const std::byte> in;
  if (reading_direct_)
    parser_.commit(n);
  else
    in = std::span(staging_).first(n);
  frame f;
  for (auto r = parser_.next(in, f); r != frame_parser::result::need_more; r = parser_.next(in, f)) {
    if (r == frame_parser::result::failed) return close(parser_.failure());
    if (f.type >= first_reserved_type) {
      on_control(f);
    } else {
      counters_->frames_in.fetch_add(1, std::memory_order_relaxed);
      const std::uint64_t chunks = f.bytes == 0 ? 1 : (f.bytes + max_chunk - 1) / max_chunk;
      counters_->bytes_in.fetch_add(f.bytes + chunks * header_bytes, std::memory_order_relaxed);
      owner_.on_frame(shared_from_this(), std::move(f));
    }
    f = {};  // its credit must not wait for the next frame
    if (state_ == state::closed) return;
  }
  read_next();
}

void connection::on_control(const frame& f) {
  const auto bytes = std::span<const std::byte>(f.payload.get(), f.bytes);
  switch (static_cast<control_type>(f.type)) {
    case control_type::heartbeat: return;
    case control_type::hello:
      if (state_ == state::greeting) return on_hello(f);
      break;
    case control_type::welcome:
      if (state_ == state::waiting) return owner_.on_welcome(shared_from_this());
      break;
    case control_type::refuse: return close(decode_refusal(bytes));
    case control_type::goodbye: return close({"peer_closed", "[net] the peer closed the connection on purpose"});
    case control_type::credit:
      if (state_ != state::up && state_ != state::leaving) break;
      if (f.destination >= frame_classes || !queue_.credit(static_cast<frame_class>(f.destination), f.id))
        return close({"bad_credit", "[net] the peer returned more credit than it was given"});
      outstanding_ = queue_.outstanding();
      return pump();
  }
  close({"unexpected_frame", "[net] a control frame of type " + std::to_string(f.type) + " out of turn"});
}

void connection::on_hello(const frame& f) {
  auto h = decode_hello({f.payload.get(), f.bytes});
  if (!h) return refuse(h.error());
  const std::string proved = stream_.peer_common_name();
  // A node's name is its certificate's; operators' sessions share theirs.
  if (is_operator(h->node) ? proved != client_name : h->node != proved)
    return refuse({"name_mismatch", "[net] a node calls itself " + h->node + " but its certificate says otherwise"});
  peer_ = std::move(*h);
  state_ = state::waiting;
  owner_.on_hello(shared_from_this(), peer_);
}

void connection::bless() {
  queue_.push_control(control_type::welcome);
  pump();
}

void connection::refuse(const error& why) {
  if (state_ == state::closed) return;
  state_ = state::leaving;
  parting_ = why;
  queue_.push_control(control_type::refuse, encode_refusal(why));
  pump();
}

void connection::go_up(std::shared_ptr<peer_counters> counters) {
  state_ = state::up;
  counters_ = std::move(counters);
  parser_.allow_data(true);
  queue_.open(peer_.window);
  for (const auto& a : accounts_)
    a->on_report([weak = weak_from_this(), &io = io_] {
      asio::post(io, [weak] {
        if (const auto self = weak.lock()) self->guard([&] { self->return_credit(); });
      });
    });
  {
    const std::lock_guard lock(inbox_mutex_);
    open_ = true;
  }
  arm(options_.heartbeat);
}

void connection::say_goodbye() {
  if (state_ != state::up) return close({"closed", "[net] this node closes"});
  state_ = state::leaving;
  parting_ = {"closed", "[net] this node closes"};
  goodbye_owed_ = true;
  {
    const std::lock_guard lock(inbox_mutex_);
    open_ = false;
  }
  arm(options_.linger);
  pump();
}

void connection::close(const error& reason) {
  if (state_ == state::closed) return;
  state_ = state::closed;
  for (const auto& a : accounts_) a->on_report({});
  timer_.cancel();
  stream_.close();
  std::vector<posted> dropped;  // dies outside the lock: owners may do anything in their destructors
  {
    const std::lock_guard lock(inbox_mutex_);
    open_ = false;
    dropped.swap(inbox_);
  }
  // A write in flight still refers to its buffers; its handler, which comes with an error, lets them go.
  if (!writing_) queue_ = send_queue();
  queued_ = queued_frames_ = 0;
  owner_.on_closed(shared_from_this(), reason);
}

bool connection::send(outgoing_frame&& f, std::uint64_t payload_bytes) {
  const std::lock_guard lock(inbox_mutex_);
  if (!open_) return false;
  if (queued_ + payload_bytes + (queued_frames_ + 1) * frame_overhead > options_.max_queued) {
    open_ = false;
    asio::post(io_, [self = shared_from_this()] {
      self->guard([&] { self->close({"queue_full", "[net] " + self->peer_.node + " takes too little of what waits for it"}); });
    });
    return false;
  }
  inbox_.push_back({std::move(f), payload_bytes});
  queued_ += payload_bytes;
  ++queued_frames_;
  if (!std::exchange(wake_posted_, true)) asio::post(io_, [self = shared_from_this()] { self->guard([&] { self->pump(); }); });
  return true;
}

void connection::pump() {
  {
    const std::lock_guard lock(inbox_mutex_);
    wake_posted_ = false;
    taken_.swap(inbox_);
  }
  for (posted& p : taken_) queue_.push(std::move(p.f), p.bytes);
  taken_.clear();
  if (writing_ || write_failed_ || state_ == state::closed) return;
  auto batch = queue_.next_batch();
  outstanding_ = queue_.outstanding();
  if (batch.empty() && state_ == state::leaving && queue_.empty()) {
    if (!std::exchange(goodbye_owed_, false)) return close(parting_);  // the refusal or goodbye is out
    queue_.push_control(control_type::goodbye);
    batch = queue_.next_batch();
  }
  if (batch.empty()) return;
  writing_ = true;
  stream_.write(batch,
                [self = shared_from_this()](const error_code& ec, std::size_t) { self->guard([&] { self->on_written(ec); }); });
}

void connection::on_written(const error_code& ec) {
  writing_ = false;
  const auto done = queue_.written();
  if (state_ == state::closed) {
    queue_ = send_queue();
    return;
  }
  if (ec) {
    // The read side tells why: a refusal or goodbye may still lie in its buffer.
    write_failed_ = true;
    return;
  }
  queued_ -= done.payload;
  queued_frames_ -= done.frames;
  if (counters_) {
    counters_->frames_out.fetch_add(done.frames, std::memory_order_relaxed);
    counters_->bytes_out.fetch_add(done.bytes, std::memory_order_relaxed);
  }
  pump();
}

// Called before memory is taken for a payload.
expected<std::shared_ptr<std::byte>> connection::admit(std::size_t bytes) {
  const auto c = class_of(bytes);
  const auto i = static_cast<std::size_t>(c);
  if (granted_out_[i] >= share_of(c, options_.window)) return error{"credit_exceeded", "[net] the peer sends more than its window"};
  auto block = pool_->take(bytes, accounts_[i]);
  if (!block) return error{"out_of_memory", "[net] no memory for a payload of " + std::to_string(bytes) + " bytes"};
  granted_out_[i] += frame_cost(bytes);
  return block;
}

void connection::return_credit() {
  if (state_ != state::up && state_ != state::leaving) return;
  bool any = false;
  for (std::size_t i = 0; i < frame_classes; ++i) {
    const std::uint64_t n = accounts_[i]->collect();
    if (n == 0) continue;
    granted_out_[i] -= n;
    queue_.push_credit(static_cast<frame_class>(i), n);
    any = true;
  }
  if (any) pump();
}

void connection::arm(std::chrono::milliseconds delay) {
  timer_.expires_after(delay);
  timer_.async_wait([weak = weak_from_this()](const error_code& ec) {
    const auto self = weak.lock();
    if (!ec && self) self->guard([&] { self->on_timer(); });
  });
}

void connection::on_timer() {
  if (state_ == state::closed) return;
  if (state_ == state::leaving) return close(parting_);
  if (state_ != state::up)
    return close({"handshake_timeout", "[net] not authenticated within " + std::to_string(options_.handshake.count()) + " ms"});
  // Silence is counted in our own ticks, not by the clock: a node that was itself stopped for a while sees one tick, then hears its
  // peers, and declares nobody dead.
  ++silent_ticks_;
  if (silent_ticks_ * options_.heartbeat > options_.silence)
    return close({"peer_silent", "[net] no byte for " + std::to_string(options_.silence.count()) + " ms"});
  queue_.push_control(control_type::heartbeat);
  return_credit();
  pump();
  arm(options_.heartbeat);
}

}  // namespace troupe::net
