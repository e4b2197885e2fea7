// Fuzz target: the first messages of a connection, hello and refusal.
#include "runtime/node/net/hello.hpp"
#include "runtime/access/names.hpp"

#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

using namespace net;

void read_hello(input in) {
  const auto bytes = std::as_bytes(in);
  (void)decode_refusal(bytes);
  const auto h = decode_hello(bytes);
  if (!h) return must(!h.error().code.empty(), "an error without a code");
  const auto again = decode_hello(encode_hello(*h));
  must(again && again->node == h->node && again->cluster == h->cluster && again->incarnation == h->incarnation &&
           again->window == h->window,
       "encoding and decoding change the hello");
  (void)may_be_called(h->node, h->wanted);
  (void)operator_of(h->node);
}

std::vector<std::string> sound_hello() {
  hello h;
  h.incarnation = 1763000000000;
  h.window = 64 << 20, h.max_frame = 1 << 30;
  h.cluster = "lab", h.node = "client.alice.7f", h.wanted = "n1";
  return {text(encode_hello(h)), text(encode_refusal({"wrong_node", "[net] this is n2"}))};
}

const entry hello_entry({"hello", read_hello, sound_hello});

}  // namespace
}  // namespace troupe::fuzz
