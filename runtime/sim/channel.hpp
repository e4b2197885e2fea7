// A reliable channel from one node to another over a wire that loses, repeats and reorders: what
// TCP is in production, so that roles may rely on in-order, at-least-once delivery in the simulator
// too. Sans-IO: frames in, frames out, the caller owns wire and clock.
//
// Sender: numbers frames from 0, keeps each until it is acknowledged, and sends what is overdue
// again (`attempt` raised), with twice the patience every time it was in vain; patience is learned
// from round trips (Jacobson 1988), and as an answer names the attempt it answers, those of
// repeated frames count too. Receiver: delivers in order of sequence, holds what came too early,
// and answers every frame with how many it has delivered (cumulative) and which frame it answers
// (so that frames behind a gap are not sent again, and measure the round trip and not the gap).
//
// Invariants, whatever the wire does: the receiver delivers a prefix of what was sent, in order,
// each frame once; if the wire delivers infinitely often, everything arrives; what is acknowledged
// has been delivered.
// Memory: what is unacknowledged; senders above bound it by credit.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "runtime/messages/message.hpp"

namespace troupe::sim {

struct frame {
  std::uint64_t sequence = 0;
  std::uint32_t attempt = 0;
  envelope e;
};

// All frames before `count` are delivered; this attempt of frame `answers` has come.
struct acknowledgement {
  std::uint64_t count = 0, answers = 0;
  std::uint32_t attempt = 0;
};

class channel_sender {
 public:
  explicit channel_sender(duration first_patience = duration{1'000'000}) : patience_(first_patience), least_(first_patience) {}

  // The frame to put on the wire.
  frame send(envelope e, time_point now);
  void acknowledged(const acknowledgement& a, time_point now);
  // When something will be overdue; none when nothing is unacknowledged.
  std::optional<time_point> due() const;
  // Frames to put on the wire again, oldest first; at most `most_again`: enough to fill the gap,
  // not to drown the wire.
  std::vector<frame> overdue(time_point now);

  std::size_t unacknowledged() const { return kept_.size(); }
  std::uint64_t resent() const { return resent_; }
  static constexpr std::size_t max_again = 16;

 private:
  struct kept {
    envelope e;
    std::vector<time_point> sent;  // by attempt
    bool there = false;            // has come, behind a gap
  };
  void learn(duration trip);

  std::deque<kept> kept_;
  std::uint64_t first_ = 0;  // sequence of kept_.front()
  duration patience_, least_;
  duration smooth_{}, varies_{};  // measured round trip
  time_point last_progress_{};
  unsigned in_vain_ = 0;
  std::uint64_t resent_ = 0;
};

class channel_receiver {
 public:
  // Appends what can be delivered now to `out`. Returns the acknowledgement to send.
  acknowledgement take(frame f, std::vector<envelope>& out);

  std::uint64_t delivered() const { return next_; }
  std::uint64_t duplicates() const { return duplicates_; }
  std::uint64_t held() const { return held_; }
  std::size_t waiting() const { return early_.size(); }

 private:
  std::uint64_t next_ = 0, duplicates_ = 0, held_ = 0;
  std::map<std::uint64_t, envelope> early_;
};

}  // namespace troupe::sim
