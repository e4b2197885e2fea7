// What a role on one device sends to one on another, or on another node. Hosts (actors/shell,
// sim::world) let it cross in a task of the sender's device, on a lane for this alone, before the
// message leaves: so what arrives lies where the receiver can read it, and no role knows of it.
// Where both have one memory, as all CPU devices have, nothing crosses.
#pragma once

#include "runtime/messages/message.hpp"

namespace troupe {

class device;

// Does what lies on `from` have to cross to be read on `to`? Not what lies with the host: every
// device takes that.
bool crosses(const device& from, const device& to);
// Tensors of `e` that `to` cannot read are replaced by copies there, made by `stream`. Waits only
// for what goes to the host.
void cross(envelope& e, device& stream, device& to);
// The same for a tensor that a role shares with its host.
void bring_home(tensor& t, device& stream);

}  // namespace troupe
