#include "runtime/replay/log_stream.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "runtime/base/write_whole.hpp"
#include "runtime/checksum/crc32c.hpp"
#include "runtime/messages/limits.hpp"

namespace troupe::replay {
namespace {

constexpr std::string_view stream_magic = "troupe messages, stream 2\n";
constexpr std::uint32_t kind_chunk = 0, kind_end = 1;
constexpr std::size_t head_bytes = 12, sum_bytes = 4;
// A chunk may end with a message from outside the job, which is stored whole.
constexpr std::uint32_t max_record = static_cast<std::uint32_t>(wire_max_message) + (std::uint32_t{64} << 20);

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
  record.reserve(head_bytes + bytes.size() + 2 * sum_bytes);
  const auto add = [&](std::uint32_t n) { record.append(little_endian(n).data(), 4); };
  add(index_of(r));
  add(kind);
  add(static_cast<std::uint32_t>(bytes.size()));
  add(crc32c(0, record.data(), head_bytes));
  record += bytes;
  add(crc32c(0, bytes.data(), bytes.size()));
  return record;
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
  if (fd_ < 0 || write_whole(fd_, begin) < begin.size())
    return unexpected(error("cannot write " + file + ": " + std::strerror(errno)));
  return {};
}

// Each record is one write(2): the kernel has it even if this process is killed.
void log_stream::put(role_id r, std::uint32_t kind, std::string_view bytes) {
  const bool fits = bytes.size() <= max_record;
  const auto record = fits ? record_of(r, kind, bytes) : std::string();
  std::string failure;
  {
    std::lock_guard guard(lock_);
    if (fd_ < 0 || (fits && write_whole(fd_, record) == record.size())) return;
    const std::string why = fits ? std::strerror(errno) : "a record of " + std::to_string(bytes.size()) + " bytes is too long";
    failure = "cannot write " + name_ + ": " + why + "; later messages are not recorded";
    ::close(std::exchange(fd_, -1));
  }
  on_error_(failure);
}

namespace {

struct stream_record {
  std::uint32_t role = 0, kind = 0;
  std::string_view bytes;
};

// Takes the first record of `left`. Nullopt: the file ends before the end of the record, or `left`
// is empty.
expected<std::optional<stream_record>> take_record(std::string_view& left) {
  const std::optional<stream_record> cut;
  if (left.size() < head_bytes + sum_bytes) return cut;
  const auto role = number_at(left), kind = number_at(left.substr(4)), length = number_at(left.substr(8));
  if (number_at(left.substr(head_bytes)) != crc32c(0, left.data(), head_bytes))
    return unexpected(error("the checksum of its head is wrong"));
  if (kind > kind_end || length > max_record) return unexpected(error("its head is not one that Troupe writes"));
  const auto rest = left.substr(head_bytes + sum_bytes);
  if (rest.size() < std::size_t{length} + sum_bytes) return cut;
  if (number_at(rest.substr(length)) != crc32c(0, rest.data(), length)) return unexpected(error("its checksum is wrong"));
  left = rest.substr(length + sum_bytes);
  return std::optional(stream_record{role, kind, rest.substr(0, length)});
}

}  // namespace

expected<std::vector<role_part>> read_stream(std::string_view bytes) {
  if (!bytes.starts_with(stream_magic))
    return unexpected(error("it is not a recording of messages, or of another version of Troupe, or its first bytes are damaged"));
  std::map<std::uint32_t, role_part> roles;
  for (auto left = bytes.substr(stream_magic.size());;) {
    const auto place = "the record at byte " + std::to_string(bytes.size() - left.size()) + " is damaged";
    const auto taken = take_record(left);
    if (!taken) return unexpected(taken.error().in(place));
    if (!*taken) break;
    const auto& r = **taken;
    auto& part = roles.try_emplace(r.role, role_part{role_id{r.role}, 0, 0, {}, {}, true}).first->second;
    if (r.kind == kind_end) {
      part.cut = false;
      part.failure = std::string(r.bytes);
    } else if (!r.bytes.empty()) {
      part.chunks.emplace_back(r.bytes);
      chunk_reader deliveries(r.bytes);
      while (deliveries.next()) ++part.handled;
      if (deliveries.damaged()) return unexpected(error(place + ": it has no deliveries that Troupe writes"));
    }
  }
  std::vector<role_part> all;
  for (auto& [id, part] : roles) all.push_back(std::move(part));
  return all;
}

}  // namespace troupe::replay
