#include "actors/state_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <utility>

#include "runtime/base/printable.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {
namespace fs = std::filesystem;

// Two daemons with one journal would each overwrite the other's entries, and a stopped one that
// wakes would continue jobs of the other. The system releases the lock when the process ends, in
// any way; the file stays.
expected<state_folder, coded_error> state_folder::open(const fs::path& where) {
  ::umask(077);
  std::error_code ec;
  fs::create_directories(where, ec);
  // Without a folder there is no lock, no journal and no incarnation: a second daemon could run the
  // same jobs.
  if (std::error_code odd; !fs::is_directory(where, odd))
    return unexpected(coded_error{"state_unusable", "the state folder " + where.string() + " cannot be used: " +
                                                        (ec ? ec.message() : std::string("this is not a folder")) +
                                                        "; name a folder that this daemon may write to with --state"});
  fs::permissions(where, fs::perms::others_all, fs::perm_options::remove, ec);
  if (ec)
    std::fprintf(stderr, "trouped: %s: cannot restrict its permissions: %s\n", printable(where.string()).c_str(),
                 ec.message().c_str());
  const auto file = (where / "lock").string();
  const int lock = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  // Without a lock file (full or read-only disk) the daemon still runs.
  if (lock < 0) {
    std::fprintf(stderr, "trouped: %s: %s\n", printable(file).c_str(), std::strerror(errno));
    return state_folder(where, -1);
  }
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    char pid[24] = {};
    [[maybe_unused]] const auto n = ::pread(lock, pid, sizeof pid - 1, 0);
    ::close(lock);
    if (why == EWOULDBLOCK)
      return unexpected(
          coded_error{"state_in_use", "the state folder " + where.string() + " is in use by another daemon, process " +
                                          std::string(pid, std::strcspn(pid, "\n")) + "; one daemon at a time may use it"});
    std::fprintf(stderr, "trouped: %s cannot be locked: %s\n", printable(file).c_str(), std::strerror(why));
    return state_folder(where, -1);
  }
  const auto mine = std::to_string(::getpid()) + "\n";
  if (::ftruncate(lock, 0) != 0 || ::pwrite(lock, mine.data(), mine.size(), 0) < 0)
    std::fprintf(stderr, "trouped: %s: %s\n", printable(file).c_str(), std::strerror(errno));
  return state_folder(where, lock);
}

state_folder::state_folder(state_folder&& from) noexcept : path_(std::move(from.path_)), lock_(std::exchange(from.lock_, -1)) {}

state_folder::~state_folder() {
  if (lock_ >= 0) ::close(lock_);
}

std::uint64_t state_folder::next_incarnation() const {
  const auto now = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
  const auto file = (path_ / "incarnation").string();
  std::uint64_t last = 0;
  // An incarnation from a clock far ahead would exclude this node: peers refuse one that is a day
  // ahead (tcp_options), and clocks may differ by an hour.
  constexpr std::uint64_t believed_ahead = 23 * 60 * 60 * 1000;
  if (std::ifstream in(file); !(in >> last) || last > now + believed_ahead) last = 0;
  const auto mine = std::max(now, last + 1);
  const auto text = std::to_string(mine) + "\n";
  if (const auto fine = write_file_atomically(file, {{text.data(), text.size()}}); !fine)
    std::fprintf(stderr, "trouped: %s: %s\n", printable(file).c_str(), printable(fine.error().text).c_str());
  return mine;
}

}  // namespace troupe
