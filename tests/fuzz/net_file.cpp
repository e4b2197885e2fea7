// Fuzz target: net files (.troupe). The first byte selects what follows: the bytes of a file, or,
// since checksums keep most mutations from the readers behind them, the two texts of its metadata,
// which become a file with right checksums.
#include "runtime/node/predict/net_file.hpp"

#include "ops/device.hpp"
#include "runtime/node/config/job_file.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/record/safetensors.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {
namespace {

void read_net(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  const auto made = read_net_file(owner, owner->data(), owner->size(), "fuzz.troupe");
  if (!made) return must(!made.error().empty() && !made.error().front().message.empty(), "refused without a reason");
  std::int64_t elements = 0;
  for (const auto& p : (*made)->graph.params) elements += p.spec.dims.count();
  must(elements <= static_cast<std::int64_t>(bytes.size()), "more parameters than bytes");
}

// `all`: the facts about the data, NUL, the job, NUL. The file has the weights of the sound net.
void read_net_facts(const std::string& all, const named_tensors& weights) {
  const auto first = all.find('\0'), second = first == std::string::npos ? first : all.find('\0', first + 1);
  if (second == std::string::npos) return;
  const auto bytes = safetensors_bytes(weights, {{"troupe_net", "1"},
                                                 {"data", all.substr(0, first)},
                                                 {"job", all.substr(first + 1, second - first - 1)},
                                                 {"weights", "f32"}});
  if (bytes) read_net(*bytes);
}

struct sound_net {
  std::string bytes, facts;
  named_tensors weights;
};

sound_net make_net(net_weights kept) {
  const std::string text =
      "[job]\nname = \"n\"\n[data]\nsource = \"synthetic\"\nshape = [2, 3]\nclasses = 3\nbatch = 4\n[[layer]]\nname = \"ip\"\n"
      "type = \"linear\"\ninputs = [\"data\"]\noutputs = 3\n[[layer]]\nname = \"loss\"\ntype = \"softmax_loss\"\n"
      "inputs = [\"ip\", \"label\"]\n[train]\nfinish = { steps = 1 }\n";
  const auto all = std::make_shared<const tables>(node_tables());
  auto spec = parse_job(text, "n.toml", *all);
  must(spec.has_value(), "the job of the target is refused");
  node_spec here;
  here.name = "local";
  const auto j = prepare_job(*std::move(spec), all, {here});
  must(j.has_value(), "the job of the target cannot be prepared");
  const auto dev = make_cpu_device();
  sound_net n;
  n.weights = initial_weights(**j, *dev);
  const auto bytes = net_file_bytes(**j, n.weights, kept);
  must(bytes.has_value(), "the net of the target cannot be written");
  n.bytes = *bytes;
  const auto owner = std::make_shared<const std::string>(n.bytes);
  const auto content = parse_safetensors(owner, owner->data(), owner->size(), integrity::required);
  must(content.has_value(), "the net of the target cannot be read");
  n.facts = content->metadata.at("data") + std::string(1, '\0') + content->metadata.at("job") + std::string(1, '\0');
  return n;
}

void read_net_input(input in) {
  static const auto sound = make_net(net_weights::f32);
  reader r(in);
  const bool metadata = r.number(1) % 2 == 1;
  const auto rest = text(r.rest());
  metadata ? read_net_facts(rest, sound.weights) : read_net(rest);
}

std::vector<std::string> sound_net_inputs() {
  std::vector<std::string> all;
  for (const auto kept : {net_weights::f32, net_weights::bf16, net_weights::int8}) {
    const auto n = make_net(kept);
    all.push_back(std::string(1, '\0') + n.bytes);
    if (kept == net_weights::f32) all.push_back(std::string(1, '\1') + n.facts);
  }
  return all;
}

const entry net_file_entry({"net_file", read_net_input, sound_net_inputs});

}  // namespace
}  // namespace troupe::fuzz
