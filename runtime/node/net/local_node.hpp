// One node of the local transport: its links, its queues, and the thread that runs posted work.
// transport.hpp states the guarantees.
//
// A link exists at both ends or at neither (local_hub::links). Notifications for the other end are
// posted to its thread, in order. Frames are not posted, only the fact that some wait: the
// receiver's thread then takes one frame at a time, in send_order's order, so that small frames do
// not wait behind the copies of large ones.
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
  void dial_again();  // tries all waiting dials again; called when a node has begun to listen

 private:
  // One end of a connection. Each end has accounts of the frames that it has received from the
  // other.
  struct link {
    credit_accounts accounts;  // of received frames that are still held
    std::weak_ptr<local_node> other;
    std::string name;  // of the other node
    std::uint64_t incarnation = 0, max_frame = 0;
    send_order waiting{false};
    std::uint64_t queued = 0, queued_frames = 0;
    std::optional<std::uint64_t> most;  // bytes that may be queued; empty: tcp_options::max_queued
    bool called = false;                // the other end has been notified that frames wait
    std::weak_ptr<link> end;            // the other node's end
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

  // The members below require hub_->links where they touch links. Posted work and callbacks run on
  // this node's thread without the lock.
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

  // Guarded by hub_->links.
  std::map<std::string, record, std::less<>> peers_;
  std::map<std::string, dial, std::less<>> dials_;
  bool listening_ = false, leaving_ = false;
  std::uint64_t refused_ = 0;

  std::mutex lock_;  // guards the members below; lock order: hub_->links first
  std::condition_variable changed_;
  std::deque<std::function<void()>> posted_;
  bool stopped_ = false;
  std::uint64_t handed_over_ = 0;  // frames; close() waits for its change
  std::mutex join_lock_;
  std::thread thread_;
};

}  // namespace troupe::net
