// Log of the messages that a role received, in order. It is enough to run the role again, because a
// role's behaviour depends on these messages alone (runtime/role.hpp). Bodies are not stored:
// running all roles again produces them again. Only messages from outside the job (a user's
// command) are stored whole.
//
//   delivery    kind of the message, source, step, packet, port, a number that distinguishes
//               messages of one kind (block, layer, token), and the time
//   role_log    the deliveries of one role, about ten bytes each, in chunks that can be read
//               independently. Holds all of them until the node's log_room is used up. From then on
//               each role keeps its latest ones and counts those dropped
//   node_part   the logs of one node as bytes, with a checksum
//
// A message is identified by its position among those of one source, since messages between two
// roles keep their order. The other fields verify that it is the same one.
// Errors: readers accept any bytes and return values or an error message. Memory is proportional to
// the input.
// Threads: log_room: any; the other classes: one at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/messages/message.hpp"

namespace troupe::replay {

// In place of a message kind: the task with this token ended with an exception.
constexpr std::uint8_t task_failed = 63;
static_assert(std::variant_size_v<message> <= task_failed);

struct delivery {
  std::uint8_t kind = 0;  // index in troupe::message, or task_failed
  role_id from = no_role;
  std::uint64_t step = 0;
  std::uint32_t packet = 0;
  std::uint16_t port = 0;
  std::uint64_t what = 0;  // block, layer or token
  time_point at{};
  std::string whole = {};  // the encoded message, if it came from outside the job
};
delivery delivery_of(const envelope& e, time_point now);
// Returns true if `d` describes `e`.
bool names(const delivery& d, const envelope& e);
const char* kind_name(const delivery& d);  // of the message, e.g. "forward"
std::string to_text(const delivery& d);    // "forward of step 3, packet 1, port 0"

// Limits the bytes of all logs of one node together.
class log_room {
 public:
  explicit log_room(std::size_t most) : left_(static_cast<std::int64_t>(most)) {}
  bool take(std::size_t bytes) {
    if (left_.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed) >= static_cast<std::int64_t>(bytes))
      return true;
    left_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
    return false;
  }

 private:
  std::atomic<std::int64_t> left_;
};

class role_log {
 public:
  static constexpr std::size_t chunk_bytes = 2048;
  explicit role_log(log_room& room) : room_(room) {}
  // Returns the bytes of the chunk that this delivery completes, else null. Valid until the next
  // call.
  const std::string* add(const delivery& d);
  // Completes the last chunk. Returns its bytes, or null if no delivery was added since the chunk
  // before was completed.
  const std::string* complete();
  std::vector<std::string> chunks() const;
  std::uint64_t handled() const { return handled_; }
  std::uint64_t dropped() const { return dropped_; }  // the oldest ones, now lost

 private:
  struct chunk {
    std::string bytes;
    std::uint64_t entries = 0;
  };
  void open_chunk();

  log_room& room_;
  std::deque<chunk> chunks_;
  std::uint64_t step_ = 0;  // of the previous entry in the chunk
  time_point at_{};
  std::uint64_t handled_ = 0, dropped_ = 0;
  bool complete_ = true;  // the last chunk takes no further entries
};

// Reads the deliveries of one chunk, in order.
class chunk_reader {
 public:
  explicit chunk_reader(std::string_view bytes) : left_(bytes) {}
  // Empty at the end, or if `damaged`.
  std::optional<delivery> next();
  bool damaged() const { return damaged_; }

 private:
  std::optional<std::uint64_t> number();
  std::optional<delivery> broken() {
    damaged_ = true;
    return std::nullopt;
  }
  std::string_view left_;
  std::uint64_t step_ = 0;
  time_point at_{};
  bool damaged_ = false;
};

struct role_part {
  role_id id = no_role;
  std::uint64_t handled = 0, dropped = 0;
  std::string failure = {};  // why it ended; empty: it did not fail
  std::vector<std::string> chunks = {};
  bool cut = false;  // the process was killed: the last deliveries are missing
};
struct node_part {
  std::string job;  // hash of its plan; parts of other plans do not belong together with it
  std::string node;
  std::vector<role_part> roles = {};
  bool complete() const;  // the oldest entries were not dropped
};
std::string to_bytes(const node_part& p);
expected<node_part> from_bytes(std::string_view bytes);

}  // namespace troupe::replay
