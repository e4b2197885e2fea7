#include "apps/troupe_stdin.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "runtime/data/file_bytes.hpp"

namespace troupe {
namespace {

bool written(int to, const char* from, std::size_t n) {
  while (n > 0) {
    const auto k = ::write(to, from, n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    from += k, n -= static_cast<std::size_t>(k);
  }
  return true;
}

}  // namespace

stdin_file::~stdin_file() {
  if (fd_ >= 0) ::close(fd_);
}

expected<void> stdin_file::read(int from, std::uint64_t most) {
  fd_ = ::memfd_create("troupe-stdin", MFD_CLOEXEC);
  if (fd_ < 0) return unexpected(error(std::string("no memory for the input: ") + std::strerror(errno)));
  std::vector<char> part(std::size_t{1} << 20);
  std::uint64_t all = 0;
  for (;;) {
    const auto n = ::read(from, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return unexpected(error(std::string("cannot be read: ") + std::strerror(errno)));
    if (n == 0) break;
    all += static_cast<std::uint64_t>(n);
    if (all > most)
      return unexpected(error("has more than " + std::to_string(most >> 20) + " MiB: write it to a file, which is read in pieces"));
    if (!written(fd_, part.data(), static_cast<std::size_t>(n)))
      return unexpected(error(std::string("no memory for the input: ") + std::strerror(errno)));
  }
  if (all == 0) return unexpected(error("is empty"));
  path_ = "/proc/self/fd/" + std::to_string(fd_);
  return {};
}

std::string stdin_file::named(std::string text) const {
  for (std::size_t at = 0; !path_.empty() && (at = text.find(path_, at)) != std::string::npos;)
    text.replace(at, path_.size(), "stdin");
  return text;
}

expected<input_kind> kind_of_stdin(const std::string& path) {
  const auto kind = input_kind_of(path);
  if (!kind || *kind != input_kind::unknown) return kind;
  const auto file = open_bytes(path);
  if (!file) return unexpected(file.error());
  std::vector<std::uint8_t> begin(static_cast<std::size_t>(std::min<std::uint64_t>((*file)->size(), 4096)));
  if (const auto fine = (*file)->read(0, begin.data(), begin.size()); !fine) return unexpected(fine.error());
  const auto control = [](std::uint8_t b) { return b < 0x20 && b != '\t' && b != '\n' && b != '\r'; };
  return std::none_of(begin.begin(), begin.end(), control) ? input_kind::csv : input_kind::unknown;
}

}  // namespace troupe
