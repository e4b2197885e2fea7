#include "ops/gpu.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <vector>

namespace troupe {
namespace {

constexpr const char* file_name = "libtroupe_cuda.so";

struct opened {
  const gpu_backend* backend = nullptr;
  std::string why;  // there is no backend
};

std::vector<std::string> candidates() {
  if (const char* named = std::getenv("TROUPE_GPU_LIBRARY")) return {std::filesystem::absolute(named)};
  std::vector<std::string> list;
  std::error_code none;
  const auto home = std::filesystem::read_symlink("/proc/self/exe", none).parent_path().parent_path();
  for (const auto* folder : {"lib", "lib/troupe"})
    if (const auto file = home / folder / file_name; std::filesystem::exists(file, none)) list.push_back(file);
  list.emplace_back(file_name);
  return list;
}

// The library stays open: its threads and static objects may be in use until the process ends.
opened open_library() {
  void* library = nullptr;
  std::string file, reason;
  for (const auto& one : candidates()) {
    file = one;
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library) break;
    const char* text = dlerror();
    if (reason.empty() && text) reason = text;
  }
  if (!library && reason.starts_with(std::string(file_name) + ": cannot open"))
    return {nullptr, "this build has no GPU backend (" + std::string(file_name) + " is missing)"};
  if (!library) return {nullptr, "the GPU backend cannot be loaded: " + reason};
  const auto entry = reinterpret_cast<gpu_backend_entry>(dlsym(library, "troupe_gpu_backend"));
  const auto* backend = entry ? entry() : nullptr;
  if (!backend || backend->version != gpu_backend::expected_version)
    return {nullptr, "the GPU backend " + file + " is of another version of Troupe"};
  return {backend, {}};
}

std::atomic<const gpu_backend*> in_use{nullptr};

const opened& library() {
  static const opened o = [] {
    auto made = open_library();
    in_use = made.backend;
    return made;
  }();
  return o;
}

// The backend. Throws std::runtime_error with the reason if it cannot use the GPU.
const gpu_backend& backend_for(int number) {
  if (const auto why = why_no_gpu(number); !why.empty()) throw std::runtime_error("gpu:" + std::to_string(number) + ": " + why);
  return *library().backend;
}

}  // namespace

int count_gpus(std::string& why) {
  const auto& o = library();
  if (o.backend) return o.backend->count(why);
  why = o.why;
  return 0;
}

std::string why_no_gpu(int number) {
  std::string none;
  const int count = count_gpus(none);
  if (count == 0) return none;
  if (number < count) return {};
  return "this machine has " +
         (count == 1 ? std::string("one GPU, gpu:0") : std::to_string(count) + " GPUs, gpu:0 to gpu:" + std::to_string(count - 1));
}

int lost_gpu() {
  const auto* backend = in_use.load();
  return backend ? backend->lost() : -1;
}

std::shared_ptr<device> make_gpu(int number) { return backend_for(number).make(number); }
gpu_facts describe_gpu(int number, const gpu_facts* earlier) { return backend_for(number).describe(number, earlier); }

}  // namespace troupe
