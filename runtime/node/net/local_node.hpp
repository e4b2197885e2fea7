// One end of local transports: its links, its queues, and the thread that runs what is posted to
// it. transport.hpp has the promises.
//
// A link is known to both ends or to none (local_hub::links). What one end has to tell the other is
// posted to the other's thread, in order. A frame is not: that there are some is posted, and the
// receiver's thread takes one at a time, whose turn it is then (send_order), so that small ones
// need not wait behind the copies of large ones.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <thread>

#include "runtime/node/net/buffer_pool.hpp"
#include "runtime/node/net/local_hub.hpp"
#include "runtime/node/net/send_order.hpp"

namespace troupe::net {

class local_node : public std::enable_shared_from_this<local_node> {
 public:
  using clock = std::chrono::steady_clock;
  local_node(tcp_options o, std::shared_ptr<local_hub> hub, callbacks events);

  void start();
  expected<std::uint16_t> listen(const address& where);
  void connect(const std::string& peer, const address& where, std::chrono::milliseconds within);
  bool send(std::string_view peer, outgoing_frame&& f);
  void disconnect(const std::string& peer);
  void limit(const std::string& peer, std::uint64_t bytes);
  transport_stats stats() const;
  void close();
  void dial_again();  // somebody has begun to listen

 private:
  // What both ends know of their connection; each has its own account of what the other has sent
  // it.
  struct link {
    credit_accounts accounts;  // of what we hold
    std::weak_ptr<local_node> other;
    std::string name;  // the other's
    std::uint64_t incarnation = 0, max_frame = 0;
    send_order waiting{false};
    std::uint64_t queued = 0, queued_frames = 0;
    std::optional<std::uint64_t> most;  // that may be queued; none: tcp_options::max_queued
    bool called = false;                // the other has been told that there are frames
    std::weak_ptr<link> end;            // the other's side of it
  };
  using link_ptr = std::shared_ptr<link>;
  struct record {
    link_ptr up;
    std::uint64_t incarnation = 0;
    std::uint64_t bytes_in = 0, bytes_out = 0, frames_in = 0, frames_out = 0, shared_in = 0;
  };
  struct dial {
    address where;
    clock::time_point until;
  };

  // Of all that follows, what touches links holds hub_->links; `posted` work and callbacks run on
  // our thread, without it.
  void post(std::function<void()> what);
  void loop();
  bool run_next();
  clock::time_point next_deadline();
  void end_late_dials();
  void try_dial(const std::string& peer);
  std::optional<error> objection(const local_node& to, const std::string& wanted) const;
  void give_up(const std::string& peer, const error& why);
  void join(local_node& to);
  void put_up(const std::shared_ptr<local_node>& other, const link_ptr& l);
  void part(const link_ptr& l, const error& here, const error& there);
  void drop(const link_ptr& l, const error& why);
  void call(const link_ptr& l);
  std::optional<send_order::entry> hand_over(const link_ptr& l);
  void take_one(const link_ptr& l);
  void receive(const link_ptr& l, outgoing_frame& f);
  void returned(const link_ptr& l, frame_class c, std::uint64_t cost);
  link_ptr up(std::string_view peer) const;
  bool all_out() const;
  void log(const std::string& line) const {
    if (events_.log) events_.log(line);
  }

  const tcp_options options_;
  const std::shared_ptr<local_hub> hub_;
  const callbacks events_;
  const std::shared_ptr<buffer_pool> pool_;

  // With hub_->links.
  std::map<std::string, record, std::less<>> peers_;
  std::map<std::string, dial, std::less<>> dials_;
  bool listening_ = false, leaving_ = false;
  std::uint64_t refused_ = 0;

  std::mutex lock_;  // guards what follows; may be taken with hub_->links held, never the other way
  std::condition_variable changed_;
  std::deque<std::function<void()>> posted_;
  bool stopped_ = false;
  std::uint64_t handed_over_ = 0;  // frames, for close() to wait for
  std::mutex join_lock_;
  std::thread thread_;
};

}  // namespace troupe::net
