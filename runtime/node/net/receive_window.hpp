// The receive window of a connection, by frame class: memory for a payload is taken within the
// window or not at all, and credit is returned as handles are dropped. I/O thread, except held().
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/base/result.hpp"
#include "runtime/node/net/buffer_pool.hpp"
#include "runtime/node/net/credit.hpp"
#include "runtime/node/net/frame.hpp"

namespace troupe::net {

class receive_window {
 public:
  receive_window(std::uint64_t window, std::shared_ptr<buffer_pool> pool);

  // Takes the memory of a payload. Errors: "credit_exceeded", "out_of_memory".
  expected<std::shared_ptr<std::byte>, coded_error> admit(const frame_header& h);
  // For a frame that has been admitted: adds `bytes` of shared buffers, which the caller charges to
  // the returned account.
  std::shared_ptr<credit_account> admit_shared(std::uint64_t bytes);

  // Bytes of this class given back since the last call, to be returned to the peer as credit.
  std::uint64_t collect(frame_class c);

  // `f` is called, on any thread, when there is enough to collect; an empty function detaches.
  void on_report(const std::function<void()>& f);
  std::uint64_t held() const { return net::held(accounts_); }  // any thread

 private:
  const std::uint64_t window_;
  const std::shared_ptr<buffer_pool> pool_;
  const credit_accounts accounts_;
  // Received and not yet returned as credit: the least that the peer has outstanding.
  std::array<std::uint64_t, frame_classes> granted_out_{};
};

}  // namespace troupe::net
