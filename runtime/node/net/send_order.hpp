// Which of the frames that wait for one peer goes next, whatever carries them. Pure.
//
// Order is kept for each pair (source, destination): of a pair only the first frame is looked at,
// and the next one when all of that is on its way. Among pairs:
//   small frames (at most small_frame)   first come, first served
//   large ones                           every other byte belongs to the oldest, the rest to the one of which the least is left: so equal
//                                        ones go one after the other, a shorter one need not wait for a longer, and none starves
//   small and large                      small ones go first, until they have had max_chunk more than the oldest large one
//   those that lend (memory_sharing.hpp)        like small ones, behind them
// A frame of more than one chunk has a stream while it is on its way; there are max_streams. Frames of one chunk need none (stream 0).
//
// Window: small and large frames have a part of it each (share_of), so that neither keeps the other
// from starting. Those that lend are large.
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
    std::uint64_t left = 0;            // payload bytes not yet on their way
    std::size_t part = 0, offset = 0;  // where they begin, for who sends pieces
    std::uint8_t stream = 0;
    bool begun = false, chunked = false;  // has its part of the window; has had a chunk
    std::uint64_t shared = 0;             // payload bytes that are not sent
    frame_class kind() const { return shared > 0 ? frame_class::large : class_of(left); }  // before it has begun
  };

  // With `in_chunks` frames go in pieces, max_chunk at most; without, each at once.
  explicit send_order(bool in_chunks) : in_chunks_(in_chunks) {}

  // `payload_bytes` are sent, `shared` are not.
  void push(outgoing_frame&& f, std::uint64_t payload_bytes, std::uint64_t shared = 0);
  void open(std::uint64_t window) { window_ = window; }  // until then nothing goes
  bool credit(frame_class c, std::uint64_t bytes);       // false: the peer returns more than it was sent

  // The frame whose turn it is, null if none may go. One that begins takes its cost out of the
  // window. Valid until sent().
  entry* next();
  // `bytes` more of what next() gave are on their way. The frame itself, when that was all of it.
  std::optional<entry> sent(std::uint64_t bytes);

  bool empty() const { return pairs_.empty(); }
  bool can_send() const;  // would next() give one?
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
  std::unordered_map<std::uint64_t, pair_queue> pairs_;   // none is empty
  std::deque<pair_queue*> small_, large_, shared_large_;  // whose first frame has not begun, by when it became first
  std::deque<pair_queue*> open_;                          // whose first frame has a stream, by when it began
  std::bitset<max_streams + 1> streams_;
  pair_queue* chosen_ = nullptr;
  bool chosen_is_oldest_ = false;
  std::int64_t ahead_ = 0;  // bytes that others have had before the oldest large one
};

}  // namespace troupe::net
