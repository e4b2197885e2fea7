#include "runtime/node/net/send_order.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace troupe::net {
namespace {

// Number of queued large frames among which the shortest is searched. A short frame further back is
// found when it has moved forward.
constexpr std::size_t looked_at = 64;
constexpr auto head_start = static_cast<std::int64_t>(max_chunk);

}  // namespace

void send_order::push(outgoing_frame&& f, std::uint64_t payload_bytes, std::uint64_t shared) {
  const std::uint64_t key = (std::uint64_t{f.source} << 32) | f.destination;
  pair_queue& p = pairs_[key];
  p.key = key;
  p.waiting.push_back({std::move(f), payload_bytes, 0, 0, 0, false, false, shared});
  if (p.waiting.size() == 1) put_in_line(p);
}

std::deque<send_order::pair_queue*>& send_order::line_of(const entry& e) {
  return e.shared > 0 ? shared_large_ : e.kind() == frame_class::small ? small_ : large_;
}

void send_order::put_in_line(pair_queue& p) { line_of(p.first()).push_back(&p); }

bool send_order::credit(frame_class c, std::uint64_t bytes) {
  auto& out = outstanding_[static_cast<std::size_t>(c)];
  if (bytes > out) return false;
  out -= bytes;
  return true;
}

bool send_order::room(frame_class c) const {
  return window_ > 0 && outstanding_[static_cast<std::size_t>(c)] < share_of(c, window_);
}

// For large frames; the caller has checked the window.
bool send_order::may_begin(const pair_queue& p) const {
  return !in_chunks_ || p.first().left <= max_chunk || open_.size() < max_streams;
}

send_order::pair_queue* send_order::quick() const {
  if (!small_.empty() && room(frame_class::small)) return small_.front();
  return !shared_large_.empty() && room(frame_class::large) ? shared_large_.front() : nullptr;
}

send_order::pair_queue* send_order::oldest() const {
  if (!open_.empty()) return open_.front();
  return !large_.empty() && room(frame_class::large) ? large_.front() : nullptr;
}

send_order::pair_queue* send_order::shortest() const {
  pair_queue* best = nullptr;
  const auto consider = [&best](pair_queue* p) {
    if (best == nullptr || p->first().left < best->first().left) best = p;
  };
  for (auto* p : open_) consider(p);
  if (!room(frame_class::large)) return best;
  for (std::size_t i = 0; i < std::min(large_.size(), looked_at); ++i)
    if (may_begin(*large_[i])) consider(large_[i]);
  return best;
}

send_order::pair_queue* send_order::choose() {
  auto* const old = oldest();
  auto* other = quick();
  if (other == nullptr) other = shortest();
  if (old == nullptr) ahead_ = 0;
  const bool others_turn = old == nullptr || ahead_ < head_start;
  auto* const p = other != nullptr && others_turn ? other : old;
  chosen_is_oldest_ = p == old;
  return p;
}

bool send_order::can_send() const { return oldest() != nullptr || quick() != nullptr || shortest() != nullptr; }

void send_order::begin(pair_queue& p) {
  entry& e = p.first();
  assert(!e.begun && window_ > 0);
  e.begun = true;
  const auto c = e.kind();
  outstanding_[static_cast<std::size_t>(c)] += frame_cost(e.left) + e.shared;
  auto& line = line_of(e);
  line.erase(std::find(line.begin(), line.end(), &p));
  if (!in_chunks_ || e.left <= max_chunk) return;
  for (e.stream = 1; streams_.test(e.stream);) ++e.stream;
  streams_.set(e.stream);
  open_.push_back(&p);
}

send_order::entry* send_order::next() {
  chosen_ = choose();
  if (chosen_ == nullptr) return nullptr;
  if (!chosen_->first().begun) begin(*chosen_);
  return &chosen_->first();
}

std::optional<send_order::entry> send_order::sent(std::uint64_t bytes) {
  assert(chosen_ != nullptr && bytes <= chosen_->first().left);
  pair_queue& p = *std::exchange(chosen_, nullptr);
  entry& e = p.first();
  const auto n = static_cast<std::int64_t>(bytes + frame_overhead);
  ahead_ = chosen_is_oldest_ ? std::max(ahead_ - n, -head_start) : std::min(ahead_ + n, 2 * head_start);
  e.left -= bytes;
  if (e.left > 0) return std::nullopt;
  std::optional<entry> done = std::move(e);
  if (done->stream != 0) {
    streams_.reset(done->stream);
    open_.erase(std::find(open_.begin(), open_.end(), &p));
  }
  p.waiting.pop_front();
  if (!p.waiting.empty()) return put_in_line(p), done;
  const auto key = p.key;
  pairs_.erase(key);
  return done;
}

}  // namespace troupe::net
