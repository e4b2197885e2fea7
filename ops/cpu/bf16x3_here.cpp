#include "ops/cpu/bf16x3.hpp"

#if __has_include(<cpuid.h>) && __has_include(<sys/syscall.h>)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace troupe::cpu {

// The processor has the unit, and the system lets this process use it: Linux wants to be asked, once for all threads.
const bf16x3_kernels* bf16x3_here() {
  static const bf16x3_kernels* const found = []() -> const bf16x3_kernels* {
    constexpr unsigned amx_bf16 = 1U << 22, amx_tile = 1U << 24;
    constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (bf16x3_compiled() == nullptr || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return nullptr;
    if ((d & amx_bf16) == 0 || (d & amx_tile) == 0) return nullptr;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0 ? bf16x3_compiled() : nullptr;
  }();
  return found;
}

}  // namespace troupe::cpu

#else

namespace troupe::cpu {
const bf16x3_kernels* bf16x3_here() { return nullptr; }
}  // namespace troupe::cpu

#endif
