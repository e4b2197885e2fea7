// The virtual GPU: CUDA without a device, for tests. A test program links cudart.cpp in place of
// NVIDIA's runtime, and kernels that g++ has compiled.
//
//   memory   Addresses of device memory belong to a mapping without access rights: a host access is
//            an immediate SIGSEGV. Kernels use a second mapping of the same memory. Blocks begin as
//            NaN (beyond 2 MiB only their ends do) and end at a guard page.
//   streams  Operations are queued. Between calls of the host the devices run zero or more of them,
//            in any legal order, chosen by the seed.
//   order    Vector clocks over streams and host find operations on one block of memory that
//            nothing orders, whatever the order in which they run.
//   kernels  The threads of a block are fibers, in random order (block_run.hpp).
//
// Without reset() the first call makes devices by the options in the environment variable
// TROUPE_VGPU. If TROUPE_VGPU_LOST_ONCE names a file, a process that loses a device makes the file,
// and later processes lose none. Findings are also appended to the file that TROUPE_VGPU_FINDINGS
// names: for programs that open the backend as a library (libtroupe_cuda_vgpu.so).
//
// What it cannot show: speed, the numerics of NVIDIA's libraries, and races between blocks.
// Threads: all functions may be called from any thread. The order of host threads among each other
// is not checked: all of them count as one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::vgpu {

struct options {
  std::uint64_t seed = 1;
  bool shuffled = true;  // false: operations and threads run in the order in which they were given
  int devices = 1;
  std::size_t memory = std::size_t{1} << 30;  // bytes per device
  bool reversed = false;                      // devices are numbered from the last PCI address on, as by CUDA_VISIBLE_DEVICES
  int driver = 13000;                         // version as in cudaDriverGetVersion(), below 13000 too old; 0: no driver
  // Faults, counted from 0 over all devices; -1: never.
  std::int64_t fail_allocation = -1;  // number of the first cudaMalloc() that fails; all later ones fail, too
  std::int64_t lose_device = -1;      // number of the kernel, copy or memset at which its device is lost
};

// Reads options as in "devices=2 seed=7 shuffled=0"; null: the defaults. Ends the process if the
// text has an unknown name.
options options_from(const char* text);

// Begins with new devices. All memory, streams and findings of the old ones are gone.
void reset(const options& o);

// Mistakes of the code under test, in the order in which they were found; at most 64.
std::vector<std::string> findings();
void found(std::string what);

struct counts {
  std::uint64_t kernels = 0, copies = 0, allocations = 0;
  std::uint64_t host_waits = 0;  // calls that block the host until a stream has come so far
  std::size_t bytes_in_use = 0;
  std::size_t streams = 0, events = 0;  // made and not destroyed
};
counts counted();

}  // namespace troupe::vgpu
