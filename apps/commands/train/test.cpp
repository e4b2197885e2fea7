// `troupe test JOB|RUN`: evaluates weights in an embedded run without training.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "apps/cli/command.hpp"
#include "apps/commands/train/run_reporter.hpp"
#include "ops/device_descriptors.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/job/record.hpp"

namespace troupe {
namespace {

struct test_arguments : job_arguments {
  std::string weights;
  unsigned threads = 0;
};

int run_test(const test_arguments& a, const output& out) {
  auto loaded = load_job(a);
  if (!loaded) return out.wrong(loaded.error());
  auto j = *loaded;
  const auto devices = make_devices(j->nodes.front().devices);
  const auto weights = weights_file(a, a.weights, out);
  if (!weights) return wrong_file(out, weights.error());
  auto from = begin_from_weights(*j, *weights);
  if (!from) return wrong_file(out, from.error());
  if (j->data->size(split::test) == 0)
    return out.wrong(a.file, "the job's data has no test examples; `troupe reference job` lists the keys of [data] that give some");
  // The run begins at its last step: it does not train, and makes only the evaluation at the end.
  j->last_step = std::max<std::uint64_t>(1, *from);
  begin_at(*j, j->last_step, std::move(j->before->named));
  j->spec.train.finish = {};
  run_reporter announced(j, out, devices, a.threads);
  return announced.finish();
}

void add_options(CLI::App& c, test_arguments& a) {
  job_options(c, a);
  file_option(c, "--weights", a.weights, "Weights to evaluate: safetensors, a checkpoint, or a run (default: the best of the run)");
  threads_option(c, a.threads, "one per core that the process may use");
}

}  // namespace

cli_command test_command() {
  return make_command<test_arguments>("test", "Evaluate weights on the job's test data",
                                      "  troupe test 7                                      # the best weights of run 7\n"
                                      "  troupe test configs/jobs/lenet_fashion.toml --weights lenet.safetensors",
                                      add_options, run_test);
}

}  // namespace troupe
