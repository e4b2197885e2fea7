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

}  // namespace

log_stream::~log_stream() {
  if (file_) std::fclose(file_);
}

expected<void> log_stream::open(const std::string& file) {
  std::lock_guard guard(lock_);
  name_ = file;
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  file_ = fd < 0 ? nullptr : ::fdopen(fd, "wb");
  if (!file_ || std::fwrite(stream_magic.data(), 1, stream_magic.size(), file_) != stream_magic.size() || std::fflush(file_) != 0) {
    const int why = errno;
    if (!file_ && fd >= 0) ::close(fd);
    return unexpected(error("cannot write " + file + ": " + std::strerror(why)));
  }
  return {};
}

void log_stream::put(role_id r, std::uint32_t kind, std::string_view bytes) {
  std::array<char, head_bytes> head{};
  const std::uint32_t numbers[] = {index_of(r), kind, static_cast<std::uint32_t>(bytes.size())};
  for (std::size_t i = 0; i < 3; ++i) std::memcpy(&head[4 * i], little_endian(numbers[i]).data(), 4);
  const auto sum = little_endian(crc32c(crc32c(0, head.data(), head.size()), bytes.data(), bytes.size()));
  std::string trouble;
  {
    std::lock_guard guard(lock_);
    const auto wrote = [&](const char* data, std::size_t n) { return std::fwrite(data, 1, n, file_) == n; };
    if (!file_ || (wrote(head.data(), head.size()) && wrote(bytes.data(), bytes.size()) && wrote(sum.data(), sum.size()))) return;
    trouble = "cannot write " + name_ + ": " + std::strerror(errno) + "; later messages are not recorded";
    std::fclose(std::exchange(file_, nullptr));
  }
  on_error_(trouble);
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
    } else if (kind == kind_chunk) {
      part.chunks.emplace_back(content);
      for (chunk_reader r(content); r.next();) ++part.handled;
    }
  }
  std::vector<role_part> all;
  for (auto& [id, part] : roles) all.push_back(std::move(part));
  return all;
}

}  // namespace troupe::replay
