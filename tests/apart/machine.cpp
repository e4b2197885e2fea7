#include "tests/apart/machine.hpp"

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace troupe::apart {

block::block(std::shared_ptr<machine> m, std::int16_t of, std::size_t place, std::size_t r)
    : owner(std::move(m)), device(of), at(place), size(r) {
  data = owner->front_ + at;
  space.device = owner->space_of(of);
}
block::~block() { owner->give_back(*this); }

machine::machine(std::uint64_t seed) : room_(std::size_t{8} << 30), random_(seed) {
  const int fd = memfd_create("apart", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(room_)) != 0) throw std::runtime_error("apart: no memory file");
  const auto map = [&](int protection) {
    auto* p = mmap(nullptr, room_, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (p == MAP_FAILED) throw std::runtime_error("apart: no memory map");
    return static_cast<std::byte*>(p);
  };
  front_ = map(PROT_NONE);
  back_ = map(PROT_READ | PROT_WRITE);
  close(fd);
}

machine::~machine() {
  if (server_.joinable()) {
    {
      std::lock_guard guard(calls_->lock);
      calls_->ends = true;
    }
    calls_->called.notify_all();
    server_.get_id() == std::this_thread::get_id() ? server_.detach() : server_.join();
  }
  munmap(front_, room_);
  munmap(back_, room_);
}

std::shared_ptr<storage> machine::allocate(std::size_t bytes, std::int16_t device) {
  std::lock_guard guard(lock_);
  const auto size = (bytes + 64 + 4095) / 4096 * 4096;
  auto& list = free_[{device, size}];
  std::shared_ptr<block> b;
  if (list.empty()) {
    if (top_ + size > room_) throw std::runtime_error("apart: out of memory");
    b = std::make_shared<block>(shared_from_this(), device, top_, size);
    top_ += size;
    counts_.held += size;
    ++counts_.made;
  } else {
    b = std::make_shared<block>(shared_from_this(), device, list.back().first, size);
    b->used = list.back().second;
    b->blind = fault == planted::reuse_does_not_wait;
    list.pop_back();
    ++counts_.reused;
  }
  b->bytes = bytes;
  counts_.in_use += size;
  counts_.peak = std::max(counts_.peak, counts_.in_use);
  return b;
}

void machine::give_back(block& b) {
  std::lock_guard guard(lock_);
  free_[{b.device, b.size}].emplace_back(b.at, b.used);
  counts_.in_use -= b.size;
}

machine::counts machine::statistics() {
  std::lock_guard guard(lock_);
  return counts_;
}

void machine::find(std::string what) {
  if (findings_.size() >= 100) return;
  if (on_finding) on_finding(what);
  findings_.push_back(std::move(what));
}
std::vector<std::string> machine::findings() {
  std::lock_guard guard(lock_);
  return findings_;
}

namespace {
uses& uses_of(const tensor& t) { return static_cast<block&>(*t.block()).used; }
void merge(clock& into, const clock& from) {
  for (std::size_t i = 0; i < queues; ++i) into[i] = std::max(into[i], from[i]);
}
}  // namespace

event machine::enqueue(std::uint32_t q, const std::vector<tensor>& reads, const std::vector<tensor>& writes, const char* what,
                       std::function<void()> run) {
  std::lock_guard guard(lock_);
  operation o;
  auto now = clocks_[q];
  const auto after = [&](std::uint32_t other, std::uint64_t at, const clock& c, bool forgets) {
    if (at == 0 || other == q || forgets) return;
    o.after.push_back({other, at});
    merge(now, c);
  };
  const auto blind = [](const tensor& t) { return static_cast<const block&>(*t.block()).blind; };
  for (const auto* list : {&reads, &writes})
    for (const auto& t : *list) {
      const auto& u = uses_of(t);
      after(u.written.queue, u.written.at, u.written_clock, blind(t) || (list == &reads && fault == planted::read_does_not_wait));
    }
  for (const auto& t : writes)
    for (std::uint32_t r = 0; r < queues; ++r)
      after(r, uses_of(t).read[r], uses_of(t).read_clock[r], blind(t) || fault == planted::write_does_not_wait);
  // Checks the order by the vector clocks. A missing wait is found here, for every execution order.
  const auto must = [&](std::uint32_t other, std::uint64_t at, const char* of) {
    if (at > now[other] && other != q) find(std::string(what) + ": is not ordered after " + of + " of another stream");
  };
  now[q] = ++put_[q];
  for (const auto& t : reads) must(uses_of(t).written.queue, uses_of(t).written.at, "the write");
  for (const auto& t : writes) {
    must(uses_of(t).written.queue, uses_of(t).written.at, "the write");
    for (std::uint32_t r = 0; r < queues; ++r) must(r, uses_of(t).read[r], "a read");
  }
  clocks_[q] = now;
  for (const auto& t : reads) uses_of(t).read[q] = put_[q], uses_of(t).read_clock[q] = now;
  for (const auto& t : writes) {
    auto& u = uses_of(t);
    u = {};
    u.written = {q, put_[q]};
    u.written_clock = now;
    static_cast<block&>(*t.block()).blind = false;
  }
  o.run = std::move(run);
  waiting_[q].push_back(std::move(o));
  ++operations_;
  return {q, put_[q]};
}

bool machine::done(const event& e) {
  std::lock_guard guard(lock_);
  return done_[e.queue] >= e.at;
}

bool machine::may_run(std::uint32_t q) const {
  if (waiting_[q].empty()) return false;
  const auto& after = waiting_[q].front().after;
  return std::all_of(after.begin(), after.end(), [this](const event& e) { return done_[e.queue] >= e.at; });
}

void machine::run_one(std::uint32_t q) {
  auto o = std::move(waiting_[q].front());
  waiting_[q].pop_front();
  o.run();
  ++done_[q];
}

void machine::run_until(const event& e) {
  while (done_[e.queue] < e.at) {
    const auto first = static_cast<std::uint32_t>(random_() % queues);
    std::uint32_t q = first;
    while (!may_run(q)) {
      q = (q + 1) % queues;
      if (q == first) throw std::logic_error("apart: deadlock: streams wait for each other");
    }
    run_one(q);
  }
}

void machine::wait(const event& e) {
  std::lock_guard guard(lock_);
  run_until(e);
}

event machine::written(const tensor& t) {
  std::lock_guard guard(lock_);
  return uses_of(t).written;
}

void machine::when_done(std::function<void()> then) {
  {
    std::lock_guard guard(calls_->lock);
    calls_->waiting.push_back(std::move(then));
    if (!server_.joinable()) server_ = std::thread([c = calls_] { serve(c); });
  }
  calls_->called.notify_one();
}

void machine::serve(const std::shared_ptr<calls>& c) {
  std::unique_lock guard(c->lock);
  for (;;) {
    c->called.wait(guard, [&] { return c->ends || !c->waiting.empty(); });
    if (c->waiting.empty()) return;
    auto call = std::move(c->waiting.front());
    c->waiting.pop_front();
    guard.unlock();
    call();
    call = {};
    guard.lock();
  }
}

void machine::drift() {
  std::lock_guard guard(lock_);
  for (auto n = random_() % 4; n > 0; --n)
    if (const auto q = static_cast<std::uint32_t>(random_() % queues); may_run(q)) run_one(q);
}

}  // namespace troupe::apart
