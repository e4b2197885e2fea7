// Shared buffers: large parts of frames that a peer on this machine reads in place, instead of
// receiving their bytes.
//
//   peers    both ends offer an arena in their hello (shared_arena.hpp). A peer that could map the
//            other's arena sends `reads_shared` and may then get shared buffers.
//   buffer   a part that const_part::may_be_shared marks, of at least share_from bytes, in the
//            arena, or copied there by the sender (one copy instead of two under TLS). The reader
//            holds it until it returns it by number, on this connection or a later one of the same
//            process, or until that process has ended: a reader that is cut off may still read.
//            Until then the buffer is neither written nor freed.
//   frame    begins with a table of its shared buffers (encode_shared_buffers), followed by its
//            other bytes. Such a frame has one chunk.
//   credit   the shared buffers and the other bytes of a frame are charged to the window's part for
//            large frames: a slow receiver stops its sender, although it holds none of the memory.
//
// Trust: memory_file.hpp states which processes can read the memory. A table that points outside
// the region ends the connection ("bad_loan").
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/result.hpp"
#include "runtime/node/net/buffer_pool.hpp"
#include "runtime/node/net/receive_window.hpp"
#include "runtime/node/net/shared_arena.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

// Bytes; for smaller parts, sending the bytes is cheaper.
inline constexpr std::uint64_t share_from = std::uint64_t{32} << 10;

// An entry of a frame's table: bytes [offset, offset + bytes) of the sender's region are bytes [at,
// at + bytes) of the frame.
struct shared_buffer {
  std::uint64_t at = 0, offset = 0, bytes = 0, number = 0;
};
std::size_t shared_table_bytes(std::size_t shared_buffers);  // a multiple of 64
std::vector<std::byte> encode_shared_buffers(const std::vector<shared_buffer>& shared_buffers);
// Decodes the table at the front of a frame's payload. Rejects entries whose positions are not
// multiples of 64, that overlap, exceed a region of `region_bytes` or do not match the bytes that
// follow. Error: "bad_loan".
expected<std::vector<shared_buffer>, coded_error> decode_shared_buffers(std::span<const std::byte> payload,
                                                                        std::uint64_t region_bytes);

// The buffers shared with one process. Any thread.
class shared_buffers : public std::enable_shared_from_this<shared_buffers> {
 public:
  shared_buffers(std::shared_ptr<shared_arena> arena, std::shared_ptr<buffer_pool> pool, memory_file::descriptor process);
  ~shared_buffers();

  // Shares the parts of `f` for which it pays; prepare() must have checked them. The parts of `f`
  // are then the table and the remaining bytes, and f.shared lists the shared buffers. If `f` is
  // not sent, the destructor of f.shared takes them back. Leaves `f` unchanged if no part is worth
  // it or the arena is full.
  void share(outgoing_frame& f);
  // Returns false if the process does not hold one of these buffers.
  bool returned(std::span<const std::byte> numbers);

  bool none() const;
  bool reader_ended() const;
  void forget();  // drops all buffers; call it when the process has ended

 private:
  friend struct shared_slip;
  struct held {
    std::shared_ptr<const void> owner;
    std::shared_ptr<const void> region;
  };
  struct placed {
    std::uint64_t offset = 0;
    held keep;
  };
  std::optional<placed> place(const const_part& p);
  void take_back(const std::vector<std::uint64_t>& numbers);

  const std::shared_ptr<shared_arena> arena_;
  const std::shared_ptr<buffer_pool> pool_;  // in the arena, for copies of parts outside it
  const memory_file::descriptor process_;    // pidfd; readable when the process has ended
  mutable std::mutex mutex_;
  std::map<std::uint64_t, held> out_;  // by number
  std::uint64_t numbers_ = 0;
};

// The shared buffers of a frame in the send queue. Takes them back if the frame is not sent.
struct shared_slip {
  std::shared_ptr<shared_buffers> of;
  std::vector<std::uint64_t> numbers;
  std::uint64_t whole = 0;   // bytes of the frame
  std::uint64_t shared = 0;  // of which so many are in shared buffers
  std::uint64_t inside = 0;  // bytes that are sent, the table included
  bool sent = false;
  ~shared_slip();
};

// Buffers of one process that this process no longer reads and has to return. Any thread.
class debts {
 public:
  void release(std::uint64_t number);
  // Removes at most `most` numbers and encodes them as the payload of a `returned` frame. Empty if
  // there are none.
  std::vector<std::byte> collect(std::size_t most);
  void on_report(std::function<void()> f);  // called when there are numbers to collect; an empty function detaches

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> released_;
  std::function<void()> report_;
};

// Memory sharing of a transport with all its peers. I/O thread.
class memory_sharing {
 public:
  // Memory sharing with one peer; each pointer may be null.
  struct terms {
    std::shared_ptr<shared_buffers> ours;           // buffers shared with the peer, once it has sent reads_shared
    std::shared_ptr<debts> theirs;                  // buffers of the peer that must be returned
    std::shared_ptr<const borrowed_memory> memory;  // the peer's arena
    std::string why_not;                            // why no memory is shared in either direction; a sentence
  };
  memory_sharing(std::shared_ptr<shared_arena> arena, std::uint64_t keep_bytes);
  ~memory_sharing();

  memory_at where() const { return arena_->where(); }
  std::uint64_t release_unused() { return pool_->release_unused(); }  // any thread
  terms meet(const memory_at& peer);
  // Called when a connection with these terms has closed. Buffers that the peer still holds stay
  // shared.
  void part(const terms& t);
  // Drops the buffers of processes that have ended or returned them. Returns true if a process
  // without a connection still holds some.
  bool sweep();

 private:
  using process = std::pair<std::uint32_t, std::uint64_t>;  // process id, token of its arena
  const std::shared_ptr<shared_arena> arena_;
  const std::shared_ptr<buffer_pool> pool_;
  // Entries expire when no connection uses them and none of their buffers is held.
  std::map<process, std::weak_ptr<shared_buffers>> shared_by_peer_;
  std::map<process, std::weak_ptr<debts>> borrowed_;
  std::vector<std::shared_ptr<shared_buffers>> parted_;
};

// Moves the shared buffers of a received frame into frame::shared, where its receiver finds them,
// and removes the table. Error: "bad_loan".
expected<void, coded_error> unfold(frame& f, const memory_sharing::terms& from, receive_window& window);

}  // namespace troupe::net
