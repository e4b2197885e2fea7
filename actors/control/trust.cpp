#include "actors/control/trust.hpp"

#include <array>
#include <variant>

#include "runtime/node/net/hello.hpp"
#include "runtime/node/pki/certificates.hpp"

namespace troupe::control {
namespace {

// Nodes that the CA has signed and the cluster file does not name could be many.
constexpr std::size_t most_told = 256;

struct spoken {
  const char* name;
  speaker who;
};

// In the order of `message`.
constexpr auto all_spoken = [] {
  using enum speaker;
  return std::array<spoken, std::variant_size_v<message>>{{
      {"join", node},           {"joined", coordinator}, {"submit", anybody}, {"submitted", coordinator},
      {"prepare", coordinator}, {"prepared", node},      {"trouble", node},   {"end_job", coordinator},
      {"ended", node},          {"leaving", node},       {"report", node},    {"said", coordinator},
      {"follow", anybody},      {"fetch", anybody},      {"piece", anybody},  {"ask", anybody},
      {"answer", coordinator},  {"revise", coordinator}, {"revised", node},   {"swap", coordinator},
      {"swapped", node},        {"forget", coordinator},
  }};
}();
static_assert(all_spoken.back().name != nullptr, "a message has no row");

}  // namespace

speaker speaker_of(const message& m) { return all_spoken[m.index()].who; }
const char* name_of(const message& m) { return all_spoken[m.index()].name; }

std::optional<std::string> unheeded::note(const std::string& from, const message& m, const std::string& why) {
  ++count_;
  const auto certificate = net::is_operator(from) ? std::string(client_name) : from;
  if (told_.size() >= most_told || !told_.insert(certificate).second) return std::nullopt;
  return from + " has no right to say '" + name_of(m) + "': " + why + " (dropped, as all further ones will be without a word)";
}

}  // namespace troupe::control
