#include "runtime/exchange/client/team.hpp"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>

#include "runtime/exchange/hub/arithmetic.hpp"
#include "runtime/exchange/hub/parts.hpp"

namespace troupe::exchange {
namespace {

using word = std::atomic_ref<std::uint32_t>;
using long_word = std::atomic_ref<std::uint64_t>;
constexpr std::uint64_t chunk_bytes = std::uint64_t{512} << 10, page = 4096, line_stride = 128;

// Waits until `w` differs from `seen`, at most 5 ms. FUTEX_PRIVATE_FLAG is not set: the memory is
// shared by processes.
void sleep_on(std::uint32_t& w, std::uint32_t seen) {
  constexpr timespec a_while{0, 5'000'000};
  (void)::syscall(SYS_futex, &w, FUTEX_WAIT, seen, &a_while, nullptr, 0);
}
void wake(std::uint32_t& w) { (void)::syscall(SYS_futex, &w, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

bool reached(std::uint32_t at, std::uint32_t wanted) { return static_cast<std::int32_t>(at - wanted) >= 0; }

// The word `come`: round number (upper 32 bits), whether the round meets at the hub (bit 31),
// number of ranks that have arrived.
constexpr std::uint64_t at_hub = std::uint64_t{1} << 31, low_half = 0xffffffff;
constexpr std::uint64_t coming(std::uint32_t round, std::uint64_t rest) { return std::uint64_t{round} << 32 | rest; }
constexpr std::uint32_t round_of(std::uint64_t come) { return static_cast<std::uint32_t>(come >> 32); }
constexpr std::chrono::milliseconds in_vain{20};

// One short wait: spins, then yields. Returns false when it is time to sleep. If every rank has a
// core, spinning takes nothing from other ranks. Otherwise the rank that is waited for probably
// needs this core.
bool waits_on(unsigned& spun, unsigned spins) {
  constexpr unsigned yields = 100;
  if (++spun >= spins + yields) return false;
  if (spun >= spins) return ::sched_yield() == 0;
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
  return true;
}

}  // namespace

// Counters of one rank: chunks laid, parts added, and how many ranks wait for either.
struct team::line {
  alignas(line_stride) std::uint32_t laid;
  std::uint32_t added, waiting, process, left;
  std::uint64_t wants[2];  // identifies the call of a round, by the round's parity
};
struct team::shared_header {
  alignas(line_stride) std::uint32_t begun, over;
  alignas(line_stride) std::uint64_t come;
  std::uint32_t gate, at_gate;  // the gate changes when a round begins or goes to the hub; at_gate: how many ranks wait for it
};

// The k-th chunk: one piece of every rank's part. Pieces are stored in slots and results by rank,
// aligned to cache lines, so that no two ranks write to the same line.
struct team::chunk {
  const work* of = nullptr;
  std::uint64_t k = 0;
  std::uint32_t parity = 0, ranks = 1;

  static std::uint64_t most(std::uint32_t ranks, std::uint64_t each) { return chunk_bytes / ranks / 64 * 64 / each; }
  std::uint64_t each() const { return bytes_of(of->type); }
  range piece(std::uint32_t rank) const {
    const auto part = part_of(of->count, rank, ranks);
    const auto m = most(ranks, each()), at = std::min(k * m, part.count);
    return {part.first + at, std::min(m, part.count - at)};
  }
  std::byte* values(std::uint32_t rank) const { return static_cast<std::byte*>(of->values) + piece(rank).first * each(); }
  std::uint64_t bytes(std::uint32_t rank) const { return piece(rank).count * each(); }
  std::uint64_t place(std::uint32_t rank) const { return rank * most(ranks, each()) * each(); }
};

std::uint64_t team::doubles(std::uint32_t ranks) {
  return (page + line_stride * max_ranks + (2 * ranks + 2) * chunk_bytes) / sizeof(double);
}

team::team(std::unique_ptr<shared_array> memory, std::uint32_t rank, std::uint32_t ranks)
    : memory_(std::move(memory)), rank_(rank), ranks_(ranks) {
  static_assert(sizeof(line) == line_stride && sizeof(shared_header) <= page);
  word(line_of(rank_).process).store(static_cast<std::uint32_t>(::getpid()));
  // If every rank has its own core, it spins longer than a wait of microseconds.
  cpu_set_t usable;
  const bool known = ::sched_getaffinity(0, sizeof usable, &usable) == 0;
  spins_ = known && static_cast<std::uint32_t>(CPU_COUNT(&usable)) >= ranks ? 4000 : 50;
}

team::~team() {
  word(line_of(rank_).left).store(1);
  if (word(top().begun).load() != 0) give_up();
}

team::shared_header& team::top() const { return *static_cast<shared_header*>(memory_->values()); }
team::line& team::line_of(std::uint32_t rank) const {
  return reinterpret_cast<line*>(static_cast<std::byte*>(memory_->values()) + page)[rank];
}
std::byte* team::slot(std::uint32_t rank, std::uint32_t parity) const {
  return static_cast<std::byte*>(memory_->values()) + page + line_stride * max_ranks + (2 * rank + parity) * chunk_bytes;
}
std::byte* team::results(std::uint32_t parity) const { return slot(ranks_, parity); }

bool team::fresh() const { return word(top().begun).load() == 0 && word(top().over).load() == 0; }

void team::begin() {
  word(top().begun).store(1);
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    const auto process = word(line_of(r).process).load();
    processes_.emplace_back(r == rank_ ? -1 : static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0U)));
  }
}

bool team::anybody_ended() const {
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    if (r == rank_) continue;
    pollfd p{processes_[r].get(), POLLIN, 0};
    if (p.fd < 0 || word(line_of(r).left).load() != 0 || (::poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0)) return true;
  }
  return false;
}

bool team::over() const { return word(top().over).load() != 0 || anybody_ended(); }

void team::give_up() {
  word(top().over).store(1);
  for (std::uint32_t r = 0; r < ranks_; ++r) wake(line_of(r).laid), wake(line_of(r).added);
}

void team::open_gate() const {
  word(top().gate).fetch_add(1);
  if (word(top().at_gate).load() != 0) wake(top().gate);
}

// A rank writes `wants` of round k + 2 only after all ranks have arrived at round k + 1, and thus
// have compared `wants` of round k.
team::met team::gather(std::uint64_t what, deadline until) {
  const auto round = rounds_;
  const long_word come(top().come);
  long_word(line_of(rank_).wants[round & 1]).store(what);
  for (auto now = come.load();;) {
    // Any other value means that the round goes to the hub, or that the word is damaged; then the
    // hub's call fails.
    if (round_of(now) != round || (now & low_half) >= ranks_) return met::elsewhere;
    const bool last = (now & low_half) + 1 == ranks_;
    if (!come.compare_exchange_weak(now, last ? coming(round + 1, 0) : now + 1)) continue;
    if (last) open_gate();
    break;
  }
  const auto limit = std::min(until, std::chrono::steady_clock::now() + in_vain);
  for (unsigned spun = 0;;) {
    const auto gate = word(top().gate).load();
    auto now = come.load();
    if (now == coming(round, at_hub)) return met::elsewhere;
    if (round_of(now) != round) break;
    if (waits_on(spun, spins_)) continue;
    if (std::chrono::steady_clock::now() >= limit) {
      if (!come.compare_exchange_strong(now, coming(round, at_hub))) continue;
      open_gate();
      return met::elsewhere;
    }
    word(top().at_gate).fetch_add(1);
    sleep_on(top().gate, gate);
    word(top().at_gate).fetch_sub(1);
  }
  ++rounds_;
  for (std::uint32_t r = 0; r < ranks_; ++r)
    if (long_word(line_of(r).wants[round & 1]).load() != what) return met::differ;
  return met::here;
}

void team::met_at_hub() {
  auto at = coming(rounds_, at_hub);
  ++rounds_;
  if (long_word(top().come).compare_exchange_strong(at, coming(rounds_, 0))) open_gate();
}

// A waiting rank increments `waiting` before its last check of the word, so no wake-up is lost.
void team::tell(std::uint32_t& w, std::uint32_t value) const {
  word(w).store(value);
  if (word(line_of(rank_).waiting).load() != 0) wake(w);
}

team::ended team::wait_all(bool laid, std::uint32_t at_least, deadline until, const std::function<bool()>& stops) const {
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    auto& l = line_of(r);
    auto& w = laid ? l.laid : l.added;
    unsigned spun = 0;
    while (!reached(word(w).load(std::memory_order_acquire), at_least)) {
      if (waits_on(spun, spins_)) continue;
      word(l.waiting).fetch_add(1);
      const auto seen = word(w).load();
      if (!reached(seen, at_least)) sleep_on(w, seen);
      word(l.waiting).fetch_sub(1);
      if (reached(word(w).load(std::memory_order_acquire), at_least)) break;
      if (word(top().over).load() != 0 || anybody_ended()) return ended::lost;
      if (stops()) return ended::called;
      if (std::chrono::steady_clock::now() >= until) return ended::late;
    }
  }
  return ended::well;
}

void team::lay(const chunk& c) const {
  for (std::uint32_t r = 0; r < ranks_; ++r)
    if (r != rank_) std::memcpy(slot(rank_, c.parity) + c.place(r), c.values(r), c.bytes(r));
}

void team::put(const chunk& c, std::uint32_t part) const {
  std::memcpy(results(c.parity) + c.place(part), c.values(part), c.bytes(part));
}

// Writes this rank's results of the chunk: the reduced values of its part, or the values it
// provides.
void team::give(const chunk& c) const {
  const auto& call = c.of->call;
  if (reduces(call.what)) {
    std::vector<const std::byte*> all(ranks_);
    for (std::uint32_t r = 0; r < ranks_; ++r) all[r] = r == rank_ ? c.values(r) : slot(r, c.parity) + c.place(rank_);
    fold_into(c.of->type, static_cast<reduction>(call.argument), c.values(rank_), all, c.piece(rank_).count);
    if (call.what == collective_op::all_reduce) put(c, rank_);
  } else if (call.what == collective_op::broadcast || call.what == collective_op::scatter) {
    for (std::uint32_t r = 0; r < ranks_ && rank_ == call.argument; ++r) put(c, r);
  } else {
    put(c, rank_);
  }
}

void team::take(const chunk& c) const {
  const auto& call = c.of->call;
  if (call.what == collective_op::reduce_scatter ||
      (has_root(call.what) && (rank_ == call.argument) != (call.what == collective_op::gather)))
    return;
  const bool own = call.what == collective_op::broadcast || call.what == collective_op::scatter;
  for (std::uint32_t r = 0; r < ranks_; ++r) {
    if (r == rank_ ? !own : call.what == collective_op::scatter) continue;
    std::memcpy(c.values(r), results(c.parity) + c.place(r), c.bytes(r));
  }
}

// Iteration k: lay chunk k + 1; once all ranks have laid k, give k; once all have given k, take k.
// Two slots and two results suffice: a rank lays k + 2 over k only after all have given k, and
// gives k + 2 over the results of k only after all have laid k + 2, hence taken k. The counters
// also advance in calls that lay nothing.
team::ended team::run(const work& of, deadline until, const std::function<bool()>& stops) {
  const auto most = chunk::most(ranks_, bytes_of(of.type));
  std::uint64_t chunks = 0;
  for (std::uint32_t r = 0; r < ranks_; ++r) chunks = std::max(chunks, (part_of(of.count, r, ranks_).count + most - 1) / most);
  const auto first = chunks_;
  const auto nth = [&](std::uint64_t k) { return chunk{&of, k, (first + static_cast<std::uint32_t>(k)) & 1, ranks_}; };
  auto& me = line_of(rank_);
  const auto done = [&](std::uint64_t k) { return first + static_cast<std::uint32_t>(k) + 1; };
  const auto lay_next = [&](std::uint64_t k) {
    if (reduces(of.call.what)) lay(nth(k));
    tell(me.laid, done(k));
  };
  ended how = ended::well;
  if (chunks > 0) lay_next(0);
  for (std::uint64_t k = 0; k < chunks && how == ended::well; ++k) {
    if (k + 1 < chunks) lay_next(k + 1);
    how = wait_all(true, done(k), until, stops);
    if (how != ended::well) break;
    give(nth(k));
    tell(me.added, done(k));
    how = wait_all(false, done(k), until, stops);
    if (how == ended::well) take(nth(k));
  }
  chunks_ = first + static_cast<std::uint32_t>(chunks);
  if (how != ended::well) give_up();
  return how;
}

}  // namespace troupe::exchange
