// Reservations of this daemon's memory by its two users: the roles of the running job, and the
// clients of the exchange. Memory that one of them has reserved is not given to the other, even
// while it is still free.
// Errors: none.  Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "runtime/job/memory_budget.hpp"

namespace troupe::control {

class memory_book {
 public:
  enum class part : std::uint8_t { job, exchange };

  void promise(part p, std::uint64_t bytes);  // the total that `p` has reserved
  void holds(part p, std::uint64_t bytes);    // the part of its reservation that `p` has allocated
  // The total that `p` may hold now.
  memory_budget open_to(part p) const;

 private:
  struct account {
    std::uint64_t promised = 0, held = 0;
  };
  mutable std::mutex lock_;
  std::array<account, 2> parts_;
};

}  // namespace troupe::control
