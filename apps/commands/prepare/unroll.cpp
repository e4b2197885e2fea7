// `troupe unroll FILE`: makes an autoencoder's weights from those of a stack of Boltzmann machines.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/job.hpp"
#include "runtime/plain/unroll.hpp"
#include "runtime/record/safetensors.hpp"

namespace troupe {
namespace {

struct unroll_arguments {
  std::string file, out, run_dir;
};

int run_unroll(const unroll_arguments& given, const output& out) {
  auto a = given;
  const auto run = run_named(a.file, a.run_dir);
  if (!run) return wrong_file(out, run.error());
  if (!run->empty()) {
    auto weights = weights_of_run(*run, out);
    if (!weights) return wrong_file(out, weights.error());
    a.file = *std::move(weights);
  }
  auto read = read_safetensors(a.file);
  if (!read) return wrong_file(out, read.error());
  auto made = unroll(read->named);
  if (!made) return out.wrong(a.file, made.error().text);
  const auto& u = *made;
  if (const auto fine = check_writable_file(a.out); !fine) return out.wrong(a.out, fine.error().text);
  if (auto e = write_safetensors(a.out, u.named, {{"format", "pt"}}); !e) return out.failed({}, e.error().to_string());
  if (out.json()) out.object({{"event", "unroll"}, {"file", a.out}, {"layers", u.layers}});
  std::string names;
  for (const auto& l : u.layers) names += (names.empty() ? "" : ", ") + l;
  out.text(a.out + ": weights of the linear layers " + names + "\n");
  return exit_done;
}

void add_options(CLI::App& c, unroll_arguments& a) {
  c.add_option("FILE", a.file, "Weights of the stack: safetensors, a checkpoint, or a run")->required()->option_text("");
  file_option(c, "--out", a.out, "Weights file to write (safetensors)")->required();
  runs_folder_option(c, a.run_dir);
  json_option(c);
}

}  // namespace

cli_command unroll_command() {
  return make_command<unroll_arguments>(
      "unroll", "Make an autoencoder's weights from those of a stack of Boltzmann machines",
      "  troupe train configs/jobs/rbm_stack.toml --out stack.safetensors\n"
      "  troupe unroll stack.safetensors --out begin.safetensors\n"
      "  troupe train configs/jobs/rbm_autoencoder.toml --weights begin.safetensors\n"
      "Each layer NAME of type rbm becomes two of type linear: NAME, and NAME_back with the transposed weights.",
      add_options, run_unroll);
}

}  // namespace troupe
