#include "tests/vgpu/machine.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/vgpu/block_run.hpp"

namespace troupe::vgpu {
namespace {

constexpr std::size_t page = 4096;
// Addresses are not used again, so that a use of released memory is found.
constexpr std::size_t address_room = std::size_t{256} << 30;

std::unique_ptr<machine>& the_machine() {
  static std::unique_ptr<machine> m;
  return m;
}

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "virtual GPU: %s\n", why);
  std::abort();
}

std::uintptr_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

}  // namespace

std::uint64_t& vector_clock::at(std::size_t stream) {
  if (counts_.size() <= stream) counts_.resize(stream + 1);
  return counts_[stream];
}
void vector_clock::join(const vector_clock& other) {
  for (std::size_t k = 0; k < other.counts_.size(); ++k) at(k) = std::max(at(k), other.counts_[k]);
}
bool vector_clock::covers(const vector_clock& earlier) const {
  for (std::size_t k = 0; k < earlier.counts_.size(); ++k)
    if (earlier.counts_[k] > (k < counts_.size() ? counts_[k] : 0)) return false;
  return true;
}

machine& machine::now() {
  if (!the_machine()) the_machine() = std::make_unique<machine>(options_from(std::getenv("TROUPE_VGPU")));
  return *the_machine();
}

machine::machine(const options& o)
    : chosen(o),
      random_(o.seed),
      room_(address_room),
      used_(static_cast<std::size_t>(o.devices)),
      lost_(static_cast<std::size_t>(o.devices)) {
  file_ = memfd_create("vgpu", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(room_)) != 0) give_up("no memory file");
  const auto map = [&](int protection) {
    auto* p = mmap(nullptr, room_, protection, MAP_SHARED | MAP_NORESERVE, file_, 0);
    if (p == MAP_FAILED) give_up("no memory map");
    return static_cast<std::byte*>(p);
  };
  front_ = map(PROT_NONE);
  back_ = map(PROT_READ | PROT_WRITE);
}

machine::~machine() {
  munmap(front_, room_);
  munmap(back_, room_);
  close(file_);
  for (const auto& [at, bytes] : pinned) std::free(reinterpret_cast<void*>(at));
}

memory_block* machine::block_of(const void* p) {
  auto i = blocks_.upper_bound(number(p));
  if (i == blocks_.begin()) return nullptr;
  --i;
  return number(p) - i->first < i->second.bytes ? &i->second : nullptr;
}

std::size_t machine::bytes_from(const void* p) const {
  auto i = blocks_.upper_bound(number(p));
  if (i == blocks_.begin()) return 0;
  --i;
  const auto at = number(p) - i->first;
  return at < i->second.bytes ? i->second.bytes - at : 0;
}

bool machine::is_pinned(const void* p) const {
  auto i = pinned.upper_bound(number(p));
  if (i == pinned.begin()) return false;
  --i;
  return number(p) - i->first < i->second;
}

// Blocks end at a guard page, so that an access beyond the end is a fault.
cudaError_t machine::allocate(int device, std::size_t bytes, void** p) {
  ++counted.allocations;
  auto& used = used_[static_cast<std::size_t>(device)];
  const auto size = (std::max<std::size_t>(bytes, 1) + 255) / 256 * 256;
  const bool by_number = chosen.fail_allocation >= 0 && allocations_++ >= chosen.fail_allocation;
  if (by_number || used + size > chosen.memory) return cudaErrorMemoryAllocation;
  const auto span = (size + page - 1) / page * page + page;
  if (top_ + span > room_) give_up("no addresses left");
  *p = front_ + top_ + (span - page - size);
  // NaN; large blocks, such as workspaces, only at both ends.
  constexpr std::size_t most = std::size_t{1} << 20;
  std::memset(back_ + top_, 0xff, std::min(span - page, most));
  if (span - page > most) std::memset(back_ + top_ + span - page - most, 0xff, most);
  if (mprotect(back_ + top_ + span - page, page, PROT_NONE) != 0) give_up("no guard page");
  memory_block b;
  b.device = device, b.bytes = bytes, b.span = span;
  blocks_[number(*p)] = std::move(b);
  top_ += span;
  used += size;
  counted.bytes_in_use += bytes;
  return cudaSuccess;
}

cudaError_t machine::release(void* p) {
  const auto i = blocks_.find(number(p));
  if (i == blocks_.end()) return found("cudaFree of an address that is no block"), cudaErrorInvalidValue;
  const auto& b = i->second;
  used_[static_cast<std::size_t>(b.device)] -= (std::max<std::size_t>(b.bytes, 1) + 255) / 256 * 256;
  counted.bytes_in_use -= b.bytes;
  const auto begin = (static_cast<std::byte*>(p) - front_) / static_cast<std::ptrdiff_t>(page) * static_cast<std::ptrdiff_t>(page);
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, static_cast<off_t>(b.span - page));
  mprotect(back_ + begin, b.span - page, PROT_NONE);
  blocks_.erase(i);
  return cudaSuccess;
}

stream_state* machine::make_stream(int device) {
  auto& s = *streams_.emplace_back(std::make_unique<stream_state>());
  s.number = ++streams_made_;
  s.device = device;
  ++counted.streams;
  return &s;
}

stream_state* machine::stream_of(cudaStream_t s) {
  const auto i =
      std::find_if(streams_.begin(), streams_.end(), [&](const auto& p) { return reinterpret_cast<cudaStream_t>(p.get()) == s; });
  if (i != streams_.end()) return i->get();
  found(s ? "an operation on a stream that does not exist" : "an operation on the default stream, which waits for all others");
  return nullptr;
}

void machine::drop_stream(stream_state* s) {
  const auto i = std::find_if(streams_.begin(), streams_.end(), [&](const auto& p) { return p.get() == s; });
  streams_.erase(i);
  --counted.streams;
}

bool machine::check_sizes(const std::string& name, const std::vector<access>& uses) const {
  bool good = true;
  for (const auto& u : uses)
    if (bytes_from(u.at) < u.bytes) {
      found(name + " uses " + std::to_string(u.bytes) + " bytes of a block that has " + std::to_string(bytes_from(u.at)));
      good = false;
    }
  return good;
}

void machine::check_order(const std::string& name, const std::vector<access>& uses, const stream_state& s) {
  vector_clock own;
  own.at(s.number) = vector_clock(s.clock).at(s.number);
  for (const auto& u : uses) {
    auto* b = block_of(u.at);
    if (!b) {
      found(name + " is given an address that is in no block of device memory");
      continue;
    }
    if (!s.clock.covers(b->written))
      found(name + (u.writes ? " writes" : " reads") + " what " + b->writer + " writes, and nothing orders the two");
    if (u.writes && !s.clock.covers(b->read)) found(name + " writes what " + b->reader + " reads, and nothing orders the two");
    if (u.writes) {
      b->written = own, b->writer = name, b->read = {};
    } else {
      b->read.join(own), b->reader = name;
    }
  }
}

cudaError_t machine::append(stream_state& s, const std::string& name, const std::vector<access>& uses, std::function<void()> run) {
  if (operations_++ == chosen.lose_device) lose(s.device);
  if (lost(s.device)) return cudaErrorLaunchFailure;
  s.clock.join(host);
  s.clock.tick(s.number);
  check_order(name, uses, s);
  if (!check_sizes(name, uses)) run = nullptr;
  s.waiting.push_back({std::move(run), nullptr, 0});
  drift();
  return cudaSuccess;
}

void machine::append_plain(stream_state& s, operation o) {
  s.waiting.push_back(std::move(o));
  drift();
}

bool machine::run_one() {
  std::vector<stream_state*> ready;
  for (auto& s : streams_) {
    if (s->waiting.empty() || lost(s->device)) continue;
    const auto& first = s->waiting.front();
    if (!first.waits || first.waits->done >= first.wait_for) ready.push_back(s.get());
  }
  if (ready.empty()) return false;
  auto& s = *ready[chosen.shuffled ? random_() % ready.size() : 0];
  const auto o = std::move(s.waiting.front());
  s.waiting.pop_front();
  if (o.run) o.run();
  return true;
}

void machine::drift() {
  if (!chosen.shuffled) return;
  for (auto n = random_() % 4; n > 0 && random_() % 2 == 0; --n) run_one();
}

cudaError_t machine::stuck() {
  if (std::find(lost_.begin(), lost_.end(), true) != lost_.end()) return cudaErrorLaunchFailure;
  give_up("the host waits for an operation that cannot run");
}

constexpr const char* lost_once = "TROUPE_VGPU_LOST_ONCE";

void machine::lose(int device) {
  lost_[static_cast<std::size_t>(device)] = true;
  if (const char* file = std::getenv(lost_once)) std::ofstream(file) << device << "\n";
}

// In cudart.cpp: forgets the calling thread's error and device.
void begin_calls();

options options_from(const char* text) {
  options o;
  std::istringstream words(text ? text : "");
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    const auto key = word.substr(0, equals);
    const auto value = equals == std::string::npos ? 0 : std::strtoll(word.c_str() + equals + 1, nullptr, 10);
    if (key == "seed")
      o.seed = static_cast<std::uint64_t>(value);
    else if (key == "shuffled")
      o.shuffled = value != 0;
    else if (key == "devices")
      o.devices = static_cast<int>(value);
    else if (key == "reversed")
      o.reversed = value != 0;
    else if (key == "memory")
      o.memory = static_cast<std::size_t>(value);
    else if (key == "driver")
      o.driver = static_cast<int>(value);
    else if (key == "fail_allocation")
      o.fail_allocation = value;
    else if (key == "lose_device")
      o.lose_device = value;
    else
      give_up(("no option is called '" + key + "'").c_str());
  }
  if (const char* file = std::getenv(lost_once); file && std::filesystem::exists(file)) o.lose_device = -1;
  return o;
}

void reset(const options& o) {
  begin_calls();
  std::lock_guard guard(machine::lock);
  the_machine() = nullptr;
  the_machine() = std::make_unique<machine>(o);
}
void found(std::string what) {
  std::lock_guard guard(machine::lock);
  if (const char* file = std::getenv("TROUPE_VGPU_FINDINGS")) std::ofstream(file, std::ios::app) << what << "\n";
  auto& list = machine::now().findings;
  if (list.size() < 64) list.push_back(std::move(what));
}
std::vector<std::string> findings() {
  std::lock_guard guard(machine::lock);
  return machine::now().findings;
}
counts counted() {
  std::lock_guard guard(machine::lock);
  auto c = machine::now().counted;
  c.events = machine::now().events.size();
  return c;
}

void* device_memory(const void* p) {
  std::lock_guard guard(machine::lock);
  if (!machine::now().is_device(p)) give_up("a kernel is given a host address");
  return machine::now().back_of(p);
}

}  // namespace troupe::vgpu
