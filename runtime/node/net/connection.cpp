#include "runtime/node/net/connection.hpp"

#include <boost/asio/post.hpp>
#include <exception>
#include <span>
#include <utility>

#include "runtime/access/names.hpp"

namespace troupe::net {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// Probes and echoes that are taken between two heartbeats. Each peer sends one of each.
constexpr int max_probes = 8;

// The time of an unauthenticated peer is counted in this number of steps, so that a node which was
// itself stopped for a while still handles what has arrived before it closes the connection.
constexpr int handshake_steps = 10;

std::string name_of(const asio::ip::tcp::socket& socket) {
  error_code ec;
  const auto end = socket.remote_endpoint(ec);
  return ec ? "(gone)" : to_string(address{end.address().to_string(), end.port()});
}

}  // namespace

connection::connection(const connection_setting& setting, asio::ip::tcp::socket&& socket, bool dialed, std::string wanted)
    : setting_(setting),
      with_{dialed, std::move(wanted), name_of(socket), {}, certificate_role::node},
      stream_(std::move(socket), setting.tls),
      timer_(setting.io),
      window_(setting.options.window, setting.pool),
      in_(setting.options.max_frame, [this](const frame_header& h) { return window_.admit(h); }),
      line_(setting.io, setting.options.faults),
      outbox_(setting.options.max_queued) {}

// No exception of a handler may reach the I/O loop: it closes the connection, not the process.
template <class F>
void connection::guard(F&& f) noexcept {
  try {
    try {
      f();
    } catch (const std::exception& e) {
      close({"exception", std::string("[net] exception in a handler: ") + e.what()});
    } catch (...) {
      close({"exception", "[net] unknown exception in a handler"});
    }
  } catch (...) {  // on_closed() of the owner threw too; the connection is closed nevertheless
  }
}

void connection::start() {
  arm(setting_.options.handshake / handshake_steps);
  begin();
}

void connection::begin() {
  if (line_.holds(held_line::reading, shared_from_this(), [this] { guard([&] { begin(); }); })) return;
  if (state_ == state::closed) return;
  stream_.handshake(!with_.dialed, [self = shared_from_this()](const error_code& ec, std::size_t) {
    self->guard([&] { self->on_handshake(ec); });
  });
}

void connection::on_handshake(const error_code& ec) {
  if (state_ == state::closed) return;
  if (line_.holds(held_line::reading, shared_from_this(), [this, ec] { guard([&] { on_handshake(ec); }); })) return;
  if (ec) return close(stream_.describe(ec));
  state_ = state::greeting;
  hello mine;
  mine.incarnation = setting_.options.incarnation;
  mine.window = setting_.options.window;
  mine.max_frame = setting_.options.max_frame;
  mine.cluster = setting_.options.cluster;
  mine.node = setting_.options.node;
  mine.wanted = with_.wanted;
  if (setting_.memory_sharing) mine.memory = setting_.memory_sharing->where();
  out_.queue.push_control(control_type::hello, encode_hello(mine));
  pump();
  read_next();
}

void connection::read_next() {
  stream_.read_some(
      in_.room(), [self = shared_from_this()](const error_code& ec, std::size_t n) { self->guard([&] { self->on_read(ec, n); }); });
}

void connection::on_read(const error_code& ec, std::size_t n) {
  if (state_ == state::closed) return;
  if (line_.holds(held_line::reading, shared_from_this(), [this, ec, n] { guard([&] { on_read(ec, n); }); })) return;
  if (ec) return close(stream_.describe(ec));
  silence_.ticks = 0;
  in_.received(n);
  frame f;
  for (auto r = in_.next(f); r != frame_parser::result::need_more; r = in_.next(f)) {
    if (r == frame_parser::result::failed) return close(in_.failure());
    if (f.type >= first_reserved_type)
      on_control(f);
    else if (!hand_on(std::move(f)))
      return;
    f = {};  // returns the frame's credit now, not when the next frame arrives
    if (state_ == state::closed) return;
  }
  read_next();
}

bool connection::hand_on(frame&& f) {
  const std::uint64_t chunks = f.bytes == 0 ? 1 : (f.bytes + max_chunk - 1) / max_chunk;
  std::uint64_t shared = 0;
  if (in_.shares()) {
    if (auto fine = unfold(f, shared_.terms, window_); !fine) return close(fine.error()), false;
    for (const auto& p : f.shared) shared += p.bytes;
  }
  std::uint64_t size = f.bytes;
  for (const auto& p : f.shared) size += bytes_elsewhere(p);
  counters_->frames_in.fetch_add(1, std::memory_order_relaxed);
  counters_->bytes_in.fetch_add(size + chunks * header_bytes, std::memory_order_relaxed);
  counters_->shared_in.fetch_add(shared, std::memory_order_relaxed);
  if (line_.delays(f, shared_from_this(), [this] { guard([&] { hand_on_late(); }); })) return true;
  if (auto fine = setting_.owner.on_frame(shared_from_this(), std::move(f)); !fine) return close(fine.error()), false;
  return true;
}

void connection::hand_on_late() {
  while (auto f = line_.next_due())
    if (on_probe(*f))
      continue;
    else if (auto fine = setting_.owner.on_frame(shared_from_this(), std::move(*f)); !fine)
      return close(fine.error());
}

// Answers a probe, or takes the time of the answer. Injected delays apply to both, as to data.
// Returns false for other frames.
bool connection::on_probe(const frame& f) {
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  if (f.type == static_cast<std::uint16_t>(control_type::probe)) {
    out_.queue.push_number(control_type::echo, f.id);
    pump();
    return true;
  }
  if (f.type != static_cast<std::uint16_t>(control_type::echo)) return false;
  // The peer may return another number than this node has sent: then the time is its own fault.
  if (counters_ && f.id <= now) counters_->round_trip = std::max<std::int64_t>(1, static_cast<std::int64_t>(now - f.id));
  return true;
}

void connection::on_control(frame& f) {
  const auto bytes = std::span<const std::byte>(f.payload.get(), f.bytes);
  switch (static_cast<control_type>(f.type)) {
    case control_type::heartbeat: return;
    case control_type::probe:
    case control_type::echo:
      if (state_ != state::up && state_ != state::leaving) break;
      if (++silence_.probes > max_probes) return;
      if (!line_.delays(f, shared_from_this(), [this] { guard([&] { hand_on_late(); }); })) on_probe(f);
      return;
    case control_type::hello:
      if (state_ == state::greeting) return on_hello(f);
      break;
    case control_type::welcome:
      if (state_ == state::waiting) return setting_.owner.on_welcome(shared_from_this());
      break;
    case control_type::refuse: return close(decode_refusal(bytes));
    case control_type::goodbye: return close({"peer_closed", "[net] the peer closed the connection with a goodbye"});
    case control_type::credit:
      if (on_credit(f)) return;
      break;
    case control_type::reads_shared:
      if (state_ != state::up && state_ != state::leaving) break;
      shared_.may_share = shared_.terms.ours != nullptr;
      return;
    case control_type::returned:
      if (!shared_.terms.ours) break;
      if (!shared_.terms.ours->returned(bytes))
        return close({"bad_loan", "[net] the peer returned a shared buffer that it does not hold"});
      return;
  }
  close({"unexpected_frame",
         "[net] unexpected control frame of type " + std::to_string(f.type) + " in this state of the connection"});
}

// Returns false if credit is not allowed in the current state.
bool connection::on_credit(const frame& f) {
  if (state_ != state::up && state_ != state::leaving) return false;
  if (f.destination >= frame_classes || !out_.queue.credit(static_cast<frame_class>(f.destination), f.id)) {
    close({"bad_credit", "[net] the peer returned more credit than is outstanding"});
    return true;
  }
  outstanding_ = out_.queue.outstanding();
  pump();
  return true;
}

void connection::on_hello(const frame& f) {
  auto h = decode_hello({f.payload.get(), f.bytes});
  if (!h) return refuse(h.error());
  const auto proved = stream_.peer();
  if (!proved || !may_be_called(h->node, proved->common_name))
    return refuse({"name_mismatch", "[net] the peer's hello names " + h->node + ", which its certificate does not allow"});
  with_.peer = std::move(*h);
  with_.role = proved->role;
  // Only nodes share memory: this node must not open memory that a client names.
  const bool shares = proved->role == certificate_role::node && with_.peer.memory.bytes > 0;
  if (setting_.memory_sharing && shares) shared_.terms = setting_.memory_sharing->meet(with_.peer.memory);
  state_ = state::waiting;
  setting_.owner.on_hello(shared_from_this(), with_.peer);
}

void connection::accept_peer() {
  out_.queue.push_control(control_type::welcome);
  pump();
}

void connection::refuse(const coded_error& why) {
  if (state_ == state::closed) return;
  state_ = state::leaving;
  parting_.why = why;
  out_.queue.push_control(control_type::refuse, encode_refusal(why));
  pump();
}

void connection::go_up(std::shared_ptr<peer_counters> counters) {
  state_ = state::up;
  silence_.greeting = handshake_steps;
  counters_ = std::move(counters);
  in_.allow_data();
  out_.queue.open(with_.peer.window);
  window_.on_report([weak = weak_from_this(), &io = setting_.io] {
    asio::post(io, [weak] {
      if (const auto self = weak.lock()) self->guard([&] { self->return_credit(); });
    });
  });
  begin_sharing();
  outbox_.open();
  arm(setting_.options.heartbeat);
}

void connection::begin_sharing() {
  if (!shared_.terms.memory) return;
  shared_.terms.theirs->on_report([weak = weak_from_this(), &io = setting_.io] {
    asio::post(io, [weak] {
      if (const auto self = weak.lock()) self->guard([&] { self->return_credit(); });
    });
  });
  out_.queue.push_control(control_type::reads_shared);
  pump();
}

void connection::say_goodbye() {
  if (state_ != state::up) return close({"closed", "[net] this node is closing"});
  state_ = state::leaving;
  parting_ = {{"closed", "[net] this node is closing"}, true};
  outbox_.shut();
  arm(setting_.options.linger);
  pump();
}

void connection::close(const coded_error& reason) {
  if (state_ == state::closed) return;
  state_ = state::closed;
  window_.on_report({});
  if (shared_.terms.theirs) shared_.terms.theirs->on_report({});
  if (setting_.memory_sharing) setting_.memory_sharing->part(shared_.terms);
  timer_.cancel();
  line_.forget();
  hang_up();
  const auto dropped = outbox_.drop();
  // A write in flight still refers to the queue's buffers; its handler, called with an error, frees
  // them.
  if (!out_.writing) out_.queue = send_queue();
  outbox_.forget();
  setting_.owner.on_closed(shared_from_this(), reason);
}

// An injected drop holds the close back too: the peer must not learn of the end.
void connection::hang_up() {
  if (!line_.holds(held_line::closing, shared_from_this(), [this] { stream_.close(); })) stream_.close();
}

bool connection::send(outgoing_frame&& f, std::uint64_t payload_bytes) {
  // share() may copy. It runs on the caller's thread, so that the I/O thread serves other peers.
  if (shared_.may_share) shared_.terms.ours->share(f);
  switch (outbox_.put(std::move(f), payload_bytes)) {
    case outbox::put_result::closed: return false;
    case outbox::put_result::full:
      asio::post(setting_.io, [self = shared_from_this()] {
        self->guard([&] {
          self->close({"queue_full", "[net] " + self->peer().node + " reads too slowly: its send queue is full"});
        });
      });
      return false;
    case outbox::put_result::first:
      asio::post(setting_.io, [self = shared_from_this()] { self->guard([&] { self->pump(); }); });
      return true;
    case outbox::put_result::more: return true;
  }
  return false;
}

void connection::pump() {
  outbox_.take(out_.taken);
  for (auto& p : out_.taken) out_.queue.push(std::move(p.f), p.bytes);
  out_.taken.clear();
  if (out_.writing || out_.failed || state_ == state::closed) return;
  if (line_.holds(held_line::writing, shared_from_this(), [this] { guard([&] { pump(); }); })) return;
  auto batch = out_.queue.next_batch();
  outstanding_ = out_.queue.outstanding();
  if (batch.empty() && state_ == state::leaving && out_.queue.empty()) {
    if (!std::exchange(parting_.goodbye_owed, false)) return close(parting_.why);  // the refusal or goodbye has been written
    out_.queue.push_control(control_type::goodbye);
    batch = out_.queue.next_batch();
  }
  if (batch.empty()) return;
  out_.writing = true;
  stream_.write(batch,
                [self = shared_from_this()](const error_code& ec, std::size_t) { self->guard([&] { self->on_written(ec); }); });
}

void connection::on_written(const error_code& ec) {
  out_.writing = false;
  const auto done = out_.queue.written();
  if (state_ == state::closed) {
    out_.queue = send_queue();
    return;
  }
  if (ec) {
    // The read side reports the reason: its buffer may still hold a refusal or goodbye.
    out_.failed = true;
    return;
  }
  outbox_.gone(done.payload, done.frames);
  if (counters_) {
    counters_->frames_out.fetch_add(done.frames, std::memory_order_relaxed);
    counters_->bytes_out.fetch_add(done.bytes, std::memory_order_relaxed);
  }
  pump();
}

void connection::return_credit() {
  if (state_ != state::up && state_ != state::leaving) return;
  bool any = false;
  for (const auto c : {frame_class::large, frame_class::small}) {
    const std::uint64_t n = window_.collect(c);
    if (n == 0) continue;
    out_.queue.push_credit(c, n);
    any = true;
  }
  any = return_shared_buffers() || any;
  if (any) pump();
}

bool connection::return_shared_buffers() {
  bool any = false;
  if (shared_.terms.theirs)
    for (auto numbers = shared_.terms.theirs->collect(max_control / sizeof(std::uint64_t)); !numbers.empty();
         numbers = shared_.terms.theirs->collect(max_control / sizeof(std::uint64_t))) {
      out_.queue.push_control(control_type::returned, std::move(numbers));
      any = true;
    }
  return any;
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
  if (state_ != state::up && ++silence_.greeting < handshake_steps) return arm(setting_.options.handshake / handshake_steps);
  if (state_ == state::leaving) return close(parting_.why);
  if (state_ != state::up)
    return close(
        {"handshake_timeout", "[net] not authenticated within " + std::to_string(setting_.options.handshake.count()) + " ms"});
  // Silence is counted in heartbeat ticks, not by the clock: a node that was itself stopped for a
  // while sees one tick, then receives from its peers, and declares none of them dead.
  ++silence_.ticks;
  silence_.probes = 0;
  if (silence_.ticks * setting_.options.heartbeat > setting_.options.silence)
    return close({"peer_silent", "[net] no byte received for " + std::to_string(setting_.options.silence.count()) + " ms"});
  if (silence_.receiver.tick(out_.writing, stream_.steps_written(), stream_.undelivered()) * setting_.options.heartbeat >
      setting_.options.stalled)
    return close({"peer_stalled", "[net] the peer accepted no byte of the queued data for " +
                                      std::to_string(setting_.options.stalled.count()) + " ms"});
  out_.queue.push_control(control_type::heartbeat);
  out_.queue.push_number(control_type::probe,
                         static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  return_credit();
  pump();
  arm(setting_.options.heartbeat);
}

}  // namespace troupe::net
