#include "ops/cuda/order.hpp"

#include <algorithm>
#include <atomic>

namespace troupe::cuda {

bool event::done() const {
  const auto e = cudaEventQuery(event_);
  if (e == cudaErrorNotReady) return false;
  check(e, "operations of the device");
  return true;
}

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> made{0};
  return ++made;
}

}  // namespace

queue::queue(int device) : device_(device), id_(next_id()) {
  const current_device here(device_);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

std::uint64_t queue::count() {
  const std::lock_guard guard(lock_);
  return ++enqueued_;
}

std::shared_ptr<event> queue::record() {
  const std::lock_guard guard(lock_);
  return record_locked();
}

std::shared_ptr<event> queue::record_locked() {
  const current_device here(device_);
  auto e = std::make_shared<event>();
  check(cudaEventRecord(e->get(), stream_), "cudaEventRecord");
  events_.push_back({enqueued_, e});
  if (events_.size() > 8) events_.pop_front();
  return e;
}

std::shared_ptr<event> queue::event_behind(std::uint64_t at) {
  const std::lock_guard guard(lock_);
  for (const auto& e : events_)
    if (e.at >= at) return e.when;
  return record_locked();
}

void queue::wait_for(queue& other, std::uint64_t at) {
  if (&other == this) return;
  {
    const std::lock_guard guard(lock_);
    if (waited_[other.id_] >= at) return;
  }
  const auto e = other.event_behind(at);
  const std::lock_guard guard(lock_);
  check(cudaStreamWaitEvent(stream_, e->get(), 0), "cudaStreamWaitEvent");
  waited_[other.id_] = std::max(waited_[other.id_], at);
}

void uses::before_read(queue& q) {
  const auto p = written();
  if (p.in) q.wait_for(*p.in, p.at);
}

void uses::before_write(queue& q) {
  before_read(q);
  std::vector<position> readers;
  {
    const std::lock_guard guard(lock_);
    readers = read_;
  }
  for (const auto& p : readers) q.wait_for(*p.in, p.at);
}

void uses::was_read(const position& p) {
  const std::lock_guard guard(lock_);
  for (auto& r : read_)
    if (r.in == p.in) return void(r.at = p.at);
  read_.push_back(p);
}

void uses::was_written(const position& p) {
  const std::lock_guard guard(lock_);
  written_ = p;
  read_.clear();
}

position uses::written() const {
  const std::lock_guard guard(lock_);
  return written_;
}

}  // namespace troupe::cuda
