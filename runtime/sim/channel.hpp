// A reliable channel from one node to another over a wire that loses, repeats and reorders frames.
// It stands for TCP, so that roles may rely on in-order, at-least-once delivery in the simulator
// too. Sans-IO: frames in, frames out; the caller owns the wire and the clock.
//
// Sender: numbers frames from 0, keeps each until it is acknowledged, and sends overdue frames
// again with `attempt` raised. The timeout is estimated from round trips (Jacobson 1988) and
// doubles with every retransmission without progress. An acknowledgement names the attempt that it
// answers, so retransmitted frames are measured too.
// Receiver: delivers frames in order of sequence and holds those that arrive early. It answers
// every frame with the number of frames delivered (cumulative) and with the frame that it answers.
// The sender therefore does not send frames behind a gap again, and measures the round trip and not
// the gap.
//
// Invariants, whatever the wire does: the receiver delivers a prefix of the sent frames, in order,
// each frame once; if the wire delivers infinitely often, everything arrives; an acknowledged frame
// has arrived, and all frames below `count` are delivered.
// Memory: the unacknowledged frames; senders above bound them by credit.
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

// All frames before `count` are delivered; attempt `attempt` of frame `answers` has arrived.
struct acknowledgement {
  std::uint64_t count = 0, answers = 0;
  std::uint32_t attempt = 0;
};

class channel_sender {
 public:
  explicit channel_sender(duration first_patience = duration{1'000'000}) : patience_(first_patience), least_(first_patience) {}

  // Returns the frame to put on the wire.
  frame send(envelope e, time_point now);
  void acknowledged(const acknowledgement& a, time_point now);
  // Returns the time at which a frame becomes overdue; null if all frames are acknowledged.
  std::optional<time_point> due() const;
  // Returns the frames to put on the wire again, oldest first: at most `max_again`, which fills a
  // gap without flooding the wire.
  std::vector<frame> overdue(time_point now);

  std::size_t unacknowledged() const { return kept_.size(); }
  std::uint64_t resent() const { return resent_; }
  static constexpr std::size_t max_again = 16;

 private:
  struct kept {
    envelope e;
    std::vector<time_point> sent;  // send times, by attempt
    bool there = false;            // has arrived, behind a gap
  };
  void learn(duration trip);

  std::deque<kept> kept_;
  std::uint64_t first_ = 0;  // sequence of kept_.front()
  duration patience_, least_;
  duration smooth_{}, varies_{};  // smoothed round trip and its deviation
  time_point last_progress_{};
  unsigned in_vain_ = 0;
  std::uint64_t resent_ = 0;
};

class channel_receiver {
 public:
  // Appends the messages that can be delivered now to `out`. Returns the acknowledgement to send.
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
