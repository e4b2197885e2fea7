#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "ops/cuda/nccl_api.hpp"

#if __has_include(<nccl.h>)
#include <nccl.h>
static_assert(int{troupe::cuda::nccl_f32} == int{ncclFloat32} && int{troupe::cuda::nccl_f64} == int{ncclFloat64});
static_assert(int{troupe::cuda::nccl_bf16} == int{ncclBfloat16} && int{troupe::cuda::nccl_sum} == int{ncclSum});
static_assert(troupe::cuda::nccl_success == int{ncclSuccess} && sizeof(ncclResult_t) == sizeof(int));
#endif

namespace troupe::cuda {
namespace {

template <class F>
void find(void* library, const char* name, F& f) {
  f = reinterpret_cast<F>(dlsym(library, name));
  if (f == nullptr) throw std::runtime_error(std::string("reducer nccl: the installed NCCL has no ") + name);
}

// NCCL stays open until the process ends.
nccl_api open_nccl() {
  const char* named = std::getenv("TROUPE_NCCL_LIBRARY");
  const char* file = named != nullptr ? named : "libnccl.so.2";
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    throw std::runtime_error(std::string("reducer nccl: NCCL cannot be loaded: ") + (why != nullptr ? why : file));
  }
  nccl_api a;
  find(library, "ncclCommInitAll", a.comm_init_all);
  find(library, "ncclCommAbort", a.comm_abort);
  find(library, "ncclCommDestroy", a.comm_destroy);
  find(library, "ncclGroupStart", a.group_start);
  find(library, "ncclGroupEnd", a.group_end);
  find(library, "ncclReduce", a.reduce);
  find(library, "ncclGetErrorString", a.error_string);
  return a;
}

}  // namespace

const nccl_api& nccl() {
  static const nccl_api a = open_nccl();
  return a;
}

}  // namespace troupe::cuda
