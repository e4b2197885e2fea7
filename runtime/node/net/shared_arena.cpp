#include "runtime/node/net/shared_arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>

namespace troupe::net {
namespace {

constexpr const char* file_name = "troupe_lent";
constexpr std::size_t page = 4096, cache_line = 64;
constexpr std::uint64_t magic = 0x31746e656c707274;  // "trplent1"

struct head {  // the first page of the file
  std::uint64_t magic, token, bytes;
};

struct shared_region final : memory_region {
  explicit shared_region(void* file, std::uint64_t n) {
    base = static_cast<std::byte*>(file) + page;
    bytes = n;
    kind = memory_kind::shared;
    id = file_name;
  }
  ~shared_region() override { ::munmap(base - page, bytes + page); }
};

}  // namespace

expected<std::shared_ptr<shared_arena>, coded_error> shared_arena::make(std::uint64_t bytes) {
  bytes = (bytes + page - 1) / page * page;
  auto file = memory_file::make(file_name, bytes + page, memory_file::pages::sparse);
  if (!file) return unexpected(coded_error{"no_memory", "[net] cannot create shared memory: " + file.error().text});
  std::shared_ptr<shared_arena> made(new shared_arena());
  made->file_ = *std::move(file);
  made->token_ = memory_file::random_token();
  if (made->token_ == 0) return unexpected(coded_error{"no_memory", "[net] cannot create shared memory: no random token"});
  void* at = ::mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, made->file_.get(), 0);
  if (at == MAP_FAILED)
    return unexpected(coded_error{"no_memory", std::string("[net] cannot map shared memory: ") + std::strerror(errno)});
  ::madvise(at, bytes + page, MADV_DONTFORK);
  made->region_ = std::make_shared<shared_region>(at, bytes);
  new (at) head{magic, made->token_, bytes};
  if (!memory_file::seal(made->file_))
    return unexpected(coded_error{"no_memory", std::string("[net] cannot seal shared memory: ") + std::strerror(errno)});
  made->free_[0] = bytes;
  return made;
}

shared_arena::~shared_arena() = default;

slab shared_arena::take(std::size_t bytes) {
  const auto unit = bytes < page ? cache_line : page;
  const auto n = (bytes + unit - 1) / unit * unit;
  const std::lock_guard lock(mutex_);
  for (auto [at, room] : free_) {
    if (room < n) continue;
    free_.erase(at);
    if (room > n) free_[at + n] = room - n;
    taken_ += n;
    return {region_->base + at, n, region_};
  }
  return {};
}

void shared_arena::give_back(const slab& s) noexcept {
  const auto offset = static_cast<std::size_t>(s.data - region_->base);
  // Frees whole pages only: other slabs may use the rest of the first and last page.
  const auto first = (offset + page - 1) / page * page, last = (offset + s.bytes) / page * page;
  if (first < last)
    (void)::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(page + first),
                      static_cast<off_t>(last - first));
  const std::lock_guard lock(mutex_);
  taken_ -= s.bytes;
  auto at = free_.emplace(offset, s.bytes).first;
  if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  if (const auto before = std::prev(at); before->first + before->second == at->first) {
    before->second += at->second;
    free_.erase(at);
  }
}

memory_at shared_arena::where() const {
  return {{memory_file::machine(), static_cast<std::uint32_t>(::getpid()), static_cast<std::uint32_t>(file_.get())},
          token_,
          region_->bytes};
}

std::uint64_t shared_arena::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

expected<std::shared_ptr<const borrowed_memory>, coded_error> borrowed_memory::map(const memory_at& at) {
  constexpr std::uint64_t most = std::uint64_t{1} << 46;
  const auto refused = [](const std::string& why) {
    return unexpected(coded_error{"not_shared", "[net] the peer's memory cannot be read here: " + why});
  };
  if (at.bytes == 0) return refused("it has none to share");
  if (at.bytes > most || at.bytes % page != 0) return refused("its size is invalid");
  const auto f = memory_file::open(at.where, file_name, at.bytes + page, memory_file::access::read, "the peer");
  if (!f) return refused(f.error().text);
  void* mapped = ::mmap(nullptr, at.bytes + page, PROT_READ, MAP_SHARED | MAP_NORESERVE, f->get(), 0);
  if (mapped == MAP_FAILED) return refused(std::string("mmap failed: ") + std::strerror(errno));
  ::madvise(mapped, at.bytes + page, MADV_DONTFORK);
  const std::shared_ptr<const borrowed_memory> out(new borrowed_memory(mapped, at.bytes));
  const auto& h = *static_cast<const head*>(mapped);
  if (h.magic != magic || h.token != at.token || h.bytes != at.bytes) return refused("it does not match the peer's hello");
  return out;
}

const std::byte* borrowed_memory::base() const { return static_cast<const std::byte*>(at_) + page; }

borrowed_memory::~borrowed_memory() { ::munmap(at_, bytes_ + page); }

}  // namespace troupe::net
