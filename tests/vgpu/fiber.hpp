// A fiber: a function with a stack of its own, which the owner enters and which leaves to the
// owner. Only for x86-64, where a switch takes a few nanoseconds.
// Threads: a fiber belongs to the thread that made it.
#pragma once

#include <cstddef>
#include <memory>

namespace troupe::vgpu {

class fiber {
 public:
  using entry = void (*)(void* argument);  // must not return and must not throw
  fiber(entry e, void* argument);
  ~fiber();
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;

  void enter();  // called by the owner: runs the fiber until it calls leave()
  void leave();  // called by the fiber: returns to the owner
  void reset();  // abandons what the fiber does; enter() then calls `entry` again

 private:
  struct context;
  entry entry_;
  void* argument_;
  std::unique_ptr<context> context_;
};

}  // namespace troupe::vgpu
