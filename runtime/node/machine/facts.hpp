// What `troupe doctor` knows about a machine: facts only, which checks.hpp judges. They travel from
// a daemon to the command as JSON (facts_json.hpp). Bytes, seconds and FLOP/s unless a name has
// another unit. 0 and empty texts mean: unknown, or not measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::machine {

struct processor {
  std::string name;                               // "AMD EPYC 9754 128-Core Processor"
  unsigned cores = 0;                             // that this process may use (affinity)
  unsigned installed = 0;                         // of the machine
  double quota = 0;                               // cores that its cgroup may use; 0: no limit
  std::vector<std::string> extensions;            // "AVX2", "AVX-512", "AMX"
  std::string kernels;                            // the instruction set that Troupe's own kernels use: "x86-64-v4"
  std::string blas, blas_kernel, blas_threading;  // "OpenBLAS 0.3.21", "SkylakeX", "OpenMP"
  std::string coretype;                           // $OPENBLAS_CORETYPE
};

// Rates of this process. `one`: one thread alone; `all`: sum of `threads` threads.
struct speed {
  std::string skipped;  // why nothing was measured; empty: it was
  unsigned threads = 0;
  std::string instructions;             // of the peak
  double peak_one = 0, peak_all = 0;    // of multiply-adds in registers
  double sgemm_one = 0, sgemm_all = 0;  // of matrix products of 512 x 512
  double memory_rate = 0;               // bytes per second that one thread reads and writes in a sum of long vectors
};

struct memory {
  std::uint64_t total = 0, free = 0;  // that this process may use
  std::string bound_by;               // "this machine has", "its cgroup (...) allows"
  std::uint64_t swap_total = 0, swap_used = 0;
  int overcommit = 0;  // vm.overcommit_memory; 2: the kernel refuses to reserve more address space than it has memory
};

struct clock {
  std::string source;                        // of the kernel: "tsc"
  double reading = 0;                        // seconds that one reading of the steady clock takes
  bool known = false, synchronised = false;  // with a time server (NTP); known: the kernel tells
  double time = 0;                           // seconds since 1970 when the facts were read
};

struct folder {
  std::string purpose;  // "runs", "state"
  std::string path;
  std::string problem;  // why no file can be written there; empty: it can
  std::uint64_t total = 0, free = 0;
  double write_rate = 0;  // of a file of some MiB, with fsync
  double sync = 0;        // of a file of 4 KiB with fsync
};

struct limits {
  std::uint64_t open_files = 0, most_open_files = 0;  // RLIMIT_NOFILE, soft and hard
  std::uint64_t locked_memory = 0, core_file = 0;     // UINT64_MAX: unlimited
};

// A certificate with its key: of a node, or of this machine's client.
struct certificate {
  std::string name, folder;
  std::string code, problem;  // of check_certificate(); empty: peers accept it
  double days = 0;            // until it or its CA expires
};

struct interface {
  std::string name;
  std::vector<std::string> addresses;
  double megabits = 0;  // of the link; 0: unknown (virtual interfaces)
  bool loopback = false;
};

struct gpu {
  std::string name;     // "gpu:0 NVIDIA H100 80GB HBM3"
  std::string failure;  // why it does not answer; empty: it does
};

struct facts {
  std::string version;  // of Troupe
  machine::processor processor;
  machine::speed speed;
  machine::memory memory;
  machine::clock clock;
  std::vector<folder> folders;
  machine::limits limits;
  std::vector<certificate> certificates;
  std::vector<interface> interfaces;
  std::string address;       // numeric host that other nodes use for this node's data; empty: no node
  std::string data_address;  // host:port of that; empty: no daemon
  std::vector<gpu> gpus;
  std::string why_no_gpu;      // if there are none
  bool nvidia_driver = false;  // NVIDIA's driver is loaded
};

// What a client sees of a node's daemon.
struct contact {
  std::string node, address;
  std::string problem;      // why it does not answer; empty: it does
  bool here = false;        // the address is one of the client's machine
  bool port_taken = false;  // here: a program holds the port
  std::string state, note;  // in the cluster, by the coordinator's daemon: "up", "absent", "lost"; empty: unknown
  std::string version;      // of the daemon
  double clock_ahead = 0;   // seconds that its clock is ahead of the client's
};

// A connection of the data plane, measured by the node that sends.
struct link {
  std::string from, to;
  std::string problem;        // why it could not be measured; empty: it was
  double round_trip = 0;      // the shortest of several
  double rate = 0;            // bytes per second of a burst
  std::string skipped;        // why no burst was sent; empty: it was
  bool same_machine = false;  // tensors do not use the network, but shared memory
};

}  // namespace troupe::machine
