// Marks every tensor of an envelope immutable. Shells call it on all that they send or let in.
#pragma once

#include "runtime/messages/message.hpp"

namespace troupe {

void freeze_tensors(envelope& e);

}  // namespace troupe
