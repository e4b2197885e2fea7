// A program that trains from its own main(). Its callback is called at every step and evaluation,
// and decides when training stops.
//
//   own_main JOB.toml LOSS [KEY=VALUE]...
//
// Trains until the loss of an evaluation is below LOSS, or the job is over.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "actors/embedded.hpp"
#include "runtime/node/config/prepare_text.hpp"
#include "runtime/node/node_tables.hpp"

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: own_main JOB.toml LOSS [KEY=VALUE]...\n"), 2;
  troupe::job_text what;
  what.file = argv[1];
  std::ifstream in(what.file);
  what.text.assign(std::istreambuf_iterator<char>(in), {});
  what.overrides.assign(argv + 3, argv + argc);
  const double enough = std::atof(argv[2]);

  auto job = troupe::prepare_text(what, std::make_shared<troupe::tables>(troupe::node_tables()));
  if (!job) {
    for (const auto& d : job.error()) std::fprintf(stderr, "%s\n", d.to_string().c_str());
    return 2;
  }

  // The callback is called on the thread of run(), between steps, and may send commands to the job.
  troupe::embedded_run* running = nullptr;
  troupe::embedded_options options;
  options.on_event = [&](const troupe::event_effect& e) {
    if (const auto* s = e.as<troupe::step_event>(); s && e.step % 50 == 0)
      std::printf("step %llu: loss %.3f\n", static_cast<unsigned long long>(e.step), s->loss);
    const auto* evaluation = e.as<troupe::eval_event>();
    if (!evaluation) return;
    std::printf("evaluated after %llu steps: loss %.3f\n", static_cast<unsigned long long>(e.step), evaluation->loss);
    if (evaluation->loss >= 0 && evaluation->loss < enough) {
      std::printf("stopping: the loss is below %g\n", enough);
      running->stop();
    }
  };
  troupe::embedded_run run(*std::move(job), options);
  running = &run;
  const auto result = run.run();
  if (!result.ok) return std::fprintf(stderr, "%s: %s\n", result.where.c_str(), result.error.c_str()), 1;

  // The weights are tensors of this process.
  for (const auto& [name, value] : result.weights)
    std::printf("%s has %lld values\n", name.c_str(), static_cast<long long>(value.count()));
  std::printf("%llu steps, weights %s\n", static_cast<unsigned long long>(result.step), result.weights_sha256.c_str());
  return 0;
}
