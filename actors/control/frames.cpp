#include "actors/control/frames.hpp"

#include <memory>

#include "runtime/cluster/fitting.hpp"

namespace troupe::control {

net::outgoing_frame to_frame(const message& m) {
  auto text = encode(m);
  if (text.size() > max_message) text = encode(fitted(m));
  auto bytes = std::make_shared<const std::string>(std::move(text));
  net::outgoing_frame f;
  f.type = static_cast<std::uint16_t>(m.index() + 1);
  f.parts.push_back({bytes->data(), bytes->size(), bytes});
  return f;
}

std::optional<message> from_frame(const net::frame& f) {
  return decode(f.type, reinterpret_cast<const char*>(f.payload.get()), f.bytes);
}

}  // namespace troupe::control
