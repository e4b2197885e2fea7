#include "runtime/node/machine_memory.hpp"

#include <unistd.h>

namespace troupe {

double machine_memory() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), size = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? static_cast<double>(pages) * static_cast<double>(size) : 0;
}

}  // namespace troupe
