// One filled sample of every exchange message.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/exchange/hub/wire.hpp"

namespace troupe::exchange::testing {

inline std::vector<message> message_samples() {
  static const std::vector<std::byte> some(24, std::byte{7});
  return {open_session{protocol, "run", 1, 2, averaging_method::easgd, 0.5},
          declare{3, "lstm.weight", element::f64, 1000},
          begin{4, collective_op::reduce_scatter, 2, 1, meeting::in_memory},
          piece{5, 64, {nullptr, some.data(), some.size()}},
          take_lock{6, "data"},
          free_lock{7, "data"},
          cancel{8},
          leave{},
          answer{9, code::peer_lost, "rank 1 is lost", 3, 4000},
          share{10, "weights", element::f64, 1000},
          shared_at{11, 5, contents::full, 4321, 17, 0x0123456789abcdef, "b5c1e0ad-6d5b-4a57-9c5e-000000000000"},
          filled{5, contents::empty}};
}

inline std::string joined(const encoded& e) {
  return e.head + std::string(reinterpret_cast<const char*>(e.tail.data), e.tail.size);
}

}  // namespace troupe::exchange::testing
