// Performs blocking operations (operations.hpp) and delivers their results.
//
// The host of cluster_controller and member passes work_of(OPERATION) to the actor of the job
// executor or of the checker. The actor calls it on its own thread, one after the other, so
// operations are performed in the order in which they were requested. The call returns a delivery,
// which the host calls on the thread of cluster_controller and member.
//
// Errors: an exception of an operation becomes the error of its result. If the operation has no
// result, the call of work_of(OPERATION) throws the exception.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <variant>

#include "runtime/base/exception_text.hpp"
#include "runtime/base/result.hpp"

namespace troupe::control {

struct takers;  // cluster_controller, member and their orders (orders.hpp)

// Hands a result to its taker. Empty: the operation has no result.
using delivery = std::function<void(takers&)>;

// An operation as work for the actor of its executor.
template <class Executor>
using work = std::function<delivery(Executor&)>;

template <class T>
concept operation = requires {
  typename T::executor;
};
template <class T>
concept operation_with_result = operation<T> && requires {
  typename T::result;
};

// A list of operations.
template <operation... Operations>
struct operation_list {
  // A variant of them and of other orders.
  template <class... Others>
  using with = std::variant<Operations..., Others...>;
};

template <operation O>
work<typename O::executor> work_of(O requested) {
  return [o = std::make_shared<const O>(std::move(requested))](typename O::executor& by) -> delivery {
    if constexpr (operation_with_result<O>) {
      const auto performed = [&]() -> typename O::result {
        try {
          return o->perform(by);
        } catch (...) {
          return unexpected(error(current_exception_text()));
        }
      };
      return [o, r = performed()](takers& to) { o->deliver(to, r); };
    } else {
      o->perform(by);
      return {};
    }
  };
}

}  // namespace troupe::control
