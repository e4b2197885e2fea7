#include "tests/vgpu/block_run.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/vgpu/vgpu.hpp"

namespace troupe::vgpu {
namespace {

constexpr int not_a_number = 0xff;  // bytes of a NaN

}  // namespace

struct block_run::runner {
  explicit runner(block_run* o) : owner(o), own(run_threads, this) {}
  block_run* owner;
  fiber own;
  thread_place here;
  int warp = -1;           // of the warp operation that it waits for
  std::uint32_t call = 0;  // number of that operation
};

block_run& block_run::mine() {
  static thread_local block_run b;
  return b;
}

void block_run::report(const std::string& what) {
  const auto& b = launch_.at;
  found(std::string(launch_.kernel) + ", block " + std::to_string(b.x) + "," + std::to_string(b.y) + "," + std::to_string(b.z) +
        ": " + what);
}

std::uint32_t block_run::below(std::uint32_t n) { return static_cast<std::uint32_t>(random_()) % n; }

// Runs threads that have not started, until one of them has to wait.
void block_run::run_threads(void* r) {
  auto& self = *static_cast<runner*>(r);
  auto& b = *self.owner;
  for (;;) {
    while (b.started_ < b.threads_) {
      auto& p = self.here;
      p.number = b.order_[static_cast<std::size_t>(b.started_++)];
      const auto n = static_cast<unsigned>(p.number);
      p.thread = {n % p.block_dim.x, n / p.block_dim.x % p.block_dim.y, n / p.block_dim.x / p.block_dim.y};
      b.here_ = &p;
      b.body_(b.argument_);
      ++b.ended_;
    }
    b.free_.push_back(&self);
    self.own.leave();
  }
}

// Leaves the running thread until it is chosen again.
void block_run::wait() {
  auto* self = current_;
  self->own.leave();
  here_ = &self->here;
}

void block_run::start(const block_launch& l) {
  launch_ = l;
  random_.seed(static_cast<std::uint_fast32_t>(l.seed % 2147483646 + 1));
  threads_ = static_cast<int>(l.block.x * l.block.y * l.block.z);
  started_ = ended_ = at_barrier_ = 0;
  epoch_ = 1;
  const auto n = static_cast<std::size_t>(threads_);
  order_.resize(n);
  std::iota(order_.begin(), order_.end(), 0);
  if (l.shuffled) std::shuffle(order_.begin(), order_.end(), random_);
  warp_calls_.assign(n, 0);
  warp_epoch_.assign(n, 0);
  warps_.assign((n + 31) / 32, warp_state{});
  for (auto& s : shared_) {
    std::memset(s.data.get(), not_a_number, s.bytes);
    std::fill(s.cells.begin(), s.cells.end(), race_cell{});
  }
  dynamic_.assign(l.dynamic_bytes, std::byte{not_a_number});
  dynamic_cells_.assign((l.dynamic_bytes + 3) / 4, race_cell{});
  ready_.clear(), waiting_for_block_.clear(), waiting_for_warp_.clear();
}

// Returns a runner that can run: one whose thread has started, or one for threads that have not.
block_run::runner* block_run::choose() {
  const bool more = started_ < threads_;
  if (!ready_.empty() && (!more || below(4) == 0)) {
    const auto k = launch_.shuffled ? below(static_cast<std::uint32_t>(ready_.size())) : 0;
    std::swap(ready_[k], ready_.back());
  } else if (more) {
    if (free_.empty()) free_.push_back(runners_.emplace_back(std::make_unique<runner>(this)).get());
    ready_.push_back(free_.back());
    free_.pop_back();
  } else {
    return nullptr;
  }
  auto* r = ready_.back();
  ready_.pop_back();
  return r;
}

void block_run::run(const block_launch& l, void (*body)(void*), void* argument) {
  body_ = body, argument_ = argument;
  start(l);
  while (ended_ < threads_) {
    auto* r = choose();
    if (!r) {
      report("deadlock: " + std::to_string(at_barrier_) + " threads wait at __syncthreads, " +
             std::to_string(waiting_for_warp_.size()) + " in a warp, " + std::to_string(ended_) + " have ended");
      for (auto* list : {&waiting_for_block_, &waiting_for_warp_})
        for (auto* w : *list) w->own.reset(), free_.push_back(w);
      return;
    }
    r->here.block = l.at, r->here.block_dim = l.block, r->here.grid_dim = l.grid;
    current_ = r;
    r->own.enter();
    if (at_barrier_ > 0 && at_barrier_ + ended_ == threads_) end_barrier();
  }
}

void block_run::end_barrier() {
  if (ended_ > 0) report(std::to_string(ended_) + " threads have ended while others wait at __syncthreads");
  ++epoch_;
  at_barrier_ = 0;
  ready_.insert(ready_.end(), waiting_for_block_.begin(), waiting_for_block_.end());
  waiting_for_block_.clear();
}

void block_run::barrier() {
  ++at_barrier_;
  waiting_for_block_.push_back(current_);
  wait();
}

std::uint64_t block_run::exchange(std::uint32_t mask, std::uint64_t own, int from) {
  const int number = here_->number, lane = here_->lane(), warp = number / 32;
  auto& w = warps_[static_cast<std::size_t>(warp)];
  const auto call = warp_calls_[static_cast<std::size_t>(number)]++;
  const auto side = call & 1;  // two operations of a warp can be under way at once
  if (!(mask >> lane & 1)) report("lane " + std::to_string(lane) + " calls a warp operation with a mask that lacks it");
  if (w.posted[side] == 0) w.want[side] = mask;
  if (w.want[side] != mask) report("lanes of a warp give different masks");
  w.value[side][lane] = own;
  w.posted[side] |= 1u << lane;
  if (w.posted[side] == mask) {
    w.posted[side] = 0;
    w.done = call + 1;
    const auto over = std::stable_partition(waiting_for_warp_.begin(), waiting_for_warp_.end(),
                                            [&](const runner* r) { return r->warp != warp || r->call >= w.done; });
    ready_.insert(ready_.end(), over, waiting_for_warp_.end());
    waiting_for_warp_.erase(over, waiting_for_warp_.end());
  } else {
    current_->warp = warp, current_->call = call;
    waiting_for_warp_.push_back(current_);
    wait();
  }
  if (from < 0) return own;
  if (!(mask >> from & 1)) report("a shuffle reads lane " + std::to_string(from) + ", which is not in the mask");
  return w.value[side][from];
}

void block_run::warp_barrier(std::uint32_t mask) {
  exchange(mask, 0, -1);
  ++warp_epoch_[static_cast<std::size_t>(here_->number)];
}

std::uint32_t block_run::ballot(std::uint32_t mask, bool vote) {
  const auto side = warp_calls_[static_cast<std::size_t>(here_->number)] & 1;
  exchange(mask, vote, -1);
  const auto& w = warps_[static_cast<std::size_t>(here_->number / 32)];
  std::uint32_t votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1 && w.value[side][lane] != 0) votes |= 1u << lane;
  return votes;
}

block_run::shared_memory block_run::shared(const void* tag, std::size_t bytes, std::size_t count) {
  auto at = std::find_if(shared_.begin(), shared_.end(), [&](const auto& s) { return s.tag == tag; });
  if (at == shared_.end()) {
    at = shared_.insert(at, {tag, bytes, std::make_unique<std::byte[]>(bytes), std::vector<race_cell>(count)});
    std::memset(at->data.get(), not_a_number, bytes);
  }
  return {at->data.get(), at->cells.data()};
}

block_run::shared_memory block_run::dynamic(std::size_t& bytes) {
  bytes = dynamic_.size();
  return {dynamic_.data(), dynamic_cells_.data()};
}

void block_run::beyond(std::int64_t index, std::int64_t count) {
  report("element " + std::to_string(index) + " of a shared array of " + std::to_string(count));
}

void block_run::touch(race_cell& c, bool write, std::size_t index) {
  const auto self = static_cast<std::int16_t>(here_->number);
  const auto warp_epoch = warp_epoch_[static_cast<std::size_t>(self)];
  const auto ordered = [&](std::int16_t other, std::uint32_t epoch, std::uint32_t other_warp_epoch) {
    return other < 0 || other == self || epoch != epoch_ || (other / 32 == self / 32 && other_warp_epoch != warp_epoch);
  };
  const auto race = [&](const std::string& what) {
    report("race on element " + std::to_string(index) + " of a shared array: thread " + std::to_string(self) + what +
           ", with no barrier between them");
  };
  if (!ordered(c.writer, c.write_epoch, c.write_warp_epoch))
    race((write ? " writes" : " reads") + std::string(" what thread ") + std::to_string(c.writer) + " writes");
  const bool read_by_others = c.read_epoch == epoch_ && c.more_readers && c.reader == self;
  if (write && (read_by_others || !ordered(c.reader, c.read_epoch, c.read_warp_epoch)))
    race(read_by_others ? " writes what others read" : " writes what thread " + std::to_string(c.reader) + " reads");
  if (write) {
    c.writer = self, c.write_epoch = epoch_, c.write_warp_epoch = warp_epoch;
  } else {
    c.more_readers = c.read_epoch == epoch_ && c.reader >= 0 && (c.more_readers || c.reader != self);
    c.reader = self, c.read_epoch = epoch_, c.read_warp_epoch = warp_epoch;
  }
}

}  // namespace troupe::vgpu
