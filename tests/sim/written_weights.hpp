// Compares the accuracy that a job reports at its end with an evaluation of the weights that it has
// written, as `troupe test` makes it.
#pragma once

#include "tests/sim/small_job.hpp"

namespace troupe::testing {

inline const event_effect* last_of(const run_result& r, const std::string& kind) {
  const auto e = std::find_if(r.events.rbegin(), r.events.rend(), [&](const event_effect& x) { return name_of(x).name == kind; });
  return e == r.events.rend() ? nullptr : &*e;
}

inline std::optional<double> value_in(const event_effect* e, const std::string& name) {
  if (e)
    for (const auto& [n, v] : flatten(*e).values)
      if (n == name) return v;
  return std::nullopt;
}

// Evaluates written weights as `troupe test` does: a run that begins at its end, on one worker with
// all layers colocated.
inline run_result run_of_the_written(const prepared_job& j, const run_result& r, device* dev) {
  auto spec = j.spec;
  spec.train.sync = {"bsp", {}, {}};
  spec.train.when.reset();
  spec.train.reducer = "server";
  spec.topology = {};
  spec.pipeline.weights = "drain";
  for (auto& l : spec.layers)
    l.place.clear(), l.fraction.clear(), l.partition = layer_spec{}.partition, l.key_at.erase("partition");
  std::vector<node_spec> nodes(1);
  nodes[0].name = "n1";
  auto made = prepare_job(spec, j.all, nodes, j.data);
  if (!made) {
    ADD_FAILURE() << made.error().front().to_string();
    return {};
  }
  auto again = *made;
  begin_at(*again, 1, r.weights);
  again->last_step = 1;
  again->spec.train.finish = {};
  sim::world_config c;
  c.dev = dev;
  return run_in_world(again, c);
}

// Returns an error, or empty if the accuracy of `done` is that of the written weights, and the loss
// of the last evaluation too. Also empty if the job has no test data or no evaluating role.
inline std::string untrue_of_the_written(const prepared_job& j, const run_result& r, device* dev) {
  const auto* done = last_of(r, "done");
  const auto said = value_in(done, "test_accuracy");
  if (!said) return last_of(r, "eval") ? "an evaluation, but no accuracy at the end" : "";
  const auto again = run_of_the_written(j, r, dev);
  const auto is = value_in(last_of(again, "done"), "test_accuracy");
  if (said != is)
    return "reports accuracy " + std::to_string(*said) + ", the written weights have " + std::to_string(is.value_or(-1));
  // Features that are summed in another order, or layers computed separately, round differently.
  const auto loss = value_in(last_of(r, "eval"), "loss"), true_loss = value_in(last_of(again, "eval"), "loss");
  if (!loss || !true_loss || !(std::abs(*loss - *true_loss) <= 1e-5 * std::max(1.0, std::abs(*true_loss))))
    return "reports loss " + std::to_string(loss.value_or(-1)) + ", the written weights have " +
           std::to_string(true_loss.value_or(-1));
  return "";
}

}  // namespace troupe::testing
