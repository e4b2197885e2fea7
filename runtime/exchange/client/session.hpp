// One rank's connection to the hub of a daemon: blocking calls with a deadline. Implements what
// troupe_exchange.h promises about threads, deadlines, values and close; the C functions only check
// arguments.
//
// Threads: the transport's I/O thread stores answers here and callers wait for them, both under
// `lock_`. A call copies the caller's values before it sends them and after the answer is complete,
// so neither a late answer nor a queued message touches them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/exchange/client/reply.hpp"
#include "runtime/exchange/client/team.hpp"
#include "runtime/exchange/hub/message.hpp"
#include "runtime/exchange/shared/shared_memory.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::exchange {

// A code of troupe_exchange.h and its error text.
struct outcome {
  int code = 0;
  std::string text;
};

class session {
 public:
  using deadline = std::chrono::steady_clock::time_point;
  struct place {
    std::string address, tls_dir;
    open_session what;
  };

  static outcome open(const place& at, deadline until, std::unique_ptr<session>& made);
  // Joins the I/O thread. In a forked child the session must be leaked, not destroyed.
  ~session();
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  bool of_this_process() const;
  std::uint32_t rank() const { return me_.rank; }
  std::uint32_t size() const { return me_.size; }
  // Makes the calls in progress return and waits for them. Later calls fail.
  void end_calls();

  outcome declare_buffer(const std::string& name, element type, std::uint64_t count, deadline until, std::int32_t& number);
  // `values` are of buffer `b.buffer`; null for a barrier. Sets b.call.
  outcome call(begin b, void* values, std::uint64_t count, deadline until);
  outcome set_lock(const std::string& name, bool take, deadline until);

  // Shared arrays (session_shared.cpp). on_shared() sends no message, so threads need not take
  // turns.
  struct touch {
    enum class kind : std::uint8_t { read, write, add } what = kind::read;
    void* into = nullptr;        // read
    const void* from = nullptr;  // write, add
    double scale = 1;            // add
    bool locked = false;
  };
  outcome share(const std::string& name, element type, std::uint64_t count, const void* initial, deadline until,
                std::int32_t& number);
  outcome on_shared(std::int32_t array, std::uint64_t count, const touch& t, deadline until);

 private:
  struct buffer {
    std::string name;
    element type = element::f32;
    std::uint64_t count = 0;
  };
  using request = std::function<message(std::uint64_t call)>;

  struct values {  // of one call
    const void* give = nullptr;
    std::uint64_t give_bytes = 0, max_back = 0;
  };
  struct visit;
  struct shared {
    std::string name;
    element type = element::f32;
    std::uint64_t count = 0;
    std::unique_ptr<shared_array> memory;
  };

  session() = default;
  net::callbacks callbacks_of();
  void take(message&& m);
  // One call, from its turn to its answer. `done` gets the answer and its values, under lock_.
  outcome ask(const request& make, const values& v, deadline until,
              const std::function<void(const answer&, const std::byte* back)>& done);
  outcome prepare(std::unique_lock<std::mutex>& guard, const values& v, deadline until);
  outcome finish(std::unique_lock<std::mutex>& guard, deadline until);
  bool send(const message& m);
  void send_pieces(std::uint64_t call, std::uint64_t bytes);
  outcome lost() const;
  static outcome closed();
  // Rounds in shared memory (session_team.cpp).
  enum class how_rounds : std::uint8_t { unknown, hub, team };
  bool of_team(const begin& b, const buffer& of) const;
  outcome decide(deadline until);
  outcome enter_team(deadline until, bool& mine);
  outcome call_team(begin b, const buffer& of, void* mine, deadline until);
  outcome map_shared(const std::string& name, element type, std::uint64_t count, const void* initial, deadline until,
                     std::unique_ptr<shared_array>& made);
  outcome call_hub(begin b, const buffer& of, void* mine, deadline until);
  std::vector<std::byte> difference(begin& b, const void* mine);
  void apply(const begin& b, void* mine, const std::byte* back);
  outcome find_shared(const std::string& name, element type, std::uint64_t count, std::int32_t& number) const;

  // State of the connection.
  struct line {
    std::string daemon;
    bool up = false, down = false;
    std::string reason;  // why it is down
  };
  // Calls of this process's threads. One at a time uses the hub.
  struct calls {
    unsigned inside = 0;      // from entry to return
    bool turn_taken = false;  // a call uses the hub
    bool closing = false;     // no more calls are accepted
    std::uint64_t made = 0;
  };
  // The values of a call that are being sent.
  struct upload {
    std::vector<std::byte> bytes;
    bool leaving = false;  // the transport still refers to `bytes`
  };

  int process_ = 0;
  open_session me_;

  mutable std::mutex lock_;
  std::condition_variable changed_;
  line line_;
  calls calls_;
  reply reply_;  // to the current call
  upload upload_;
  std::vector<buffer> buffers_;
  std::map<std::uint32_t, std::vector<std::byte>> had_;  // asgd: the centre's values that this rank last received, by buffer
  std::vector<std::unique_ptr<shared>> shared_;

  std::timed_mutex rounds_;  // one team round at a time, from gather to the last value; taken before lock_. Guards the two fields
                             // below
  how_rounds how_ = how_rounds::unknown;
  std::unique_ptr<team> team_;

  std::unique_ptr<net::transport> net_;  // last: its callbacks use all fields above
};

// A call in progress: end_calls() waits for it, and the destructor passes the turn to the next
// call.
struct session::visit {
  session& s;
  bool turn = false;
  explicit visit(session& of) : s(of) {
    const std::lock_guard guard(s.lock_);
    ++s.calls_.inside;
  }
  ~visit() {
    const std::lock_guard guard(s.lock_);
    --s.calls_.inside;
    if (turn) {
      s.calls_.turn_taken = false;
      s.reply_.stop();
    }
    s.changed_.notify_all();
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;
};

}  // namespace troupe::exchange
