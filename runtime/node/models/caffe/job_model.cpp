#include "runtime/node/models/caffe/job_model.hpp"

#include "runtime/node/config/toml_text.hpp"

namespace troupe::caffe {
namespace {

void write_keys(const toml_keys& keys, std::string& out) {
  for (const auto& [key, value] : keys) out += key + " = " + value + "\n";
}

void write_table(const char* name, const toml_keys& keys, std::string& out) {
  if (keys.empty()) return;
  out += std::string("\n[") + name + "]\n";
  write_keys(keys, out);
}

}  // namespace

std::string job_text(const job_model& m) {
  std::string out;
  for (const auto& line : m.heading) out += "# " + line + "\n";
  out += "[job]\nname = " + toml_text(m.name) + "\n";
  write_keys(m.job, out);
  write_table("data", m.data, out);
  write_table("data.augment", m.augment, out);
  for (const auto& l : m.layers) {
    out +=
        "\n[[layer]]\nname = " + toml_text(l.name) + "\ntype = " + toml_text(l.type) + "\ninputs = " + toml_text(l.inputs) + "\n";
    if (!l.phase.empty()) out += "phase = " + toml_text(l.phase) + "\n";
    write_keys(l.keys, out);
  }
  write_table("train", m.train, out);
  write_table("train.dynamics", m.dynamics, out);
  write_table("train.finish", m.finish, out);
  write_table("eval", m.eval, out);
  write_table("checkpoint", m.checkpoint, out);
  write_table("pipeline", m.pipeline, out);
  return out;
}

std::string layer_of(const std::string& input) { return input.substr(0, input.find('.')); }

}  // namespace troupe::caffe
