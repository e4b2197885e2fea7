#include "runtime/node/machine_memory.hpp"

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "runtime/graph/number_text.hpp"

namespace troupe {
namespace {

constexpr const char* mount = "/sys/fs/cgroup";

std::vector<std::string_view> cut_at(std::string_view text, char at) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const auto end = text.find(at);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

// "max" and what is no number: no limit.
std::optional<double> limit_in(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::uint64_t bytes = 0;
  if (!read_number(text, bytes)) return std::nullopt;
  return static_cast<double>(bytes);
}

std::optional<std::string> file_text(const std::string& file) {
  std::ifstream in(file);
  if (!in) return std::nullopt;
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

}  // namespace

std::optional<cgroup_limit> memory_limit_of(std::string_view cgroups,
                                            const std::function<std::optional<std::string>(const std::string& file)>& read) {
  std::optional<cgroup_limit> least;
  const auto walk = [&](const std::string& root, std::string path, const char* name) {
    if (path.find("..") != std::string::npos) path.clear();  // outside of this container's part of the tree
    for (;;) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      const auto file = root + path + "/" + name;
      if (const auto text = read(file))
        if (const auto bytes = limit_in(*text); bytes && (!least || *bytes < least->bytes)) least = {*bytes, file};
      if (path.empty()) return;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  };
  // "4:memory:/a/b" (v1: number, controllers, path) or "0::/a/b" (v2).
  for (const auto line : cut_at(cgroups, '\n')) {
    const auto first = line.find(':'), second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (controllers.empty() && line.substr(0, first) == "0")
      for (const auto* below : {"", "/unified"}) walk(std::string(mount) + below, path, "memory.max");
    for (const auto c : cut_at(controllers, ','))
      if (c == "memory") walk(std::string(mount) + "/memory", path, "memory.limit_in_bytes");
  }
  return least;
}

memory_budget machine_memory() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  const auto has = pages > 0 && size > 0 ? static_cast<double>(pages) * static_cast<double>(size) : 0;
  const auto limit = memory_limit_of(file_text("/proc/self/cgroup").value_or(""), file_text);
  if (limit && (has <= 0 || limit->bytes < has)) return {limit->bytes, "its cgroup (" + limit->file + ") allows"};
  return {has, "this machine has"};
}

}  // namespace troupe
