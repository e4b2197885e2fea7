// `troupe export JOB|RUN`: writes a job's net and weights as another program's model.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/job.hpp"
#include "apps/commands/prepare/models.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {
namespace {

struct export_arguments : job_arguments {
  std::string weights, out, names, format, kept = net_weights_names[0];
};

// The job's parameters in the order of its layers, from a file that may hold others, too.
expected<named_tensors, record_error> parameters_of(prepared_job& j, const std::string& file) {
  if (const auto from = begin_from_weights(j, file); !from) return unexpected(from.error());
  return given(j);
}

net_weights kept_of(const std::string& word) {
  const auto* const end = std::end(net_weights_names);
  return static_cast<net_weights>(std::find(std::begin(net_weights_names), end, word) - std::begin(net_weights_names));
}

int run_export(const export_arguments& a, const output& out) {
  const auto format = chosen_format(a.format, {a.out});
  if (!format) return out.wrong({format.error()});
  const auto& f = **format;
  if (!f.write) return out.wrong(a.out, "Troupe reads files of " + f.name + ", but does not write them");
  const auto names = read_names(a.names);
  if (!names) return out.wrong(names.error());
  if (const auto fine = check_writable_file(a.out); !fine) return out.wrong(a.out, fine.error().text);
  auto loaded = load_job(a);
  if (!loaded) return out.wrong(loaded.error());
  const auto file = weights_file(a, a.weights, out);
  if (!file) return wrong_file(out, file.error());
  const auto weights = parameters_of(**loaded, *file);
  if (!weights) return wrong_file(out, weights.error());
  auto made = f.write(**loaded, *weights, {*names, kept_of(a.kept)});
  if (!made) return out.wrong(made.error());

  std::vector<std::string> written;
  for (const auto& part : made->files) {
    const auto path = std::filesystem::path(a.out).replace_extension(part.extension).string();
    if (const auto e = write_file_atomically(path, {{part.bytes.data(), part.bytes.size()}}); !e)
      return out.failed(path, e.error().text);
    written.push_back(path);
  }
  for (const auto& n : made->notes) out.remark(n);
  if (out.json())
    out.object({{"event", "export"}, {"format", f.name}, {"files", written}, {"tensors", weights->size()}, {"notes", made->notes}});
  out.text(joined(written) + ": " + std::to_string(weights->size()) + " tensors as " + f.name + "\n");
  return exit_done;
}

void add_options(CLI::App& c, export_arguments& a) {
  job_options(c, a);
  file_option(c, "--weights", a.weights, "Weights: safetensors, a checkpoint, or a run (default: the best of the run)");
  file_option(c, "--out", a.out, "File to write: " + format_list())->required();
  file_option(c, "--names", a.names, "List of names of tensors: on each line the other program's and Troupe's");
  c.add_option("--weights-type", a.kept, "Of .troupe files: type of the weights in the file (default: f32)")
      ->option_text("f32|bf16|int8")
      ->check(CLI::IsMember({"f32", "bf16", "int8"}));
  format_option(c, a.format);
}

}  // namespace

cli_command export_command() {
  return make_command<export_arguments>(
      "export", "Write a job's net and weights as another program's model",
      "  troupe export 7 --out net.troupe                   # the best weights of run 7\n"
      "  troupe export job.toml --weights net.safetensors --out net.troupe\n"
      "  troupe export job.toml --weights net.safetensors --out net.onnx\n"
      "  troupe export job.toml --weights net.safetensors --out net.caffemodel\n"
      "  troupe export job.toml --weights net.safetensors --names names.txt --out torch.safetensors --format torch\n",
      add_options, run_export);
}

}  // namespace troupe
