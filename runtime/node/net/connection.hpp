// One TLS connection: handshake, greeting, then frames, credit and heartbeats. It implements the
// protocol of tcp_transport.hpp and knows no other connection: its owner decides whether a peer is
// accepted. All members run on the I/O thread, except send(), limit() and the counters.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/net/buffer_pool.hpp"
#include "runtime/node/net/held_line.hpp"
#include "runtime/node/net/hello.hpp"
#include "runtime/node/net/memory_sharing.hpp"
#include "runtime/node/net/outbox.hpp"
#include "runtime/node/net/receive_buffer.hpp"
#include "runtime/node/net/receive_window.hpp"
#include "runtime/node/net/send_queue.hpp"
#include "runtime/node/net/tcp_transport.hpp"
#include "runtime/node/net/tls.hpp"

namespace troupe::net {

// Detects a peer that accepts no written bytes. A peer that sends heartbeats and never reads is not
// silent, but data queued for it never arrives. Called at each tick of the connection, so that a
// node that was itself stopped for a while declares no peer dead.
//
// Any byte that the socket takes or the peer acknowledges is progress: a slow peer is not
// disconnected, however slow. A peer whose application holds received frames (no credit) is not
// stalled either: a paused job does so for hours, and its transport continues to read.
class stall {
 public:
  // `steps`: number of partial writes that the socket has taken; `undelivered`: bytes in the socket
  // that the peer has not acknowledged. Returns the ticks without progress.
  int tick(bool writing, std::uint64_t steps, std::uint64_t undelivered) {
    const bool same = writing && writing_ && steps == steps_ && undelivered == undelivered_;
    writing_ = writing;
    steps_ = steps;
    undelivered_ = undelivered;
    return ticks_ = same ? ticks_ + 1 : 0;
  }

 private:
  bool writing_ = false;
  std::uint64_t steps_ = 0, undelivered_ = 0;
  int ticks_ = 0;
};

// Per peer, over all its connections.
struct peer_counters {
  std::atomic<std::uint64_t> bytes_in{0}, bytes_out{0}, frames_in{0}, frames_out{0}, shared_in{0};
  std::atomic<std::int64_t> round_trip{0};  // of the last probe, ns; 0: none yet
};

class connection;

struct connection_owner {
  virtual ~connection_owner() = default;
  // Called when the peer's certificate allows the name `h.node`. The owner calls accept_peer() or
  // refuse(), or neither to wait for the peer's welcome.
  virtual void on_hello(const std::shared_ptr<connection>& c, const hello& h) = 0;
  virtual void on_welcome(const std::shared_ptr<connection>& c) = 0;
  // An error closes the connection with this reason.
  virtual expected<void, coded_error> on_frame(const std::shared_ptr<connection>& c, frame&& f) = 0;
  virtual void on_closed(const std::shared_ptr<connection>& c, const coded_error& reason) = 0;  // once
};

// State shared by all connections of a transport.
struct connection_setting {
  boost::asio::io_context& io;
  const tcp_options& options;
  std::shared_ptr<tls_context> tls;
  std::shared_ptr<buffer_pool> pool;
  std::shared_ptr<net::memory_sharing> memory_sharing;  // null: no memory is shared
  connection_owner& owner;
};

class connection : public std::enable_shared_from_this<connection> {
 public:
  connection(const connection_setting& setting, boost::asio::ip::tcp::socket&& socket, bool dialed, std::string wanted);

  void start();
  void accept_peer();                                   // sends welcome; go_up() follows
  void refuse(const coded_error& why);                  // sends the reason, then closes
  void go_up(std::shared_ptr<peer_counters> counters);  // data may flow
  void say_goodbye();                                   // sends the queued frames for at most `linger`, then closes
  void close(const coded_error& reason);                // immediately

  bool send(outgoing_frame&& f, std::uint64_t payload_bytes);  // any thread
  void limit(std::uint64_t bytes) { outbox_.limit(bytes); }    // any thread

  bool dialed() const { return with_.dialed; }                // true if this node dialled
  const std::string& wanted() const { return with_.wanted; }  // the node that was dialled; empty: any node at that address
  const std::string& remote() const { return with_.remote; }  // address, for logs
  const hello& peer() const { return with_.peer; }
  certificate_role role() const { return with_.role; }  // of the peer, from its certificate
  bool revoked_by(const tls_context& now) const { return now.revokes(stream_); }
  std::uint64_t queued() const { return outbox_.bytes(); }
  std::uint64_t queued_frames() const { return outbox_.frames(); }
  std::uint64_t outstanding() const { return outstanding_; }
  std::uint64_t held() const { return window_.held(); }
  bool shares_memory() const { return shared_.may_share || shared_.terms.memory; }
  const std::string& why_no_memory() const { return shared_.terms.why_not; }

 private:
  enum class state { handshaking, greeting, waiting, up, leaving, closed };
  // The peer, as far as it is known.
  struct counterpart {
    const bool dialed;
    const std::string wanted, remote;
    hello peer;
    certificate_role role = certificate_role::node;
  };
  // Frames to send. A write in flight refers to the buffers of `queue`: do not replace it then.
  struct outgoing {
    send_queue queue;
    std::vector<outbox::left> taken;  // empty between two pumps; kept for its memory
    bool writing = false, failed = false;
  };
  // The reason to close with when the queue is empty, and whether a goodbye must be sent first.
  struct farewell {
    coded_error why;
    bool goodbye_owed = false;
  };

  template <class F>
  void guard(F&& f) noexcept;
  void begin();
  void on_handshake(const boost::system::error_code& ec);
  void read_next();
  void on_read(const boost::system::error_code& ec, std::size_t n);
  bool hand_on(frame&& f);
  void hand_on_late();
  void on_control(frame& f);
  bool on_probe(const frame& f);
  bool on_credit(const frame& f);
  void begin_sharing();
  void on_hello(const frame& f);
  void pump();
  void on_written(const boost::system::error_code& ec);
  void return_credit();
  bool return_shared_buffers();
  void hang_up();
  void arm(std::chrono::milliseconds delay);
  void on_timer();

  const connection_setting setting_;
  counterpart with_;
  tls_stream stream_;
  boost::asio::steady_timer timer_;
  state state_ = state::handshaking;

  receive_window window_;
  receive_buffer in_;
  held_line line_;
  struct {
    int greeting = 0;  // steps of the time in which the peer must be authenticated
    int ticks = 0;     // since the last byte from the peer
    int probes = 0;    // probes and echoes since the last tick; further ones than max_probes are ignored
    stall receiver;
  } silence_;

  outgoing out_;
  farewell parting_;
  std::shared_ptr<peer_counters> counters_;

  // Memory sharing with the peer in both directions; set when its hello arrives.
  struct {
    memory_sharing::terms terms;
    std::atomic<bool> may_share{false};
  } shared_;

  outbox outbox_;
  std::atomic<std::uint64_t> outstanding_{0};
};

}  // namespace troupe::net
