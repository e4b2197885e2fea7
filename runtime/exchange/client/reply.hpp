// The hub's answer to the call in progress, and the values that follow it. Values must arrive in
// order and fit into the space that the call has. Any other message, such as a late answer to an
// earlier call, is ignored. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/exchange/hub/message.hpp"

namespace troupe::exchange {

class reply {
 public:
  // Starts waiting for the answer to `call`, which has at most `max_bytes` of values.
  void await(std::uint64_t call, std::uint64_t max_bytes) {
    if (values_.size() < max_bytes) values_.resize(max_bytes);
    call_ = call;
    max_ = max_bytes;
    have_ = 0;
    answer_.reset();
    where_.reset();
    listening_ = true;
  }
  void stop() { listening_ = false; }

  // Returns true if the waiting thread should check complete().
  bool take(message&& m) {
    if (!listening_) return false;
    if (auto* a = std::get_if<answer>(&m)) {
      if (a->call != call_ || answer_ || a->bytes > max_) return false;
      answer_ = std::move(*a);
      return true;
    }
    if (auto* at = std::get_if<shared_at>(&m)) {
      if (at->call != call_ || answer_) return false;
      answer_ = answer{at->call, code::ok, {}, 0, 0};
      where_ = std::move(*at);
      return true;
    }
    const auto* p = std::get_if<piece>(&m);
    return p && add(*p);
  }

  std::uint64_t call() const { return call_; }
  bool complete() const { return answer_ && have_ == answer_->bytes; }
  // Both require complete().
  const answer& said() const { return *answer_; }
  const std::byte* values() const { return values_.data(); }
  const std::optional<shared_at>& where() const { return where_; }  // set if a shared_at came instead of an answer

 private:
  bool add(const piece& p) {
    if (p.call != call_ || !answer_ || p.offset != have_ || p.data.size > answer_->bytes - have_) return false;
    std::memcpy(values_.data() + have_, p.data.data, p.data.size);
    have_ += p.data.size;
    return complete();
  }

  bool listening_ = false;
  std::uint64_t call_ = 0;
  std::optional<answer> answer_;
  std::optional<shared_at> where_;
  std::vector<std::byte> values_;  // its memory is reused by the next call
  std::uint64_t max_ = 0, have_ = 0;
};

}  // namespace troupe::exchange
