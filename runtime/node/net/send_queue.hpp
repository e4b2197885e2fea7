// What waits to be written on one connection, and in which order: control frames first, then data, first in first out, a data frame
// starting only while the peer's window has room. Pure: the connection asks for a batch, writes it, and reports it written.
#pragma once

#include <boost/asio/buffer.hpp>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "runtime/node/net/frame.hpp"
#include "runtime/node/net/hello.hpp"

namespace troupe::net {

class send_queue {
 public:
  send_queue();

  void push(outgoing_frame&& f, std::uint64_t payload_bytes);
  void push_control(control_type type, std::uint64_t id = 0, std::vector<std::byte> payload = {});

  void open(std::uint64_t window) { window_ = window; }  // until then, only control goes
  bool credit(std::uint64_t bytes);                      // false: the peer returns more than it was sent

  // The next buffers to write, about 1 MiB; empty when nothing may go. Valid until written(), before which it is not called again.
  std::span<const boost::asio::const_buffer> next_batch();

  struct tally {
    std::uint64_t frames = 0, bytes = 0;  // data frames completed by the batch; data bytes in it, headers included
    std::uint64_t payload = 0;            // of which payload
  };
  tally written();  // lets the owners of what is written go

  bool empty() const { return !current_ && waiting_.empty() && controls_.empty(); }
  std::uint64_t outstanding() const { return outstanding_; }

 private:
  struct entry {
    outgoing_frame f;
    std::uint64_t left = 0;            // payload bytes not yet in a batch
    std::size_t part = 0, offset = 0;  // where they begin
  };
  struct control {
    frame_header header;
    std::vector<std::byte> payload;
  };

  void add_controls();
  void add_chunk(entry& e);
  bool full() const;
  std::span<std::byte, header_bytes> new_header();

  std::uint64_t window_ = 0, outstanding_ = 0;
  std::deque<control> controls_;
  std::deque<entry> waiting_;
  std::optional<entry> current_;

  // The batch being written.
  std::vector<header_block> headers_;  // its memory never moves: capacity is set once
  std::vector<boost::asio::const_buffer> pieces_;
  std::vector<control> sent_controls_;
  std::vector<entry> sent_;
  tally tally_;
  std::uint64_t batch_bytes_ = 0;
};

}  // namespace troupe::net
