// Finish conditions: when a job ends. One of Platoon's five parts (Ma et al. 2016). The coordinator
// passes every fact to each condition once, in order, and ends the job at the next step boundary
// after a condition has returned true.
//
// A condition depends only on the facts, including time. Its state can be written as text (memory)
// and read back (recall): it is part of handovers and checkpoints. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/options.hpp"
#include "ops/type_table.hpp"
#include "runtime/spec/job_spec.hpp"

namespace troupe {

// The facts after a complete step or evaluation.
struct finish_facts {
  std::uint64_t steps = 0;  // complete steps since the job's first start (a resumed job continues the count)
  double epochs = 0;        // the same in epochs
  double seconds = 0;       // since this run began
  double loss = 0;          // of the step or the evaluation
  double accuracy = -1;     // of the evaluation (the first metric); -1 if there is none, and after a step
};

struct finish_condition {
  std::string kind;  // name of its registry entry, set by make_finish

  virtual ~finish_condition() = default;
  // The last step, if it is known in advance: no step beyond it is granted.
  virtual std::optional<std::uint64_t> last_step() const { return std::nullopt; }
  // Return true to end the job.
  virtual bool after_step(const finish_facts&) { return false; }
  virtual bool after_evaluation(const finish_facts&) { return false; }
  // memory: the condition's state as text. recall: restores it; damaged text leaves the initial
  // state.
  virtual std::string memory() const { return {}; }
  virtual void recall(const std::string&) {}
};
using finish_conditions = std::vector<std::unique_ptr<finish_condition>>;

struct finish_context {
  std::uint64_t steps_per_epoch = 1;
};

struct finish_type {
  std::string name;  // as in finish = { custom = { kind = "name", ... } }
  std::string doc;
  option_specs specs;
  std::function<std::unique_ptr<finish_condition>(const options&, const finish_context&)> make;  // may throw option_error
  bool needs_evaluations = false;  // never ends a job without evaluations: such a job is refused
  // Whether the condition with these options never ends a job without an accuracy, too; null: no.
  std::function<bool(const options&)> needs_accuracy = {};
};

class finish_registry : public type_table<finish_type> {};

void add_stock_finishes(finish_registry& r);

// Creates the conditions of a job file's `finish`: one per key, and the custom one. Throws
// option_error with the key relative to [train]: "finish.epochs", "finish.custom.KEY".
finish_conditions make_finish(const finish_spec& s, const finish_registry& rows, const finish_context& c);

// The smallest last_step(); 0 if no condition has one.
std::uint64_t last_step_of(const finish_conditions& all);
// Pass the facts to all conditions. Return true if any of them ends the job.
bool after_step(const finish_conditions& all, const finish_facts& f);
bool after_evaluation(const finish_conditions& all, const finish_facts& f);

// The memory of the conditions that have one, by kind.
std::map<std::string, std::string> memory_of(const finish_conditions& all);
void recall(const finish_conditions& all, const std::map<std::string, std::string>& memory);

}  // namespace troupe
