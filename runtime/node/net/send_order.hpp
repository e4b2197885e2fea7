// Selects the next of the frames that wait for one peer, for any transport. Pure.
//
// Order is kept for each pair (source, destination): only the first frame of a pair is considered,
// and the next one when that has been sent completely. Among pairs:
//   small frames          at most small_frame bytes; first come, first served
//   large frames          every other byte goes to the oldest, the rest to the frame with the
//                         fewest bytes left: equal frames go one after the other, a shorter one
//                         does not wait for a longer one, and none starves
//   small and large       small frames first, until they have had max_chunk more than the oldest
//                         large one
//   with shared buffers   like small frames, after them (memory_sharing.hpp)
// A frame of more than one chunk has a stream while it is being sent; there are max_streams. Frames
// of one chunk need none (stream 0).
//
// Window: small and large frames have separate parts of it (share_of), so that neither blocks the
// other. Frames with shared buffers are large.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/node/net/credit.hpp"
#include "runtime/node/net/frame.hpp"

namespace troupe::net {

class send_order {
 public:
  struct entry {
    outgoing_frame f;
    std::uint64_t left = 0;            // payload bytes not yet sent
    std::size_t part = 0, offset = 0;  // position of the next byte, for transports that send chunks
    std::uint8_t stream = 0;
    bool begun = false, chunked = false;  // has taken its cost out of the window; has sent a chunk
    std::uint64_t shared = 0;             // payload bytes in shared buffers
    frame_class kind() const { return shared > 0 ? frame_class::large : class_of(left); }  // valid until it has begun
  };

  // With `in_chunks`, frames are sent in chunks of at most max_chunk; without, each at once.
  explicit send_order(bool in_chunks) : in_chunks_(in_chunks) {}

  // `payload_bytes` are sent, `shared` bytes are not.
  void push(outgoing_frame&& f, std::uint64_t payload_bytes, std::uint64_t shared = 0);
  void open(std::uint64_t window) { window_ = window; }  // until then no frame is sent
  bool credit(frame_class c, std::uint64_t bytes);       // false: more is returned than is outstanding

  // Returns the frame to send next, null if none may be sent. A frame that begins takes its cost
  // out of the window. Valid until sent().
  entry* next();
  // `bytes` more of the frame from next() have been sent. Returns the frame if that completes it.
  std::optional<entry> sent(std::uint64_t bytes);

  bool empty() const { return pairs_.empty(); }
  bool can_send() const;  // true if next() would return a frame
  std::uint64_t outstanding() const { return outstanding_[0] + outstanding_[1]; }
  std::size_t open_streams() const { return open_.size(); }

 private:
  struct pair_queue {
    std::uint64_t key = 0;
    std::deque<entry> waiting;
    entry& first() { return waiting.front(); }
    const entry& first() const { return waiting.front(); }
  };

  std::deque<pair_queue*>& line_of(const entry& e);
  void put_in_line(pair_queue& p);
  bool room(frame_class c) const;
  bool may_begin(const pair_queue& p) const;
  pair_queue* quick() const;
  pair_queue* oldest() const;
  pair_queue* shortest() const;
  pair_queue* choose();
  void begin(pair_queue& p);

  bool in_chunks_;
  std::uint64_t window_ = 0;
  std::array<std::uint64_t, frame_classes> outstanding_{};
  std::unordered_map<std::uint64_t, pair_queue> pairs_;   // no queue is empty
  std::deque<pair_queue*> small_, large_, shared_large_;  // pairs whose first frame has not begun, in the order it became first
  std::deque<pair_queue*> open_;                          // pairs whose first frame has a stream, in the order it began
  std::bitset<max_streams + 1> streams_;
  pair_queue* chosen_ = nullptr;
  bool chosen_is_oldest_ = false;
  std::int64_t ahead_ = 0;  // bytes sent of other frames minus bytes of the oldest large one, clamped
};

}  // namespace troupe::net
