// The functions of NCCL that the backend uses. NCCL is opened when it is first needed: it is a
// large library, and most jobs do not use it. The declarations are those of nccl.h of NCCL 2, which
// a build need not have; nccl_open.cpp compares them where it is installed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

struct ncclComm;

namespace troupe::cuda {

using nccl_comm = ncclComm*;
enum nccl_type : int { nccl_f32 = 7, nccl_f64 = 8, nccl_bf16 = 9 };
enum nccl_operation : int { nccl_sum = 0 };
constexpr int nccl_success = 0;  // other results are errors

struct nccl_api {
  int (*comm_init_all)(nccl_comm* comms, int ranks, const int* devices) = nullptr;
  int (*comm_abort)(nccl_comm) = nullptr;
  int (*comm_destroy)(nccl_comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*reduce)(const void* from, void* to, std::size_t count, nccl_type, nccl_operation, int root, nccl_comm,
                cudaStream_t) = nullptr;
  const char* (*error_string)(int result) = nullptr;
};

// Throws std::runtime_error if NCCL is not installed: libnccl.so.2, or the file that the
// environment variable TROUPE_NCCL_LIBRARY names.
const nccl_api& nccl();

}  // namespace troupe::cuda
