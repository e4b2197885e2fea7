// A value that a role lends to its tasks. A task may run on another thread, so the role must not
// touch the value between the run effect and `finished`. The type checks that: while the value is
// lent, every access of the role is an invariant failure.
//
//   lent<work> mine{std::make_shared<work>()};
//   mine->inputs = ...;                                            // the role's
//   out.run([w = mine.lend()](task_context& c) { use(*w, c); }, cost, token);
//   ...                                                            // mine->inputs: violated
//   mine.give_back();                                              // when `finished` has arrived
//
// The task shares ownership, so the role may end while the task runs. Cost of a check: one
// comparison.
// Threads: a lent<T> belongs to one role. The value belongs to the role or to one task.
#pragma once

#include <memory>
#include <utility>

#include "runtime/base/invariant.hpp"

namespace troupe {

template <class T>
class lent {
 public:
  lent() = default;  // no value
  explicit lent(std::shared_ptr<T> value) : value_(std::move(value)) {}
  lent(lent&& o) noexcept : value_(std::move(o.value_)), out_(std::exchange(o.out_, false)) {}
  lent& operator=(lent&& o) noexcept {
    value_ = std::move(o.value_);
    out_ = std::exchange(o.out_, false);
    return *this;
  }

  explicit operator bool() const { return value_ != nullptr; }  // also while it is lent
  bool out() const { return out_; }                             // a task has it
  T& operator*() const { return *here(); }
  T* operator->() const { return here().get(); }

  // The value for one task. give_back() follows when the task has finished.
  std::shared_ptr<T> lend() {
    auto value = here();
    out_ = true;
    return value;
  }
  void give_back() {
    invariant(out_, "a value that is given back was lent");
    out_ = false;
  }

 private:
  const std::shared_ptr<T>& here() const {
    invariant(value_ && !out_, "a role touches a value only while no task has it");
    return value_;
  }

  std::shared_ptr<T> value_;
  bool out_ = false;
};

}  // namespace troupe
