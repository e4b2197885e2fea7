#include "runtime/node/config/plugin.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "runtime/job/plugin_abi.hpp"

namespace troupe {
namespace {

struct closer {
  void operator()(void* library) const { dlclose(library); }
};
using library_ptr = std::unique_ptr<void, closer>;

net::error failure(const char* code, const std::string& path, const std::string& why) {
  return {code, "plugin " + path + ": " + why};
}

std::string last_dl_error() {
  const char* text = dlerror();
  return text ? text : "unknown error";
}

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

}  // namespace

net::expected<void> load_plugin(const std::string& path, tables& into) {
  std::error_code ec;
  const auto file = std::filesystem::absolute(path, ec);  // with a slash dlopen() does not search the library path
  if (ec || !std::filesystem::is_regular_file(file, ec)) return failure("plugin_missing", path, "there is no such file");
  // NOW: a symbol that is missing is a message here, and not a crash in the middle of training.
  library_ptr library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (!library) return failure("plugin_unloadable", path, last_dl_error());
  const auto version = symbol<decltype(&troupe_abi_version)>(library.get(), "troupe_abi_version");
  const auto enter = symbol<decltype(&register_plugin)>(library.get(), "register_plugin");
  if (!version || !enter)
    return failure("plugin_not_one", path,
                   std::string("it does not export ") + (version ? "register_plugin" : "troupe_abi_version"));
  try {
    if (const auto theirs = version(); theirs != abi_version)
      return failure("plugin_abi", path,
                     "it was built for ABI " + std::to_string(theirs) + " and this is ABI " + std::to_string(abi_version) +
                         "; build it again against this Troupe");
    enter(into);
  } catch (const std::exception& e) {
    (void)library.release();  // the tables may hold a part of it already
    return failure("plugin_failed", path, e.what());
  } catch (...) {
    (void)library.release();
    return failure("plugin_failed", path, "register_plugin threw something that is no exception");
  }
  (void)library.release();  // for good
  return {};
}

net::expected<void> load_plugins(const std::vector<std::string>& paths, tables& into) {
  std::vector<std::string> seen;
  for (const auto& p : paths) {
    std::error_code ec;
    auto real = std::filesystem::canonical(p, ec).string();
    if (ec) real = p;
    if (std::find(seen.begin(), seen.end(), real) != seen.end()) continue;
    seen.push_back(real);
    if (auto r = load_plugin(p, into); !r) return r.error();
  }
  return {};
}

}  // namespace troupe
