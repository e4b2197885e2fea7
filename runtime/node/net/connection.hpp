// One TLS connection: handshake, greeting, then frames, credit and heartbeats. It knows the
// protocol of tcp_transport.hpp but not the other connections: what a greeting means is its owner's
// decision. All members but send() and the counters run on the I/O thread.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "runtime/node/net/buffer_pool.hpp"
#include "runtime/node/net/held_line.hpp"
#include "runtime/node/net/hello.hpp"
#include "runtime/node/net/memory_sharing.hpp"
#include "runtime/node/net/outbox.hpp"
#include "runtime/node/net/receive_buffer.hpp"
#include "runtime/node/net/receive_window.hpp"
#include "runtime/node/net/send_queue.hpp"
#include "runtime/node/net/stall.hpp"
#include "runtime/node/net/tcp_transport.hpp"
#include "runtime/node/net/tls.hpp"

namespace troupe::net {

// Per peer, over all its connections.
struct peer_counters {
  std::atomic<std::uint64_t> bytes_in{0}, bytes_out{0}, frames_in{0}, frames_out{0}, shared_in{0};
};

class connection;

struct connection_owner {
  virtual ~connection_owner() = default;
  // Answers with bless(), refuse(), or nothing to wait for the peer's welcome. `h.node` is proved
  // by the certificate.
  virtual void on_hello(const std::shared_ptr<connection>& c, const hello& h) = 0;
  virtual void on_welcome(const std::shared_ptr<connection>& c) = 0;
  // An error: the connection is closed with it.
  virtual expected<void> on_frame(const std::shared_ptr<connection>& c, frame&& f) = 0;
  virtual void on_closed(const std::shared_ptr<connection>& c, const error& reason) = 0;  // once
};

// What all connections of a transport share.
struct connection_setting {
  boost::asio::io_context& io;
  const tcp_options& options;
  std::shared_ptr<tls_context> tls;
  std::shared_ptr<buffer_pool> pool;
  std::shared_ptr<net::memory_sharing> memory_sharing;  // null: nothing is lent
  connection_owner& owner;
};

class connection : public std::enable_shared_from_this<connection> {
 public:
  connection(const connection_setting& setting, boost::asio::ip::tcp::socket&& socket, bool dialed, std::string wanted);

  void start();
  void accept_peer();                                   // sends welcome; go_up() follows
  void refuse(const error& why);                        // tells the peer, then closes
  void go_up(std::shared_ptr<peer_counters> counters);  // data may flow
  void say_goodbye();                                   // lets the queue out for `linger`, then closes
  void close(const error& reason);                      // at once

  bool send(outgoing_frame&& f, std::uint64_t payload_bytes);  // any thread
  void limit(std::uint64_t bytes) { outbox_.limit(bytes); }    // any thread

  bool dialed() const { return with_.dialed; }                // by us
  const std::string& wanted() const { return with_.wanted; }  // whom we dialled; empty: whoever answers
  const std::string& remote() const { return with_.remote; }  // address, for logs
  const hello& peer() const { return with_.peer; }
  certificate_role role() const { return with_.role; }  // of the peer, as its certificate says
  bool revoked_by(const tls_context& now) const { return now.revokes(stream_); }
  std::uint64_t queued() const { return outbox_.bytes(); }
  std::uint64_t queued_frames() const { return outbox_.frames(); }
  std::uint64_t outstanding() const { return outstanding_; }
  std::uint64_t held() const { return window_.held(); }
  bool shares_memory() const { return shared_.may_share || shared_.terms.memory; }
  const std::string& why_no_memory() const { return shared_.terms.why_not; }

 private:
  enum class state { handshaking, greeting, waiting, up, leaving, closed };
  // Who is at the other end, as far as we know.
  struct counterpart {
    const bool dialed;
    const std::string wanted, remote;
    hello peer;
    certificate_role role = certificate_role::node;
  };
  // What is on its way out. A write in flight refers to the queue's buffers: then it must stay as
  // it is.
  struct outgoing {
    send_queue queue;
    std::vector<outbox::left> taken;  // empty between two pumps; kept for its memory
    bool writing = false, failed = false;
  };
  // Why we close once the queue is out, and whether a goodbye goes before that.
  struct farewell {
    error why;
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
  void on_control(const frame& f);
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
    int ticks = 0;  // without a word of the peer's
    stall receiver;
  } silence_;

  outgoing out_;
  farewell parting_;
  std::shared_ptr<peer_counters> counters_;

  // What of the peer's memory is ours to read, and what of ours it may read; fixed by its hello.
  struct {
    memory_sharing::terms terms;
    std::atomic<bool> may_share{false};
  } shared_;

  outbox outbox_;
  std::atomic<std::uint64_t> outstanding_{0};
};

}  // namespace troupe::net
