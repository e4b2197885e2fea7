// A loop of multiply-adds in registers with the widest instructions of this processor. Its rate is
// the peak of the processor, an upper bound for matrix products in fp32.
// Errors: none.  Threads: the loop may run in several threads at once.
#pragma once

namespace troupe::cpu {

struct multiply_adds {
  const char* instructions;  // "AVX-512", "AVX2" or "baseline"
  double flops;              // floating-point operations of one call, some milliseconds
  void (*call)();
};
multiply_adds best_multiply_adds();

}  // namespace troupe::cpu
