// Finish conditions: when a job ends. One of Platoon's five parts (Ma et al. 2016). The coordinator
// tells each condition every fact once, in order, and ends the job at the next step boundary as
// soon as one of them says so.
//
// A condition knows only what it is told: time comes as a fact. Pure but for what it remembers,
// which it can say as text and take back: it goes with the job from plan to plan and into its
// checkpoints. One thread at a time.
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

// What is known when a step is complete, or an evaluation.
struct finish_facts {
  std::uint64_t steps = 0;  // complete, from the job's first beginning (a resumed job goes on counting)
  double epochs = 0;        // the same in epochs
  double seconds = 0;       // since this run began
  double loss = 0;          // of the step, or of the evaluation
  double accuracy = -1;     // of the evaluation (the first metric); -1 when there is none, and after a step
};

struct finish_condition {
  std::string kind;  // its row, set by make_finish

  virtual ~finish_condition() = default;
  // A step that is known beforehand to be the last: none is granted beyond it.
  virtual std::optional<std::uint64_t> last_step() const { return std::nullopt; }
  // True: end.
  virtual bool after_step(const finish_facts&) { return false; }
  virtual bool after_evaluation(const finish_facts&) { return false; }
  // What it has to remember of the facts so far, and that of a former life (which may have been
  // damaged: then it begins anew).
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
  bool needs_evaluations = false;  // never ends a job that does not evaluate: such a job is refused
};

class finish_registry : public type_table<finish_type> {};

void add_stock_finishes(finish_registry& r);

// The conditions that a job file's `finish` stands for: a row for each key, and the custom one.
// Throws option_error with the key below [train]: "finish.epochs", "finish.custom.KEY".
finish_conditions make_finish(const finish_spec& s, const finish_registry& rows, const finish_context& c);

// The smallest of all last_step(); 0: none.
std::uint64_t last_step_of(const finish_conditions& all);
// Tell all of them; true when any wants to end.
bool after_step(const finish_conditions& all, const finish_facts& f);
bool after_evaluation(const finish_conditions& all, const finish_facts& f);

// By kind, of those that remember anything.
std::map<std::string, std::string> memory_of(const finish_conditions& all);
void recall(const finish_conditions& all, const std::map<std::string, std::string>& memory);

}  // namespace troupe
