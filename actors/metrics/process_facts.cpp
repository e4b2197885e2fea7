#include "actors/metrics/process_facts.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace troupe {
namespace {

double boot_time() {
  std::ifstream in("/proc/stat");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("btime ")) return static_cast<double>(std::stoull(line.substr(6)));
  return 0;
}

// Field `n` of /proc/self/stat, counted from 3 after the program's name, which may have spaces.
std::uint64_t stat_field(const std::string& text, int n) {
  std::istringstream in(text.substr(std::min(text.rfind(')') + 1, text.size())));
  std::string word;
  for (int i = 3; i <= n; ++i) in >> word;
  return word.empty() ? 0 : std::stoull(word);
}

}  // namespace

process_facts facts_of_this_process() {
  process_facts f;
  rusage u{};
  if (::getrusage(RUSAGE_SELF, &u) == 0)
    f.cpu_seconds = static_cast<double>(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                    static_cast<double>(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
  rlimit l{};
  if (::getrlimit(RLIMIT_NOFILE, &l) == 0) f.max_files = l.rlim_cur;
  try {
    std::ifstream in("/proc/self/stat");
    std::string text;
    std::getline(in, text);
    f.threads = stat_field(text, 20);
    f.started = boot_time() + static_cast<double>(stat_field(text, 22)) / static_cast<double>(::sysconf(_SC_CLK_TCK));
    f.address_space = stat_field(text, 23);
    f.resident = stat_field(text, 24) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator("/proc/self/fd")) ++f.open_files;
  } catch (const std::exception&) {
    // The values that were read remain.
  }
  return f;
}

}  // namespace troupe
