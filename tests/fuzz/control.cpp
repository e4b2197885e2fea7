// Fuzz target: messages of the control plane.
#include <cmath>

#include "tests/cluster/message_samples.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

using namespace control;

void read_control(input in) {
  reader r(in);
  const auto type = static_cast<std::uint16_t>(r.number(1));
  const auto* data = reinterpret_cast<const char*>(r.rest().data());
  const auto m = decode(type, data, r.rest().size());
  if (!m) return;
  must(m->index() + 1 == type, "the decoded message has another type");
  const auto again = encode(*m);
  const auto back = decode(type, again.data(), again.size());
  must(back && encode(*back) == again, "encoding and decoding change the message");
  const auto* reported = std::get_if<control::report>(&*m);
  if (!reported) return;
  for (const auto& g : plausible(reported->gpus)) {
    must(g.name.size() <= max_gpu_name && g.failure.size() <= max_gpu_failure, "a text of a GPU is too long");
    for (const auto& v : {g.utilisation, g.memory_utilisation, g.temperature, g.power})
      must(!v || std::isfinite(*v), "a value of a GPU is not finite");
  }
}

std::vector<std::string> sound_control() {
  std::vector<std::string> all;
  for (const auto& m : message_samples()) all.push_back(std::string(1, static_cast<char>(m.index() + 1)) + encode(m));
  return all;
}

const entry control_entry({"control", read_control, sound_control});

}  // namespace
}  // namespace troupe::fuzz
