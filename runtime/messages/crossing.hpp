// Copies the tensors of a message to memory that the receiver's device can read. Hosts
// (actors/shell, sim::world) do this before a message leaves, in a task on a separate stream of the
// sender's device, so that roles need not know about devices. CPU devices share the host's memory
// and need no copies.
#pragma once

#include "runtime/messages/message.hpp"

namespace troupe {

class device;

// Returns true if the receiver on `to` cannot read tensors of `from`. Every device can read the
// host's memory, and receivers of sums with push::across the memory of every device.
bool crosses(const envelope& e, const device& from, const device& to);
// Replaces each tensor of `e` that `to` cannot read by a copy in the memory of `to`, made by
// `stream`. Waits for the copies only if `to` is the host.
void cross(envelope& e, device& stream, device& to);
// Replaces `t` by a copy in the host's memory, for tensors of shared_effect.
void bring_home(tensor& t, device& stream);

}  // namespace troupe
