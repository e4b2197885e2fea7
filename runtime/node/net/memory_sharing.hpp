// Loans: large parts of frames that a peer on this machine reads where they lie, instead of being
// sent their bytes.
//
//   who        both ends offer an arena in their hello (shared_arena.hpp). Whoever could map the other's says `reads_shared`; to it may be lent.
//   a loan     a part that const_part::may_be_shared marks, of at least share_from bytes, that lies in the arena, or is copied there by the
//              sender (one copy instead of two under TLS). It belongs to the borrower until it returns it by number, on this connection or a
//              later one of the same process, or until that process has ended: a borrower that is cut off may still read. It is not to be written until then, nor freed.
//   a frame    carries a table of its loans in front of its other bytes (encode_shared_buffers). Such a frame has one chunk.
//   credit     the loans of a frame and its other bytes are charged to the window's part for large frames: a receiver
//              that is slow stops its sender either way, though it holds none of the memory.
//
// Trust: memory_file.hpp says who can be a borrower. A table that points outside the region ends
// the connection ("bad_loan").
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/node/net/buffer_pool.hpp"
#include "runtime/node/net/receive_window.hpp"
#include "runtime/node/net/shared_arena.hpp"
#include "runtime/node/net/transport.hpp"

namespace troupe::net {

// Below that, sending the bytes is cheaper.
inline constexpr std::uint64_t share_from = std::uint64_t{32} << 10;

// One row of a frame's table: [offset, offset + bytes) of the sender's region are [at, at + bytes)
// of the frame.
struct shared_buffer {
  std::uint64_t at = 0, offset = 0, bytes = 0, number = 0;
};
std::size_t shared_table_bytes(std::size_t shared_buffers);  // a multiple of 64
std::vector<std::byte> encode_shared_buffers(const std::vector<shared_buffer>& shared_buffers);
// From the front of a frame's payload. Everything that rows can get wrong is found: places that are
// no multiples of 64, overlap, lie outside a region of `region_bytes` or do not fit what follows.
// Error: "bad_loan".
expected<std::vector<shared_buffer>> decode_shared_buffers(std::span<const std::byte> payload, std::uint64_t region_bytes);

// What is lent to one process. Any thread.
class shared_buffers : public std::enable_shared_from_this<shared_buffers> {
 public:
  shared_buffers(std::shared_ptr<shared_arena> arena, std::shared_ptr<buffer_pool> pool, memory_file::descriptor process);
  ~shared_buffers();

  // Lends what is worth it of `f`, whose parts have been looked at by prepare(): afterwards its
  // parts are the table and the rest, and f.lent says what was lent. What is not sent after all is
  // taken back when f.lent drops. Nothing may be worth it.
  void share(outgoing_frame& f);
  // False: one of them is not lent to this process.
  bool returned(std::span<const std::byte> numbers);

  bool none() const;
  bool reader_ended() const;
  void forget();  // it has ended: nobody reads any more

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
  const std::shared_ptr<buffer_pool> pool_;  // of the arena: for what lies elsewhere
  const memory_file::descriptor process_;    // readable when it has ended
  mutable std::mutex mutex_;
  std::map<std::uint64_t, held> out_;  // by number
  std::uint64_t numbers_ = 0;
};

// Goes with a frame that lends, until its bytes are on their way.
struct shared_slip {
  std::shared_ptr<shared_buffers> of;
  std::vector<std::uint64_t> numbers;
  std::uint64_t whole = 0;   // the frame's bytes
  std::uint64_t shared = 0;  // of which this many are lent
  std::uint64_t inside = 0;  // and this many sent, its table included
  bool sent = false;
  ~shared_slip();
};

// What we hold of one process's memory and are to return. Any thread.
class debts {
 public:
  void release(std::uint64_t number);
  // At most `most` numbers, as they travel in one `returned` frame; empty: there are none.
  std::vector<std::byte> collect(std::size_t most);
  void on_report(std::function<void()> f);  // called when there is something to collect; an empty one detaches

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> released_;
  std::function<void()> report_;
};

// The loans of a transport, with all its peers. I/O thread.
class memory_sharing {
 public:
  // What a connection has of its peer; each pointer may be null.
  struct terms {
    std::shared_ptr<shared_buffers> ours;           // what we lend it, as soon as it says that it borrows
    std::shared_ptr<debts> theirs;                  // what it lends us
    std::shared_ptr<const borrowed_memory> memory;  // its arena
    std::string why_not;                            // neither can be; a sentence
  };
  memory_sharing(std::shared_ptr<shared_arena> arena, std::uint64_t keep_bytes);
  ~memory_sharing();

  memory_at where() const { return arena_->where(); }
  std::uint64_t release_unused() { return pool_->release_unused(); }  // any thread
  terms meet(const memory_at& peer);
  // A connection on these terms is over. What the peer still has stays lent.
  void part(const terms& t);
  // Lets go of what was lent to processes that have ended or have returned it. True: some still
  // have something, and no connection.
  bool sweep();

 private:
  using process = std::pair<std::uint32_t, std::uint64_t>;  // its number, its arena's token
  const std::shared_ptr<shared_arena> arena_;
  const std::shared_ptr<buffer_pool> pool_;
  // Each as long as a connection has it, or something of it is still held.
  std::map<process, std::weak_ptr<shared_buffers>> shared_by_peer_;
  std::map<process, std::weak_ptr<debts>> borrowed_;
  std::vector<std::shared_ptr<shared_buffers>> parted_;
};

// Moves the shared buffers of a received frame into frame::shared, where its receiver finds them,
// and removes the table. Error: "bad_loan".
expected<void> unfold(frame& f, const memory_sharing::terms& from, receive_window& window);

}  // namespace troupe::net
