#include "ops/cpu/amx.hpp"

#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace troupe::cpu {

namespace {

// Linux grants the tile registers to a process on request (arch_prctl(2), ARCH_REQ_XCOMP_PERM). The
// permission covers all its threads.
bool granted() {
#if defined(__linux__) && defined(__x86_64__) && defined(SYS_arch_prctl)
  constexpr int request_permission = 0x1023, tile_data = 18;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("x86-64-v4") || !__builtin_cpu_supports("avx512bf16")) return false;
  unsigned a = 7, b = 0, c = 0, d = 0;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
  if ((d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

}  // namespace

const amx_kernels* amx() {
  static const amx_kernels* const kernels = compiled_amx() && granted() ? compiled_amx() : nullptr;
  return kernels;
}

}  // namespace troupe::cpu
