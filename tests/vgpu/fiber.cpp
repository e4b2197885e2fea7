#include "tests/vgpu/fiber.hpp"

#include <sys/mman.h>
#include <cstdlib>

namespace troupe::vgpu {
namespace {

constexpr std::size_t stack_bytes = 64 << 10, page = 4096;

// A stack with an inaccessible page at its end.
struct stack {
  std::byte* data;
  stack() {
    void* p = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, page, PROT_NONE) != 0) std::abort();
    data = static_cast<std::byte*>(p);
  }
  ~stack() { munmap(data, stack_bytes); }
  stack(const stack&) = delete;
  stack& operator=(const stack&) = delete;
};

}  // namespace

// Saves the registers that a call preserves and the stack pointer in *save, and continues at the
// stack pointer `to`.
extern "C" void troupe_vgpu_switch(void** save, void* to);
asm(R"(.pushsection .text
.globl troupe_vgpu_switch
.type troupe_vgpu_switch,@function
troupe_vgpu_switch:
 push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
 mov %rsp, (%rdi)
 mov %rsi, %rsp
 pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
 ret
.size troupe_vgpu_switch,.-troupe_vgpu_switch
.popsection
)");
// The first code of a fiber: calls the function in r13 with the argument in r12.
extern "C" void troupe_vgpu_begin();
asm(R"(.pushsection .text
.globl troupe_vgpu_begin
.type troupe_vgpu_begin,@function
troupe_vgpu_begin:
 mov %r12, %rdi
 call *%r13
 ud2
.size troupe_vgpu_begin,.-troupe_vgpu_begin
.popsection
)");

struct fiber::context {
  stack own;
  void *fiber_at = nullptr, *owner_at = nullptr;  // stack pointers
};

void fiber::reset() {
  auto** top = reinterpret_cast<void**>(context_->own.data + stack_bytes - 64);
  *--top = nullptr, *--top = nullptr;                            // aligns the stack for the call
  *--top = reinterpret_cast<void*>(&troupe_vgpu_begin);          // return address of troupe_vgpu_switch
  *--top = nullptr, *--top = nullptr;                            // rbp, rbx
  *--top = argument_, *--top = reinterpret_cast<void*>(entry_);  // r12, r13
  *--top = nullptr, *--top = nullptr;                            // r14, r15
  context_->fiber_at = top;
}
void fiber::enter() { troupe_vgpu_switch(&context_->owner_at, context_->fiber_at); }
void fiber::leave() { troupe_vgpu_switch(&context_->fiber_at, context_->owner_at); }

fiber::fiber(entry e, void* argument) : entry_(e), argument_(argument), context_(std::make_unique<context>()) { reset(); }
fiber::~fiber() = default;

}  // namespace troupe::vgpu
