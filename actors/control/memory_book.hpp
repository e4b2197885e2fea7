// What this daemon's memory is promised to: the roles of the job that runs, and the clients of the exchange. Neither is promised what the other has
// been, whether it has been taken yet or not.
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

  void promise(part p, std::uint64_t bytes);  // at most, in all
  void holds(part p, std::uint64_t bytes);    // now
  // What this part may hold in all, of what the process has left now.
  memory_budget open_to(part p) const;

 private:
  struct account {
    std::uint64_t promised = 0, held = 0;
  };
  mutable std::mutex lock_;
  std::array<account, 2> parts_;
};

}  // namespace troupe::control
