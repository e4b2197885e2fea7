#include "runtime/node/net/memory_sharing.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "runtime/node/net/frame.hpp"
#include "runtime/node/net/payload_deleters.hpp"

namespace troupe::net {
namespace {

constexpr std::uint64_t line = 64, row_bytes = 32, numbers_max = max_control / sizeof(std::uint64_t);
constexpr std::array<std::byte, line> zeros{};

constexpr std::uint64_t down(std::uint64_t n) { return n / line * line; }
constexpr std::uint64_t up(std::uint64_t n) { return down(n + line - 1); }

template <class T>
T number_at(std::span<const std::byte> from, std::size_t at) {
  T v;
  std::memcpy(&v, from.data() + at, sizeof v);
  return v;
}

coded_error bad(const char* what) { return {"bad_loan", std::string("[net] shared buffers of a frame: ") + what}; }

memory_file::descriptor watch(std::uint32_t process) {
  return memory_file::descriptor(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0U)));
}

bool has_ended(const memory_file::descriptor& process) {
  pollfd p{process.get(), POLLIN, 0};
  return ::poll(&p, 1, 0) == 1 && (p.revents & POLLIN) != 0;
}

}  // namespace

std::size_t shared_table_bytes(std::size_t shared_buffers) {
  return static_cast<std::size_t>(up((shared_buffers + 1) * row_bytes));
}

std::vector<std::byte> encode_shared_buffers(const std::vector<shared_buffer>& shared_buffers) {
  std::vector<std::byte> out(shared_table_bytes(shared_buffers.size()));
  const std::uint64_t count = shared_buffers.size();
  std::memcpy(out.data(), &count, sizeof count);
  auto* at = out.data() + row_bytes;
  for (const auto& l : shared_buffers) {
    const std::array<std::uint64_t, 4> entry{l.at, l.offset, l.bytes, l.number};
    std::memcpy(at, entry.data(), row_bytes);
    at += row_bytes;
  }
  return out;
}

expected<std::vector<shared_buffer>, coded_error> decode_shared_buffers(std::span<const std::byte> payload,
                                                                        std::uint64_t region_bytes) {
  if (payload.size() < row_bytes) return unexpected(bad("no table"));
  const auto count = number_at<std::uint64_t>(payload, 0);
  if (count == 0 || count > payload.size() / row_bytes - 1) return unexpected(bad("the table has fewer entries than it states"));
  const auto table = shared_table_bytes(static_cast<std::size_t>(count));
  if (table > payload.size()) return unexpected(bad("the table is truncated"));
  const auto zero = [](std::span<const std::byte> s) {
    return std::all_of(s.begin(), s.end(), [](std::byte b) { return b == std::byte{0}; });
  };
  const auto last_row = static_cast<std::size_t>(count + 1) * row_bytes;
  if (!zero(payload.subspan(8, row_bytes - 8)) || !zero(payload.subspan(last_row, table - last_row)))
    return unexpected(bad("reserved bytes are not zero"));
  const std::uint64_t rest = payload.size() - table;
  std::vector<shared_buffer> out;
  out.reserve(static_cast<std::size_t>(count));
  std::uint64_t end = 0, gone = 0;  // of the entries before: end offset in the frame, bytes that are not in the payload
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry = payload.subspan((i + 1) * row_bytes, row_bytes);
    const shared_buffer l{number_at<std::uint64_t>(entry, 0), number_at<std::uint64_t>(entry, 8),
                          number_at<std::uint64_t>(entry, 16), number_at<std::uint64_t>(entry, 24)};
    if (l.at % line != 0 || l.offset % line != 0) return unexpected(bad("a buffer is not aligned"));
    if (l.bytes == 0 || l.offset > region_bytes || l.bytes > region_bytes - l.offset)
      return unexpected(bad("a buffer is outside the peer's memory"));
    if (l.at < end || l.at - gone > rest || l.bytes % line > rest - (l.at - gone))
      return unexpected(bad("a buffer is outside the frame"));
    end = l.at + l.bytes;  // no overflow: at <= rest + gone, and gone sums at most 2^15 lengths within a mapped region
    gone += down(l.bytes);
    out.push_back(l);
  }
  return out;
}

shared_buffers::shared_buffers(std::shared_ptr<shared_arena> arena, std::shared_ptr<buffer_pool> pool,
                               memory_file::descriptor process)
    : arena_(std::move(arena)), pool_(std::move(pool)), process_(std::move(process)) {}

// The peer may still read buffers that it holds when this process drops its transports: they are
// kept unchanged until the process ends.
shared_buffers::~shared_buffers() {
  if (out_.empty() || reader_ended()) return;
  // If this allocation throws, the process terminates, as in any destructor.
  static auto* const kept = new std::vector<std::map<std::uint64_t, held>>();  // NOLINT(bugprone-unhandled-exception-at-new)
  static std::mutex one;
  const std::lock_guard lock(one);
  kept->push_back(std::move(out_));
}

std::optional<shared_buffers::placed> shared_buffers::place(const const_part& p) {
  if (p.region && p.region.get() == arena_->region() && p.offset % line == 0) return placed{p.offset, {p.owner, p.region}};
  auto block = pool_->take(p.bytes, nullptr);
  const auto* d = block ? std::get_deleter<block_deleter>(block) : nullptr;
  if (d == nullptr || d->memory.of_arena.region.get() != arena_->region()) return std::nullopt;
  std::memcpy(block.get(), p.data, p.bytes);
  const auto offset = static_cast<std::uint64_t>(block.get() - arena_->region()->base);
  return placed{offset, {std::move(block), nullptr}};
}

void shared_buffers::share(outgoing_frame& f) {
  std::uint64_t at = 0, rest = 0;
  std::size_t worth = 0;
  const auto pays = [](const const_part& p, std::uint64_t where) {
    return p.may_be_shared && p.bytes >= share_from && where % line == 0;
  };
  for (const auto& p : f.parts) {
    const bool shared = pays(p, at);
    worth += shared ? 1 : 0;
    rest += shared ? p.bytes % line : p.bytes;
    at += p.bytes;
  }
  if (worth == 0 || shared_table_bytes(worth) + rest > max_chunk) return;
  auto slip = std::make_shared<shared_slip>();
  slip->of = shared_from_this();
  std::vector<shared_buffer> table;
  std::vector<const_part> parts(1);  // [0] is for the table
  at = 0;
  for (auto& p : f.parts) {
    auto there = pays(p, at) ? place(p) : std::nullopt;
    if (pays(p, at) && !there) return;  // the arena is full: the whole frame is sent as bytes
    if (there) {
      const std::lock_guard lock(mutex_);
      out_.emplace(++numbers_, std::move(there->keep));
      slip->numbers.push_back(numbers_);
      table.push_back({at, there->offset, p.bytes, numbers_});
      slip->shared += p.bytes;
      if (p.bytes % line != 0) parts.push_back({zeros.data(), p.bytes % line, nullptr, nullptr, 0});
    } else if (p.bytes != 0) {
      parts.push_back(p);
    }
    at += p.bytes;
  }
  const auto bytes = std::make_shared<const std::vector<std::byte>>(encode_shared_buffers(table));
  parts[0] = {bytes->data(), bytes->size(), bytes, nullptr, 0};
  slip->whole = at;
  slip->inside = bytes->size() + rest;
  f.parts = std::move(parts);
  f.shared = std::move(slip);
}

bool shared_buffers::returned(std::span<const std::byte> numbers) {
  if (numbers.size() % sizeof(std::uint64_t) != 0) return false;
  std::vector<held> over;  // destroyed outside the lock: destructors of owners may run any code
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < numbers.size(); i += sizeof(std::uint64_t)) {
    const auto found = out_.find(number_at<std::uint64_t>(numbers, i));
    if (found == out_.end()) return false;
    over.push_back(std::move(found->second));
    out_.erase(found);
  }
  return true;
}

void shared_buffers::take_back(const std::vector<std::uint64_t>& numbers) {
  std::vector<held> over;
  const std::lock_guard lock(mutex_);
  for (const auto n : numbers)
    if (const auto found = out_.find(n); found != out_.end()) {
      over.push_back(std::move(found->second));
      out_.erase(found);
    }
}

bool shared_buffers::none() const {
  const std::lock_guard lock(mutex_);
  return out_.empty();
}

bool shared_buffers::reader_ended() const { return has_ended(process_); }

void shared_buffers::forget() {
  std::map<std::uint64_t, held> over;
  const std::lock_guard lock(mutex_);
  over.swap(out_);
}

shared_slip::~shared_slip() {
  if (!sent && of) of->take_back(numbers);
}

void debts::release(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  released_.push_back(number);
  if (released_.size() == 1 && report_) report_();  // the callback only posts
}

std::vector<std::byte> debts::collect(std::size_t most) {
  const std::lock_guard lock(mutex_);
  const auto n = std::min({released_.size(), most, static_cast<std::size_t>(numbers_max)});
  std::vector<std::byte> out(n * sizeof(std::uint64_t));
  if (n > 0) std::memcpy(out.data(), released_.data(), out.size());
  released_.erase(released_.begin(), released_.begin() + static_cast<std::ptrdiff_t>(n));
  return out;
}

void debts::on_report(std::function<void()> f) {
  const std::lock_guard lock(mutex_);
  report_ = std::move(f);
  if (report_ && !released_.empty()) report_();
}

memory_sharing::memory_sharing(std::shared_ptr<shared_arena> arena, std::uint64_t keep_bytes)
    : arena_(std::move(arena)), pool_(buffer_pool::make(keep_bytes, arena_)) {}
memory_sharing::~memory_sharing() = default;

memory_sharing::terms memory_sharing::meet(const memory_at& peer) {
  terms t;
  const process who{peer.where.process, peer.token};
  auto alive =
      watch(peer.where.process);  // opened before the memory is mapped, whose token proves that the process is still the same
  auto mapped = borrowed_memory::map(peer);
  if (!mapped || !alive || has_ended(alive)) {
    t.why_not = mapped ? "[net] the peer's process is not visible to this process" : mapped.error().message;
    return t;
  }
  t.memory = std::move(*mapped);
  auto& ours = shared_by_peer_[who];
  t.ours = ours.lock();
  if (!t.ours) ours = t.ours = std::make_shared<shared_buffers>(arena_, pool_, std::move(alive));
  auto& theirs = borrowed_[who];
  t.theirs = theirs.lock();
  if (!t.theirs) theirs = t.theirs = std::make_shared<debts>();
  return t;
}

void memory_sharing::part(const terms& t) {
  if (t.ours && !t.ours->none()) parted_.push_back(t.ours);
}

bool memory_sharing::sweep() {
  std::erase_if(shared_by_peer_, [](const auto& l) { return l.second.expired(); });
  std::erase_if(borrowed_, [](const auto& b) { return b.second.expired(); });
  std::erase_if(parted_, [](const auto& l) {
    if (l->reader_ended()) l->forget();
    return l->none();
  });
  return !parted_.empty();
}

namespace {

// Deleter of a buffer that the peer shares: returns it. Until then it keeps the memory mapped and
// the frame's credit charged.
struct debt_deleter {
  std::shared_ptr<debts> to;
  std::uint64_t number;
  std::shared_ptr<const borrowed_memory> memory;
  std::shared_ptr<std::byte> payload;  // of the frame; carries the credit of all of it
  void operator()(const std::byte*) { to->release(number); }
};

}  // namespace

expected<void, coded_error> unfold(frame& f, const memory_sharing::terms& from, receive_window& window) {
  if (!from.memory) return unexpected(bad("the peer's memory is not mapped here"));
  const auto table = decode_shared_buffers({f.payload.get(), f.bytes}, from.memory->bytes());
  if (!table) return unexpected(table.error());
  auto* d = std::get_deleter<block_deleter>(f.payload);
  std::uint64_t shared = 0;
  for (const auto& l : *table) shared += l.bytes;
  if (d == nullptr) return unexpected(bad("the payload has no credit account"));
  auto account = window.admit_shared(shared);
  account->charge(shared);
  d->shared = credit_debt(std::move(account), shared);
  const auto front = shared_table_bytes(table->size());
  const auto whole = f.payload;
  f.payload = std::shared_ptr<std::byte>(whole, whole.get() + front);
  f.bytes -= front;
  for (const auto& l : *table)
    f.shared.push_back({static_cast<std::size_t>(l.at),
                        static_cast<std::size_t>(l.bytes),
                        {from.memory->base() + l.offset, debt_deleter{from.theirs, l.number, from.memory, whole}}});
  return {};
}

}  // namespace troupe::net
