// The send queue of one connection: control frames first, then data, chunk by chunk in send_order's
// order. Pure: the connection requests a batch, writes it, and reports it written.
#pragma once

#include <boost/asio/buffer.hpp>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "runtime/node/net/frame.hpp"
#include "runtime/node/net/hello.hpp"
#include "runtime/node/net/send_order.hpp"

namespace troupe::net {

class send_queue {
 public:
  send_queue();

  void push(outgoing_frame&& f, std::uint64_t payload_bytes);
  void push_control(control_type type, std::vector<std::byte> payload = {});
  void push_credit(frame_class c, std::uint64_t bytes) { push_number(control_type::credit, bytes, static_cast<std::uint32_t>(c)); }
  void push_number(control_type type, std::uint64_t id, std::uint32_t destination = 0);  // a control frame without payload

  void open(std::uint64_t window) { order_.open(window); }  // until then only control frames are sent
  bool credit(frame_class c, std::uint64_t bytes) { return order_.credit(c, bytes); }

  // Returns the next buffers to write, about 1 MiB; empty if nothing may be sent. Valid until
  // written(), which must come before the next call.
  std::span<const boost::asio::const_buffer> next_batch();

  struct tally {
    std::uint64_t frames = 0, bytes = 0;  // data frames completed by the batch; data bytes in it, headers included
    std::uint64_t payload = 0;            // of which payload
  };
  tally written();  // releases the owners of the written frames

  bool empty() const { return order_.empty() && controls_.empty(); }
  std::uint64_t outstanding() const { return order_.outstanding(); }

 private:
  struct control {
    frame_header header;
    std::vector<std::byte> payload;
  };

  void add_controls();
  std::uint64_t add_chunk(send_order::entry& e);
  void count_shared(const send_order::entry& e);
  bool full() const;
  std::span<std::byte, header_bytes> new_header();

  std::deque<control> controls_;
  send_order order_{true};

  // The batch being written.
  std::vector<header_block> headers_;  // capacity is set once: its memory never moves
  std::vector<boost::asio::const_buffer> pieces_;
  std::vector<control> sent_controls_;
  std::vector<send_order::entry> sent_;
  tally tally_;
  std::uint64_t batch_bytes_ = 0;
};

}  // namespace troupe::net
