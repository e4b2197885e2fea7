#include "runtime/node/net/send_queue.hpp"

#include <algorithm>
#include <utility>

#include "runtime/node/net/memory_sharing.hpp"

namespace troupe::net {
namespace {
constexpr std::size_t max_headers = 128;
}

send_queue::send_queue() { headers_.reserve(max_headers); }

void send_queue::push(outgoing_frame&& f, std::uint64_t payload_bytes) {
  const auto* slip = f.shared.get();
  const auto inside = slip ? slip->inside : payload_bytes, shared = slip ? slip->shared : 0;
  order_.push(std::move(f), inside, shared);
}

void send_queue::push_control(control_type type, std::vector<std::byte> payload) {
  frame_header h;
  h.type = static_cast<std::uint16_t>(type);
  h.length = payload.size();
  controls_.push_back({h, std::move(payload)});
}

void send_queue::push_number(control_type type, std::uint64_t id, std::uint32_t destination) {
  frame_header h;
  h.type = static_cast<std::uint16_t>(type);
  h.destination = destination;
  h.id = id;
  controls_.push_back({h, {}});
}

bool send_queue::full() const { return batch_bytes_ >= max_chunk || headers_.size() == max_headers; }

std::span<std::byte, header_bytes> send_queue::new_header() {
  auto& h = headers_.emplace_back();
  pieces_.emplace_back(h.data(), h.size());
  batch_bytes_ += header_bytes;
  return h;
}

void send_queue::add_controls() {
  while (!controls_.empty() && !full()) {
    control c = std::move(controls_.front());
    controls_.pop_front();
    const boost::asio::const_buffer payload(c.payload.data(), c.payload.size());
    seal_header(c.header, std::span(&payload, 1), new_header());
    if (payload.size() > 0) pieces_.push_back(payload);
    batch_bytes_ += payload.size();
    sent_controls_.push_back(std::move(c));
  }
}

// Returns the payload bytes of the chunk.
std::uint64_t send_queue::add_chunk(send_order::entry& e) {
  const frame_header h{e.f.type, e.f.flags, e.f.destination, 0, e.f.id, e.left, e.stream, e.chunked, e.shared > 0};
  if (e.f.shared) e.f.shared->sent = true;  // from here on the peer may read the shared buffers
  const std::uint64_t size = h.chunk();
  const auto head = new_header();
  const std::size_t first = pieces_.size();
  for (std::uint64_t missing = size; missing > 0;) {
    const const_part& p = e.f.parts[e.part];
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(p.bytes - e.offset, missing));
    if (n > 0) pieces_.emplace_back(static_cast<const std::byte*>(p.data) + e.offset, n);
    missing -= n;
    e.offset += n;
    if (e.offset == p.bytes) ++e.part, e.offset = 0;
  }
  seal_header(h, std::span(pieces_).subspan(first), head);
  batch_bytes_ += size;
  tally_.bytes += size + header_bytes;
  tally_.payload += size;
  e.chunked = true;
  return size;
}

// Counts all bytes of a frame, sent or shared, without its table.
void send_queue::count_shared(const send_order::entry& e) {
  if (!e.f.shared) return;
  const auto& slip = *e.f.shared;
  tally_.payload += slip.whole - slip.inside;
  tally_.bytes += slip.whole - slip.inside;
}

std::span<const boost::asio::const_buffer> send_queue::next_batch() {
  headers_.clear();
  pieces_.clear();
  batch_bytes_ = 0;
  add_controls();
  while (!full()) {
    auto* const e = order_.next();
    if (e == nullptr) break;
    if (auto done = order_.sent(add_chunk(*e))) {
      ++tally_.frames;
      count_shared(*done);
      sent_.push_back(std::move(*done));
    }
  }
  return pieces_;
}

send_queue::tally send_queue::written() {
  sent_controls_.clear();
  sent_.clear();
  return std::exchange(tally_, {});
}

}  // namespace troupe::net
