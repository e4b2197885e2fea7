// A cgroup with a memory limit, for tests that run programs in it.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

// A memory cgroup, v1 or v2, that is removed with the object.
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
      // The kernel has created the file unless this is not a cgroup folder.
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

  const std::string& folder() const { return folder_; }  // empty if no cgroup can be created here
  // Prefix of a command line: a shell joins the group and execs the program.
  std::vector<std::string> step_into() const {
    return {"/bin/sh", "-c", "echo $$ > " + folder_ + "/cgroup.procs && exec \"$@\"", "sh"};
  }
  // The number of processes that the kernel has killed in the group for lack of memory.
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
