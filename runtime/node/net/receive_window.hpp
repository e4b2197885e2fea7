// What a peer may have outstanding at this end of a connection, by class of frames: memory is taken
// for a payload within the window or not at all, and credit goes back as handles are dropped. I/O
// thread, but for held().
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/node/net/buffer_pool.hpp"
#include "runtime/node/net/credit.hpp"
#include "runtime/node/net/error.hpp"
#include "runtime/node/net/frame.hpp"

namespace troupe::net {

class receive_window {
 public:
  receive_window(std::uint64_t window, std::shared_ptr<buffer_pool> pool);

  // Before memory is taken for a payload. Errors: "credit_exceeded", "out_of_memory".
  expected<std::shared_ptr<std::byte>> admit(const frame_header& h);
  // Of a frame that has been admitted: `bytes` more of it are lent, and charged by the caller to
  // what this gives.
  std::shared_ptr<credit_account> admit_shared(std::uint64_t bytes);

  // What of this class has been given back since it was last asked; the peer is to hear of it.
  std::uint64_t collect(frame_class c);

  // `f` is called, on any thread, when there is something worth collecting; an empty one detaches.
  void on_report(const std::function<void()>& f);
  std::uint64_t held() const { return net::held(accounts_); }  // any thread

 private:
  const std::uint64_t window_;
  const std::shared_ptr<buffer_pool> pool_;
  const credit_accounts accounts_;
  // Received and not yet reported as returned: what the peer must count, at the least.
  std::array<std::uint64_t, frame_classes> granted_out_{};
};

}  // namespace troupe::net
