// `troupe import FILE...`: makes a job file and weights of another program's model.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/job.hpp"
#include "apps/commands/prepare/models.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/node_tables.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

struct import_arguments {
  std::vector<std::string> files;
  std::string out, names, format;
};

// Whether the weights fit the job. A job whose data is not here cannot be checked, which is a note.
expected<void, diagnostics> check_model(const imported_model& m, const std::string& file, std::vector<std::string>& notes) {
  if (m.job.empty()) return {};
  const auto made = prepare_text({m.job, file, {}}, std::make_shared<const tables>(node_tables()));
  if (!made) {
    for (const auto& d : made.error()) notes.push_back("to be mended: " + d.to_string());
    return {};
  }
  if (m.weights.empty()) return {};
  if (const auto fits = check_weights((*made)->graph, m.weights); !fits)
    return unexpected(diagnostics{{{file}, fits.error().text}});
  return {};
}

int run_import(const import_arguments& a, const output& out) {
  const auto format = chosen_format(a.format, a.files);
  if (!format) return out.wrong({format.error()});
  const auto& f = **format;
  if (!f.read) return out.wrong(a.files[0], "Troupe writes files of " + f.name + ", but does not read them");
  auto names = read_names(a.names);
  if (!names) return out.wrong(names.error());
  auto read = f.read({a.files, *std::move(names)});
  if (!read) return out.wrong(read.error());
  auto& model = *read;

  const fs::path base = a.out;
  const auto job_file = fs::path(base).replace_extension(".toml").string();
  const auto weights_file = fs::path(base).replace_extension(".safetensors").string();
  if (const auto& wanted = model.job.empty() ? weights_file : job_file; a.out != wanted)
    return out.wrong("--out", model.job.empty() ? "the files hold weights only: name a file that ends in .safetensors"
                                                : "the files hold a model: name a job file, which ends in .toml");
  if (const auto fine = check_writable_file(a.out); !fine) return out.wrong(a.out, fine.error().text);
  auto notes = model.notes;
  if (const auto fits = check_model(model, job_file, notes); !fits) return out.wrong(fits.error());
  std::vector<std::string> written;
  if (!model.weights.empty()) {
    if (const auto e = write_safetensors(weights_file, model.weights, {{"format", "pt"}}); !e)
      return out.failed({}, e.error().to_string());
    written.push_back(weights_file);
  }
  if (!model.job.empty()) {
    if (const auto e = write_file_atomically(job_file, {{model.job.data(), model.job.size()}}); !e)
      return out.failed(job_file, e.error().text);
    written.push_back(job_file);
  }
  for (const auto& n : notes) out.remark(n);
  if (out.json())
    out.object({{"event", "import"}, {"format", f.name}, {"files", written}, {"tensors", model.weights.size()}, {"notes", notes}});
  out.text(joined(written) + ": " + std::to_string(model.weights.size()) + " tensors from " + f.name + "\n");
  return exit_done;
}

void add_options(CLI::App& c, import_arguments& a) {
  c.add_option("FILE", a.files, "Files of one model: " + format_list())->required()->option_text("");
  file_option(c, "--out", a.out, "Job file to write (.toml), with the weights beside it; weights alone: .safetensors")->required();
  file_option(c, "--names", a.names, "List of names of tensors: on each line the other program's and Troupe's");
  format_option(c, a.format);
  json_option(c);
}

}  // namespace

cli_command import_command() {
  return make_command<import_arguments>("import", "Make a job file and weights of another program's model",
                                        "  troupe import torch.safetensors --names names.txt --out net.safetensors\n"
                                        "  troupe import alexnet.onnx --out alexnet.toml\n"
                                        "  troupe import train_val.prototxt solver.prototxt net.caffemodel --out net.toml\n"
                                        "What the job file lacks (the data, the update rule) is noted in it.",
                                        add_options, run_import);
}

}  // namespace troupe
