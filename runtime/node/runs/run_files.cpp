#include "runtime/node/runs/run_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <thread>

#include "runtime/base/number_text.hpp"
#include "runtime/base/write_whole.hpp"
#include "runtime/messages/event.hpp"
#include "runtime/node/runs/run_info.hpp"
#include "runtime/record/checkpoint_home.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

record_error system_error_of(const fs::path& file, const char* what) {
  return {file.string(), {}, std::string(what) + ": " + std::strerror(errno)};
}

// A lock file is for this user alone, whatever the umask is. One of an older version loses its
// other rights; that of another user stays as it is.
int open_lock(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd >= 0) static_cast<void>(::fchmod(fd, 0600));
  return fd;
}

// False: there was such a folder. The umask may only take rights away.
expected<bool, record_error> make_private_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0700) == 0) {
    if (::chmod(path.c_str(), 0700) == 0) return true;
  } else if (errno == EEXIST) {
    return false;
  }
  return unexpected(system_error_of(path, "cannot create"));
}

}  // namespace

folder_lock::~folder_lock() {
  if (fd_ >= 0) ::close(fd_);
}

expected<void, record_error> make_runs_folder(const fs::path& given) {
  const auto runs = given.has_filename() ? given : given.parent_path();  // without a slash at the end
  std::error_code ec;
  if (fs::is_directory(runs, ec)) return {};
  if (runs.has_parent_path()) fs::create_directories(runs.parent_path(), ec);
  const auto made = make_private_folder(runs);
  if (!made) return unexpected(made.error());
  if (!*made && !fs::is_directory(runs, ec))
    return unexpected(record_error{runs.string(), {}, "cannot create: it is not a folder"});
  return {};
}

expected<locked_folder, record_error> new_numbered_folder(const fs::path& given, const std::string& name, std::uint32_t& number,
                                                          const lock_patience& patience) {
  const auto runs = fs::absolute(given).lexically_normal();
  if (auto made = make_runs_folder(runs); !made) return unexpected(std::move(made).error());
  const auto turns = runs / "lock";
  const int fd = open_lock(turns);
  if (fd < 0) return unexpected(system_error_of(runs, "cannot create a file in it"));
  const folder_lock turn(fd);  // one process at a time takes a number
  for (lock_wait wait({turns}, patience.notice); ::flock(fd, LOCK_EX | LOCK_NB) != 0;) {
    if (errno != EWOULDBLOCK && errno != EINTR) return unexpected(system_error_of(turns, "cannot lock"));
    wait.pause();
  }
  const bool next = number == 0;
  if (next) number = 1;
  for (const auto& f : next ? run_folders(runs) : std::vector<fs::path>()) {
    std::uint32_t n = 0;
    const auto word = f.filename().string();
    if (read_number(word.substr(0, word.find('-')), n)) number = std::max(number, n + 1);
  }
  const auto path = runs / (std::to_string(number) + "-" + (name.empty() ? "job" : path_word(name)));
  const auto made = make_private_folder(path);
  if (!made) return unexpected(made.error());
  std::error_code ec;
  if (!*made && (next || fs::exists(run_info_file(path), ec)))
    return unexpected(record_error{path.string(), {}, "cannot create: it exists"});
  auto lock = lock_folder(path);
  if (!lock) return unexpected(std::move(lock).error());
  return locked_folder{path, std::move(*lock)};
}

expected<folder_lock, record_error> lock_folder(const fs::path& folder) {
  const int fd = open_lock(run_lock_file(folder));
  if (fd < 0) return unexpected(system_error_of(run_lock_file(folder), "cannot create"));
  folder_lock held(fd);
  for (int tries = 0; ::flock(fd, LOCK_EX | LOCK_NB) != 0; ++tries) {  // a reader holds it for a moment (run_is_locked)
    if (tries == 50) {
      const int pid = process_with_lock({run_lock_file(folder)});
      return unexpected(record_error{
          folder.string(), {}, "a running process writes this run" + (pid > 0 ? ": process " + std::to_string(pid) : "")});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return held;
}

row_file::~row_file() {
  if (fd_ >= 0) ::close(fd_);
}

expected<void, record_error> row_file::open(const fs::path& file) {
  if (fd_ >= 0) ::close(fd_);
  file_ = file;
  fd_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd_ < 0) return unexpected(system_error_of(file, "cannot write"));
  size_ = ::lseek(fd_, 0, SEEK_END);
  return {};
}

void row_file::add(const std::string& line) {
  lines_ += line;
  lines_ += '\n';
  ++rows_;
}

expected<void, record_error> row_file::flush() {
  auto done = write_whole(fd_, lines_);
  expected<void, record_error> written;
  if (done < lines_.size()) written = unexpected(system_error_of(file_, "cannot write"));
  if (!written) done = ::ftruncate(fd_, size_) == 0 ? 0 : done;
  size_ += static_cast<std::int64_t>(done);
  lines_.clear();
  rows_ = 0;
  return written;
}

std::string metrics_row(std::uint64_t step, double epoch, double time, const std::array<double, 5>& values) {
  std::string row = std::to_string(step) + ',' + general_text(epoch, 6) + ',' + fixed_text(time, 3);
  for (const auto v : values) {
    row += ',';
    if (std::isfinite(v)) row += general_text(v, 9);
  }
  return row;
}

expected<std::uint64_t, record_error> keep_metrics_until(const fs::path& file, std::uint64_t step) {
  auto read = read_file(file.string());
  if (!read) {
    std::error_code ec;
    if (!fs::exists(file, ec)) return step;
    return unexpected(record_error{file.string(), {}, read.error().text});
  }
  const auto& bytes = *read;
  const std::string text(static_cast<const char*>(bytes.data.get()), bytes.bytes);
  std::string kept;
  std::uint64_t last = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    if (end == std::string::npos) break;
    const auto line = text.substr(at, end - at);
    std::uint64_t of = 0;
    const bool row = read_number(line.substr(0, line.find(',')), of);
    if (!row || of <= step) kept += line + "\n";
    if (row && of <= step) last = std::max(last, of);
    at = end + 1;
  }
  if (kept.size() != text.size())
    if (auto ok = write_text(file, kept); !ok) return unexpected(std::move(ok).error());
  return last;
}

expected<void, record_error> keep_events_until(const fs::path& file, std::uint64_t step) {
  auto read = read_file(file.string());
  if (!read) {
    std::error_code ec;
    if (!fs::exists(file, ec)) return {};
    return unexpected(record_error{file.string(), {}, read.error().text});
  }
  const auto name = [](job_event_kind what) { return std::string(name_of(event_effect{0, std::move(what)}).name); };
  const std::set<std::string> repeated = {name(eval_event{}), name(staleness_event{}), name(checkpoint_event{}),
                                          name(done_event{})};
  const std::string text(static_cast<const char*>(read->data.get()), read->bytes);
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = text.find('\n', at);
    if (end == std::string::npos) break;
    const auto line = std::string_view(text).substr(at, end + 1 - at);
    const auto o = nlohmann::json::parse(line, nullptr, false);
    const bool later =
        o.is_object() && o.contains("step") && o["step"].is_number_unsigned() && o["step"].get<std::uint64_t>() > step;
    if (!later || !o.contains("event") || !o["event"].is_string() || !repeated.contains(o["event"].get<std::string>()))
      kept += line;
    at = end + 1;
  }
  if (kept.size() == text.size()) return {};
  return write_text(file, kept);
}

expected<void, record_error> write_text(const fs::path& file, const std::string& text) {
  auto written = write_file_atomically(file.string(), {{text.data(), text.size()}});
  if (written) return {};
  return unexpected(record_error{file.string(), {}, std::move(written).error().text});
}

std::string utc_text(std::chrono::system_clock::time_point at) {
  const auto seconds = std::chrono::system_clock::to_time_t(at);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace troupe
