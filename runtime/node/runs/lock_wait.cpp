#include "runtime/node/runs/lock_wait.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

namespace troupe {
namespace {

using namespace std::chrono_literals;
constexpr auto told_after = 1s;
constexpr auto between_tries = 10ms;

// "08:02:1234", as /proc/locks names a file. Empty if there is no such file.
std::string name_in_locks(const std::filesystem::path& file) {
  struct stat st {};
  if (::stat(file.c_str(), &st) != 0) return {};
  char text[64];
  std::snprintf(text, sizeof text, "%02x:%02x:%llu", major(st.st_dev), minor(st.st_dev),
                static_cast<unsigned long long>(st.st_ino));
  return text;
}

}  // namespace

// A line of /proc/locks: "1: FLOCK  ADVISORY  WRITE 711 08:02:1234 0 EOF". Lines of processes that
// wait have "->" after the number.
int process_with_lock(const std::vector<std::filesystem::path>& files) {
  std::vector<std::string> names;
  for (const auto& f : files)
    if (auto name = name_in_locks(f); !name.empty()) names.push_back(std::move(name));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, how, access, file;
    int pid = 0;
    if (words >> number >> kind >> how >> access >> pid >> file && access == "WRITE" && pid > 0 &&
        std::find(names.begin(), names.end(), file) != names.end())
      return pid;
  }
  return 0;
}

void lock_wait::begin() {
  begun_ = std::chrono::steady_clock::now();
  told_ = false;
}

void lock_wait::pause() {
  if (!told_ && waited() >= told_after) {
    told_ = true;
    if (notice_) notice_(files_.front().string() + ": waiting for " + holder() + ", which has locked it");
  }
  std::this_thread::sleep_for(between_tries);
}

std::chrono::milliseconds lock_wait::waited() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun_);
}

record_error lock_wait::given_up() const {
  return {files_.front().string(), {}, holder() + " keeps it locked; end that process, or try again later"};
}

std::string lock_wait::holder() const {
  const int pid = process_with_lock(files_);
  return pid > 0 ? "process " + std::to_string(pid) : "another process";
}

}  // namespace troupe
