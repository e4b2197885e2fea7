#include "runtime/memory/process_memory.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>
#include <vector>

namespace troupe {
namespace {

constexpr const char* mount = "/sys/fs/cgroup";

std::atomic<bool> memory_is_shared{false};

// The files of one version of cgroups, and the fields of its memory.stat that count the page cache.
struct cgroup_kind {
  const char *limit, *usage, *inactive, *active;
};
constexpr cgroup_kind v1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"};
constexpr cgroup_kind v2{"memory.max", "memory.current", "inactive_file", "active_file"};

std::vector<std::string_view> pieces_of(std::string_view text, char at) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const auto end = text.find(at);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

// The whole text as a number; nullopt for "max" and other words.
std::optional<std::uint64_t> number_in(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  std::uint64_t bytes = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (bad != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return bytes;
}

// The first number after `word` at the start of a line.
std::optional<std::uint64_t> number_behind(std::string_view text, std::string_view word) {
  for (auto line : pieces_of(text, '\n')) {
    if (line.substr(0, word.size()) != word) continue;
    line.remove_prefix(word.size());
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t' || line.front() == ':')) line.remove_prefix(1);
    return number_in(line.substr(0, line.find_first_of(" \t")));
  }
  return std::nullopt;
}

// Calls `see` for the folder of each cgroup that limits the memory of this process, from the
// innermost to the root of each hierarchy.
void each_cgroup(std::string_view cgroups, const std::function<void(const std::string& folder, const cgroup_kind& kind)>& see) {
  const auto walk = [&](const std::string& root, std::string path, const cgroup_kind& kind) {
    if (path.find("..") != std::string::npos) path.clear();  // outside of this container's part of the tree
    for (;;) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      see(root + path + "/", kind);
      if (path.empty()) return;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  };
  // "4:memory:/a/b" (v1: number, controllers, path) or "0::/a/b" (v2).
  for (const auto line : pieces_of(cgroups, '\n')) {
    const auto first = line.find(':'), second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const auto controllers = line.substr(first + 1, second - first - 1);
    const std::string path(line.substr(second + 1));
    if (controllers.empty() && line.substr(0, first) == "0")
      for (const auto* below : {"", "/unified"}) walk(std::string(mount) + below, path, v2);
    for (const auto c : pieces_of(controllers, ','))
      if (c == "memory") walk(std::string(mount) + "/memory", path, v1);
  }
}

// The kernel frees inactive page cache at once. Half of the active page cache counts as free,
// because some of it is needed.
std::uint64_t left_in(const std::string& folder, const cgroup_kind& kind, std::uint64_t limit, const text_of_file& read) {
  const auto used = number_in(read(folder + kind.usage).value_or(""));
  if (!used) return limit;
  const auto pages = read(folder + "memory.stat").value_or("");
  const auto files = number_behind(pages, kind.inactive).value_or(0) + number_behind(pages, kind.active).value_or(0) / 2;
  const auto taken = *used - std::min(*used, files);
  return limit - std::min(limit, taken);
}

std::optional<std::string> contents_of(const std::string& file) {
  std::ifstream in(file);
  if (!in) return std::nullopt;
  std::ostringstream all;
  all << in.rdbuf();
  return all.str();
}

}  // namespace

process_memory process_memory_by(const text_of_file& read) {
  process_memory least;
  const auto bound = [&](std::uint64_t total, std::uint64_t left, const std::string& of, bool alone = false) {
    if (least.total == 0 || left < least.left) least = {total, left, of, alone};
  };
  const auto machine = read("/proc/meminfo").value_or("");
  const auto has = number_behind(machine, "MemTotal:").value_or(0) * 1024;
  if (has > 0) bound(has, number_behind(machine, "MemAvailable:").value_or(has / 1024) * 1024, "this machine has");
  each_cgroup(read("/proc/self/cgroup").value_or(""), [&](const std::string& folder, const cgroup_kind& kind) {
    const auto limit = number_in(read(folder + kind.limit).value_or(""));
    // v1 writes a very large number for "no limit".
    if (limit && (has == 0 || *limit < has))
      bound(*limit, left_in(folder, kind, *limit, read), "its cgroup (" + folder + kind.limit + ") allows");
  });
  if (const auto space = number_behind(read("/proc/self/limits").value_or(""), "Max address space")) {
    const auto used = number_behind(read("/proc/self/status").value_or(""), "VmSize:").value_or(0) * 1024;
    bound(*space, *space - std::min(*space, used), "its limit of address space (ulimit -v) allows", true);
  }
  return least;
}

std::uint64_t processes_of_this_program(const std::string& proc) {
  namespace fs = std::filesystem;
  std::error_code ec;
  const auto program = fs::read_symlink(proc + "/self/exe", ec);
  const auto groups = contents_of(proc + "/self/cgroup");
  if (ec) return 1;
  std::uint64_t n = 0;
  for (fs::directory_iterator i(proc, ec), end; !ec && i != end; i.increment(ec)) {
    const auto name = i->path().filename().string();
    std::error_code other;  // a process of another user, or one that has ended
    if (name.find_first_not_of("0123456789") != std::string::npos || fs::read_symlink(i->path() / "exe", other) != program)
      continue;
    if (contents_of(i->path().string() + "/cgroup") == groups) ++n;
  }
  return std::max<std::uint64_t>(n, 1);
}

process_memory shared_alike(process_memory m, std::uint64_t processes) {
  if (!m.alone) m.left /= std::max<std::uint64_t>(processes, 1);
  return m;
}

void share_memory_alike() { memory_is_shared = true; }

process_memory memory_of_this_process() {
  const auto m = process_memory_by(contents_of);
  return memory_is_shared ? shared_alike(m, processes_of_this_program()) : m;
}

std::uint64_t memory_left() {
  const auto m = memory_of_this_process();
  return m.total > 0 ? m.left : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace troupe
