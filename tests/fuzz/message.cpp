// Fuzz target: messages between roles.
#include "runtime/messages/fits.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/runtime/messages/wire_samples.hpp"

namespace troupe::fuzz {
namespace {

void read_message(input in) {
  const std::vector<std::uint8_t> bytes(in.begin(), in.end());
  envelope e;
  if (const auto read = wire_samples::decode_bytes(bytes, e); !read)
    return must(!read.error().text.empty(), "refused without a reason");
  must(wire_samples::joined(encode(e)) == bytes, "decoding and encoding change the bytes");
  (void)has_values(e);
}

std::vector<std::string> sound_message() {
  std::vector<std::string> all;
  for (const auto& e : wire_samples::travelling_samples()) all.push_back(text(wire_samples::joined(encode(e))));
  return all;
}

const entry message_entry({"message", read_message, sound_message});

}  // namespace
}  // namespace troupe::fuzz
