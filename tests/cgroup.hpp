// A cgroup with a limit of memory, for tests that run programs in it.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

// Of whichever kind there is here, v1 or v2; gone with the test.
class small_group {
 public:
  explicit small_group(std::int64_t bytes) {
    namespace fs = std::filesystem;
    const auto name = "troupe-test-" + std::to_string(::getpid());
    for (const auto& [root, limit] :
         {std::pair{"/sys/fs/cgroup/memory/", "/memory.limit_in_bytes"}, std::pair{"/sys/fs/cgroup/", "/memory.max"}}) {
      std::error_code ec;
      const auto folder = root + name;
      if (!fs::create_directory(folder, ec)) continue;
      // The kernel has made the file, or this is no such folder.
      if (fs::exists(folder + limit, ec) && (std::ofstream(folder + limit) << bytes << std::flush)) {
        folder_ = folder;
        return;
      }
      fs::remove(folder, ec);
    }
  }
  ~small_group() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove(folder_, ignored);
  }
  small_group(const small_group&) = delete;
  small_group& operator=(const small_group&) = delete;

  const std::string& folder() const { return folder_; }  // empty: no cgroup can be made here
  // Before a program's own words: a shell steps into the group and becomes the program.
  std::vector<std::string> step_into() const {
    return {"/bin/sh", "-c", "echo $$ > " + folder_ + "/cgroup.procs && exec \"$@\"", "sh"};
  }
  // How many processes the kernel has killed here, because there was no memory left.
  std::uint64_t kills() const {
    for (const char* file : {"/memory.oom_control", "/memory.events"}) {
      std::ifstream in(folder_ + file);
      std::uint64_t n = 0;
      for (std::string word; in >> word;)
        if (word == "oom_kill" && in >> n) return n;
    }
    return 0;
  }

 private:
  std::string folder_;
};

}  // namespace troupe
