#include "runtime/cluster/controller/journal_storage.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace troupe::control {
namespace {

std::string system_error(const std::string& what) { return what + ": " + std::strerror(errno); }

}  // namespace

file_journal::~file_journal() {
  if (fd_ >= 0) ::close(fd_);
  if (step_fd_ >= 0) ::close(step_fd_);
}

expected<journal_storage::content> file_journal::read() {
  content c;
  std::error_code ec;
  std::filesystem::create_directories(file_.parent_path(), ec);
  if (std::filesystem::exists(file_, ec)) {
    const auto lines = read_file(file_.string());
    if (!lines) return unexpected(lines.error());
    c.lines.assign(static_cast<const char*>(lines->data.get()), lines->bytes);
  }
  std::ifstream in(file_.string() + ".step");
  std::getline(in, c.step);
  return c;
}

expected<void> file_journal::replace(const std::string& lines) {
  return write_file_atomically(file_.string(), {{lines.data(), lines.size()}});
}

expected<void> file_journal::open() {
  step_fd_ = ::open((file_.string() + ".step").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  fd_ = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0) return unexpected(error(system_error("cannot be opened")));
  size_ = ::lseek(fd_, 0, SEEK_END);
  ::fchmod(fd_, 0600);  // job texts are private to this user
  return {};
}

void file_journal::put_step(const std::string& line) {
  if (step_fd_ < 0) return;
  const auto n = static_cast<ssize_t>(line.size());
  if (::pwrite(step_fd_, line.data(), line.size(), 0) != n) ::close(std::exchange(step_fd_, -1));
}

expected<void> file_journal::append(const std::string& line) {
  if (fd_ < 0) return unexpected(error("the journal is not open"));
  const auto failed = [&](const char* what) {
    const auto why = system_error(what);
    if (::ftruncate(fd_, size_) != 0) ::close(std::exchange(fd_, -1));  // a partial line would hide the lines after it
    return unexpected(error(why));
  };
  std::size_t done = 0;
  while (done < line.size()) {
    if (before_) before_();
    const auto n = ::write(fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed("cannot be written");
    done += static_cast<std::size_t>(n);
  }
  if (before_) before_();
  if (::fdatasync(fd_) != 0) return failed("cannot be synced");
  size_ += static_cast<std::int64_t>(line.size());
  return {};
}

}  // namespace troupe::control
