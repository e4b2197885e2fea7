// `troupe sample JOB|RUN`: generates text with a trained net.
#include <CLI/CLI.hpp>
#include <algorithm>

#include <nlohmann/json.hpp>

#include "apps/cli/command.hpp"
#include "ops/device.hpp"
#include "runtime/plain/generate.hpp"

namespace troupe {
namespace {

struct sample_arguments : job_arguments {
  std::string weights, start;
  std::int64_t length = 400;
  double temperature = 0.8;
  std::uint64_t seed = 1;
};

int run_sample(const sample_arguments& a, const output& out) {
  auto loaded = load_job(a);
  if (!loaded) return out.wrong(loaded.error());
  auto j = *loaded;
  const auto weights = weights_file(a, a.weights, out);
  if (!weights) return wrong_file(out, weights.error());
  auto from = begin_from_weights(*j, *weights);
  if (!from) return wrong_file(out, from.error());
  const std::shared_ptr<device> dev = make_cpu_device();
  if (!dev) return out.failed("cpu", "the kernels do not support this machine's CPU; try: troupe doctor");
  auto made = make_generator(*j, given(*j), dev);
  if (!made) return out.wrong({made.error()});
  auto& g = **made;
  const auto& symbols = g.symbols();
  const bool line = a.start.empty() && std::find(symbols.begin(), symbols.end(), "\n") != symbols.end();
  const auto ids = g.encode(a.start.empty() ? (line ? "\n" : symbols[0]) : a.start);
  if (!ids) return out.wrong("--start", ids.error().text);
  const auto text = generate(g, *ids, a.length, a.temperature, a.seed);
  out.text(a.start + text.text + "\n");
  if (out.json()) out.object({{"event", "sample"}, {"text", a.start + text.text}, {"characters", a.length}, {"nats", text.nats}});
  return exit_done;
}

void add_options(CLI::App& c, sample_arguments& a) {
  job_options(c, a);
  file_option(c, "--weights", a.weights, "Weights of the net: safetensors, a checkpoint, or a run (default: the best of the run)");
  c.add_option("--start", a.start, "Beginning of the text (default: a newline, which is not printed)")->option_text("TEXT");
  c.add_option("--length", a.length, "Number of characters to generate (default: 400)")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000000}));
  c.add_option("--temperature", a.temperature, "Divisor of the scores; 0: always take the most likely character (default: 0.8)")
      ->option_text("X")
      ->check(CLI::Range(0.0, 1000.0));
  c.add_option("--seed", a.seed, "Seed of the random draws (default: 1)")->option_text("S");
}

}  // namespace

cli_command sample_command() {
  return make_command<sample_arguments>(
      "sample", "Generate text with a net that was trained on text",
      "  troupe sample 7 --start ROMEO:                     # the best weights of run 7\n"
      "  troupe sample configs/jobs/char_rnn_lstm.toml --set data.path=input.txt --weights net.safetensors --start ROMEO:",
      add_options, run_sample);
}

}  // namespace troupe
