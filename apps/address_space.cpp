// Checks at program start that the address space suffices for OpenBLAS. OpenBLAS's constructor
// reserves a buffer for each processor. If the limit on address space (ulimit -v, RLIMIT_AS) does
// not allow that, it retries forever, before main() can print an error. A program's .preinit_array
// runs before the constructors of its libraries, so this check exits with an error first. If the
// space suffices for the constructor but not for the work (each thread that multiplies needs one
// more buffer), OpenBLAS still spins.
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

namespace {

constexpr std::size_t buffer_bytes = std::size_t{128} << 20;  // of Debian 12's libopenblas0-pthread (0.3.21)
constexpr std::size_t few_bytes = std::size_t{4} << 20;       // for all other allocations before main()
constexpr const char* message =
    "the limit on address space (ulimit -v) is too small: OpenBLAS reserves 128 MiB for each processor at program start and would "
    "retry forever; raise the limit, or set OMP_NUM_THREADS=1\n";

// libc is loaded and relocated, but its constructors have not run: only system calls are safe.
void check_address_space(int, char**, char** environment) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  cpu_set_t here;
  std::size_t threads = ::sched_getaffinity(0, sizeof here, &here) == 0 ? static_cast<std::size_t>(CPU_COUNT(&here)) : 1;
  for (char** e = environment; *e; ++e)
    if (std::strcmp(*e, "OMP_NUM_THREADS=1") == 0) threads = 1;
  const auto bytes = threads * buffer_bytes + few_bytes;
  void* room = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room != MAP_FAILED) {
    ::munmap(room, bytes);
    return;
  }
  [[maybe_unused]] const auto n = ::write(STDERR_FILENO, message, std::strlen(message));
  ::_exit(1);
}

[[gnu::section(".preinit_array"), gnu::used]] void (*run_before_libraries)(int, char**, char**) = check_address_space;

}  // namespace
