// One end of local transports: its links, its queues, and the thread that runs what is posted to it. transport.hpp has the promises.
//
// A link is known to both ends or to none (local_hub::links). What one end has to tell the other is posted to the other's thread, in
// order: so frames stay in order, and the word that a link is gone comes behind the frames that were under way.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <thread>

#include "runtime/node/net/buffer_pool.hpp"
#include "runtime/node/net/local_hub.hpp"

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
  transport_stats stats() const;
  void close();
  void dial_again();  // somebody has begun to listen

 private:
  // What both ends know of their connection; each has its own account of what the other has sent it.
  struct link {
    std::shared_ptr<credit_account> account;  // of what we hold
    std::weak_ptr<local_node> other;
    std::string name;  // the other's
    std::uint64_t incarnation = 0, window = 0, max_frame = 0;
    std::deque<std::pair<outgoing_frame, std::uint64_t>> waiting;
    std::uint64_t queued = 0, outstanding = 0;  // bytes; costs
    std::weak_ptr<link> end;                    // the other's side of it
  };
  using link_ptr = std::shared_ptr<link>;
  struct record {
    link_ptr up;
    std::uint64_t incarnation = 0;
    std::uint64_t bytes_in = 0, bytes_out = 0, frames_in = 0, frames_out = 0;
  };
  struct dial {
    address where;
    clock::time_point until;
  };

  // Of all that follows, what touches links holds hub_->links; `posted` work and callbacks run on our thread, without it.
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
  void pump(const link_ptr& l);
  void receive(const link_ptr& l, outgoing_frame& f, std::uint64_t bytes);
  void returned(const link_ptr& l, std::uint64_t cost);
  link_ptr up(std::string_view peer) const;
  bool all_out() const;
  void log(const std::string& line) const;

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
  std::mutex join_lock_;
  std::thread thread_;
};

}  // namespace troupe::net
