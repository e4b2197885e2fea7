#include "runtime/replay/log_stream.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "runtime/checksum/crc32c.hpp"

namespace troupe::replay {
namespace {

constexpr std::string_view stream_magic = "troupe messages, stream 1\n";
constexpr std::uint32_t kind_chunk = 0, kind_end = 1;
constexpr std::size_t head_bytes = 12;
// A chunk may end with a message from outside the job, which is stored whole.
constexpr std::uint32_t max_record = std::uint32_t{64} << 20;

std::array<char, 4> little_endian(std::uint32_t n) {
  std::array<char, 4> b{};
  for (std::size_t i = 0; i < 4; ++i) b[i] = static_cast<char>(n >> (8 * i));
  return b;
}

std::uint32_t number_at(std::string_view b) {
  std::uint32_t n = 0;
  for (std::size_t i = 0; i < 4; ++i) n |= std::uint32_t{static_cast<std::uint8_t>(b[i])} << (8 * i);
  return n;
}

std::string record_of(role_id r, std::uint32_t kind, std::string_view bytes) {
  std::string record;
  record.reserve(head_bytes + bytes.size() + 4);
  const auto add = [&](std::uint32_t n) { record.append(little_endian(n).data(), 4); };
  add(index_of(r));
  add(kind);
  add(static_cast<std::uint32_t>(bytes.size()));
  record += bytes;
  add(crc32c(0, record.data(), record.size()));
  return record;
}

// Returns false after an error, which is in errno.
bool write_whole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

log_stream::~log_stream() {
  if (fd_ >= 0) ::close(fd_);
}

expected<void> log_stream::open(const std::string& file, const std::vector<role_id>& roles) {
  std::string begin(stream_magic);
  for (const auto r : roles) begin += record_of(r, kind_chunk, {});
  std::lock_guard guard(lock_);
  name_ = file;
  fd_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd_ < 0 || !write_whole(fd_, begin)) return unexpected(error("cannot write " + file + ": " + std::strerror(errno)));
  return {};
}

// Each record is one write(2): the kernel has it even if this process is killed.
void log_stream::put(role_id r, std::uint32_t kind, std::string_view bytes) {
  const auto record = record_of(r, kind, bytes);
  std::string failure;
  {
    std::lock_guard guard(lock_);
    if (fd_ < 0 || write_whole(fd_, record)) return;
    failure = "cannot write " + name_ + ": " + std::strerror(errno) + "; later messages are not recorded";
    ::close(std::exchange(fd_, -1));
  }
  on_error_(failure);
}

expected<std::vector<role_part>> read_stream(std::string_view bytes) {
  if (!bytes.starts_with(stream_magic))
    return unexpected(error("it is not a recording of messages, or of another version of Troupe"));
  bytes.remove_prefix(stream_magic.size());
  std::map<std::uint32_t, role_part> roles;
  while (bytes.size() >= head_bytes + 4) {
    const auto role = number_at(bytes), kind = number_at(bytes.substr(4)), length = number_at(bytes.substr(8));
    if (length > max_record || length > bytes.size() - head_bytes - 4) break;
    if (number_at(bytes.substr(head_bytes + length)) != crc32c(0, bytes.data(), head_bytes + length)) break;
    const auto content = bytes.substr(head_bytes, length);
    bytes.remove_prefix(head_bytes + length + 4);
    auto& part = roles.try_emplace(role, role_part{role_id{role}, 0, 0, {}, {}, true}).first->second;
    if (kind == kind_end) {
      part.cut = false;
      part.failure = std::string(content);
    } else if (kind == kind_chunk && length > 0) {
      part.chunks.emplace_back(content);
      for (chunk_reader r(content); r.next();) ++part.handled;
    }
  }
  std::vector<role_part> all;
  for (auto& [id, part] : roles) all.push_back(std::move(part));
  return all;
}

}  // namespace troupe::replay
