// `troupe init JOB`: writes the weights that training would start with.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "apps/commands/job.hpp"
#include "ops/device.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/record/sha256.hpp"

namespace troupe {
namespace {

struct init_arguments : job_arguments {
  std::string out;
};

int run_init(const init_arguments& a, const output& out) {
  auto loaded = load_job(a);
  if (!loaded) return out.wrong(loaded.error());
  if (const auto fine = check_writable_file(a.out); !fine) return out.wrong(a.out, fine.error().text);
  const auto& j = **loaded;
  const auto dev = make_cpu_device();
  const auto named = initial_weights(j, *dev);
  if (auto e = save_weights(j, named, 0, a.out); !e) return out.failed({}, e.error().to_string());
  const auto hash = weights_sha256(named);
  if (out.json())
    out.object({{"event", "init"}, {"file", a.out}, {"parameters", j.graph.parameter_count}, {"weights_sha256", hash}});
  out.text(a.out + ": " + with_commas(static_cast<std::uint64_t>(j.graph.parameter_count)) + " parameters\n" + weights_line(hash) +
           "\n");
  return exit_done;
}

void add_options(CLI::App& c, init_arguments& a) {
  job_options(c, a);
  file_option(c, "--out", a.out, "Weights file to write (safetensors)")->required();
}

}  // namespace

cli_command init_command() {
  return make_command<init_arguments>("init", "Write a job's initial weights",
                                      "  troupe init job.toml --out initial.safetensors --set job.seed=7", add_options, run_init);
}

}  // namespace troupe
