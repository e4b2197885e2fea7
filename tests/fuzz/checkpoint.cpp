// Fuzz target: checkpoint files, and their metadata without the checksums.
#include "runtime/record/checkpoint.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "runtime/record/handover_record.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/runtime/record/record_temp_dir.hpp"

namespace troupe::fuzz {
namespace {

void read_checkpoint(input in) {
  reader r(in);
  if (r.number(1) == 'f') {
    static const int file = ::memfd_create("checkpoint", MFD_CLOEXEC);
    if (::ftruncate(file, 0) != 0 || ::pwrite(file, r.rest().data(), r.rest().size(), 0) < 0) return;
    const auto read = load_checkpoint("/proc/self/fd/" + std::to_string(file));
    if (!read) must(!read.error().message.empty(), "refused without a reason");
    return;
  }
  checkpoint c;
  while (!r.done()) {
    const auto key = text(r.take(static_cast<std::size_t>(r.number(1))));
    c.progress[key] = text(r.take(static_cast<std::size_t>(r.number(1))));
  }
  auto h = handover_of(c);
  if (!h) return must(!h.error().text.empty(), "refused without a reason");
  checkpoint again;
  put_handover(again, *h, {});
  must(handover_of(again).has_value(), "a handover that was read cannot be written and read again");
}

std::vector<std::string> sound_checkpoint() {
  test::temp_dir dir;
  checkpoint c;
  c.job = "tiny", c.step = 400, c.seed = 3, c.packets = 4, c.numerics = "x", c.sampler_position = 400;
  auto values = std::make_shared<std::vector<float>>(6, 1.5f);
  c.named = {{"conv1.weight", tensor::adopt(values, values->data(), shape{2, 3}, dtype::f32)}};
  handover h;
  h.step = 400, h.evaluated = 380;
  h.settings.push_back({"train.dynamics.lr", 0.5, 20});
  put_handover(c, h, c.named);
  must(write_checkpoint(dir.file("c"), c).has_value(), "a checkpoint cannot be written");
  std::string metadata = "m";
  for (const auto& [k, v] : c.progress) metadata += static_cast<char>(k.size()) + k + static_cast<char>(v.size()) + v;
  return {"f" + text(test::read_bytes(dir.file("c"))), metadata};
}

const entry checkpoint_entry({"checkpoint", read_checkpoint, sound_checkpoint});

}  // namespace
}  // namespace troupe::fuzz
