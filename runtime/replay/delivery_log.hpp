// What a role was handed, in which order: enough to run it again, because what a role does depends
// on that alone (runtime/role.hpp). Bodies are not kept. Whoever runs the roles again makes them
// again; only what came from outside of the job (a person's command) is kept whole.
//
//   delivery    kind of the message, who sent it, step, packet, port, and what tells two of one kind apart (block, layer, token, timer); when
//   role_log    those of one role, some ten bytes each, in chunks that can be read by themselves. Until the node's log_room is used up all of
//               them; from then on each role keeps its last ones, and says how many are gone
//   node_part   the logs of one node as bytes, with a checksum
//
// A message is known by its place among those of one source: between two roles nothing is
// overtaken. The other fields say whether it is that one.
// Errors: readers are total. Any bytes are answered by values or by a message; memory stays
// proportional to the input.
// Threads: a log_room any; the rest belongs to one at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/messages/message.hpp"

namespace troupe::replay {

// In place of a kind of message: the task with this token ended by an exception.
constexpr std::uint8_t task_failed = 63;
static_assert(std::variant_size_v<message> <= task_failed);

struct delivery {
  std::uint8_t kind = 0;  // index in troupe::message, or task_failed
  role_id from = no_role;
  std::uint64_t step = 0;
  std::uint32_t packet = 0;
  std::uint16_t port = 0;
  std::uint64_t what = 0;
  time_point at{};
  std::string whole = {};  // the message as bytes, where nobody can say it again
};
delivery delivery_of(const envelope& e, time_point now);
// Is this the message that is meant?
bool names(const delivery& d, const envelope& e);
std::string to_text(const delivery& d);  // "forward of step 3, packet 1, port 0"

// How many bytes the logs of one node may take together.
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
  void add(const delivery& d);
  std::vector<std::string> chunks() const;
  std::uint64_t handled() const { return handled_; }
  std::uint64_t dropped() const { return dropped_; }  // the first so many

 private:
  struct chunk {
    std::string bytes;
    std::uint64_t entries = 0;
  };
  void open_chunk();

  log_room& room_;
  std::deque<chunk> chunks_;
  std::uint64_t step_ = 0;  // of the entry before, in the chunk
  time_point at_{};
  std::uint64_t handled_ = 0, dropped_ = 0;
};

// The deliveries of one chunk, one after the other.
class chunk_reader {
 public:
  explicit chunk_reader(std::string_view bytes) : left_(bytes) {}
  // Nothing: the end, or `damaged`.
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
  std::string failure = {};  // what ended it
  std::vector<std::string> chunks = {};
};
struct node_part {
  std::string job;  // the hash of its plan: parts of other plans do not belong to it
  std::string node;
  std::vector<role_part> roles = {};
  bool complete() const;  // from the beginning on
};
std::string to_bytes(const node_part& p);
std::variant<node_part, std::string> from_bytes(std::string_view bytes);

}  // namespace troupe::replay
