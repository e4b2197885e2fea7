#include "runtime/node/config/plugin.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>

#include "runtime/base/write_whole.hpp"
#include "runtime/job/plugin_abi.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe {
namespace {

struct closer {
  void operator()(void* library) const { dlclose(library); }
};
using library_ptr = std::unique_ptr<void, closer>;

coded_error failure(const char* code, const std::string& path, const std::string& why) {
  return {code, "plugin " + path + ": " + why};
}

std::string last_dl_error() {
  const char* text = dlerror();
  return text ? text : "unknown error";
}

constexpr std::string_view digest_mark = "#sha256=";
constexpr std::uintmax_t max_bytes = std::uintmax_t{1} << 30;

std::optional<std::string> bytes_of(const std::filesystem::path& file) {
  std::error_code ec;
  if (std::filesystem::file_size(file, ec) > max_bytes || ec) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) return std::nullopt;
  return bytes;
}

// Copies the bytes into sealed memory and returns a file name by which it can be loaded. The file
// descriptor stays open: the dynamic loader identifies the library by it.
std::string name_in_memory(const std::string& bytes, std::string& why) {
  const int fd = ::memfd_create("troupe-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd >= 0 && write_whole(fd, bytes) == bytes.size() &&
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
    return "/proc/self/fd/" + std::to_string(fd);
  why = std::strerror(errno);
  if (fd >= 0) ::close(fd);
  return {};
}

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

}  // namespace

plugin_name split_plugin(const std::string& name) {
  const auto at = name.rfind(digest_mark);
  if (at == std::string::npos) return {name, {}};
  return {name.substr(0, at), name.substr(at + digest_mark.size())};
}

std::string plugin_sha256(const std::string& path) {
  const auto bytes = bytes_of(path);
  return bytes ? sha256_hex(bytes->data(), bytes->size()) : std::string();
}

expected<void, coded_error> load_plugin(const std::string& name, tables& into) {
  const auto [path, sha256] = split_plugin(name);
  std::error_code ec;
  auto file = std::filesystem::absolute(path, ec);  // with a slash dlopen() does not search the library path
  if (ec || !std::filesystem::is_regular_file(file, ec))
    return unexpected(failure("plugin_missing", path, "there is no such file"));
  if (!sha256.empty()) {
    const auto bytes = bytes_of(file);
    if (!bytes) return unexpected(failure("plugin_unloadable", path, "it cannot be read"));
    if (const auto found = sha256_hex(bytes->data(), bytes->size()); found != sha256)
      return unexpected(failure("plugin_changed", path, "its sha256 is " + found + ", but the allowed one is " + sha256));
    std::string why;
    file = name_in_memory(*bytes, why);
    if (file.empty()) return unexpected(failure("plugin_unloadable", path, "cannot create memory to load it from: " + why));
  }
  // NOW: a missing symbol is an error here instead of a crash during training.
  library_ptr library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library) return unexpected(failure("plugin_unloadable", path, last_dl_error()));
  const auto version = symbol<decltype(&troupe_abi_version)>(library.get(), "troupe_abi_version");
  const auto enter = symbol<decltype(&register_plugin)>(library.get(), "register_plugin");
  if (!version || !enter)
    return unexpected(
        failure("plugin_not_one", path, std::string("it does not export ") + (version ? "register_plugin" : "troupe_abi_version")));
  try {
    if (const auto theirs = version(); theirs != abi_version)
      return unexpected(failure("plugin_abi", path,
                                "it was built for ABI " + std::to_string(theirs) + " and this is ABI " +
                                    std::to_string(abi_version) + "; rebuild it against this version of Troupe"));
    enter(into);
  } catch (const std::exception& e) {
    (void)library.release();  // the tables may already refer to it
    return unexpected(failure("plugin_failed", path, e.what()));
  } catch (...) {
    (void)library.release();
    return unexpected(failure("plugin_failed", path, "register_plugin threw an object that is not a std::exception"));
  }
  (void)library.release();  // it stays loaded
  return {};
}

expected<void, coded_error> load_plugins(const std::vector<std::string>& paths, tables& into) {
  std::vector<std::string> seen;
  for (const auto& p : paths) {
    std::error_code ec;
    auto real = std::filesystem::canonical(split_plugin(p).path, ec).string();
    if (ec) real = p;
    if (std::find(seen.begin(), seen.end(), real) != seen.end()) continue;
    seen.push_back(real);
    if (auto r = load_plugin(p, into); !r) return r;
  }
  return {};
}

}  // namespace troupe
