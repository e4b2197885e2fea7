// Fuzz target: messages of the exchange.
#include <memory>

#include "tests/fuzz/target.hpp"
#include "tests/runtime/exchange/exchange_samples.hpp"

namespace troupe::fuzz {
namespace {

void read_exchange(input in) {
  reader r(in);
  const auto type = static_cast<std::uint16_t>(exchange::first_type + r.number(1));
  const auto bytes = std::make_shared<const std::string>(text(r.rest()));
  const auto m = exchange::decode(type, std::as_bytes(std::span(bytes->data(), bytes->size())), bytes);
  if (m) must(exchange::testing::joined(exchange::encode(*m)) == *bytes, "decoding and encoding change the bytes");
}

std::vector<std::string> sound_exchange() {
  std::vector<std::string> all;
  for (const auto& m : exchange::testing::message_samples())
    all.push_back(std::string(1, static_cast<char>(m.index())) + exchange::testing::joined(exchange::encode(m)));
  return all;
}

const entry exchange_entry({"exchange", read_exchange, sound_exchange});

}  // namespace
}  // namespace troupe::fuzz
