// The kinds of events: what a job reports to users. Each kind is a struct that lists its fields
// once, in `fields`, with their names and meaning. Everything that needs the fields by name is made
// from this list: the flat form for the wire and the journal (event.hpp), JSON and its schema
// (runtime/node/events).
//
// size: one struct for each kind
//
// To add a kind: write its struct here, and add it to `job_event_kind`.
//
// `fields(self, f)` calls f once per field, in the order of JSON:
//   f("name", member, about)      a double or a bool; a std::uint64_t (a count); an optional of
//                                 these, which is left out if it is empty; a std::string or a list
//                                 of them, which are left out if they are empty
//   f.positive("name", n, about)  a count that is left out if it is 0
//   f.numbers(member, about)      a member that stands for any number of named numbers
//   f.message(member, about)      the text of the event; at most one per kind
//   f.internal("name", member)    texts that JSON does not show
// Threads: values.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "ops/one_of.hpp"
#include "runtime/messages/mode_choice.hpp"
#include "runtime/messages/value_histogram.hpp"

namespace troupe {

using named_numbers = std::vector<std::pair<std::string, double>>;

// `id` distinguishes kinds that have the same name in JSON.
struct event_name {
  const char* name;
  const char* about;
  const char* id = name;
};

// How often weights of a parameter were used at an age of 0, 1, ... clocks.
struct staleness_entry {
  std::string parameter;                         // "conv1.weight"
  std::map<std::uint64_t, std::uint64_t> reads;  // number of reads by staleness in clocks
  std::uint64_t count() const;
  double mean() const;
  friend bool operator==(const staleness_entry&, const staleness_entry&) = default;
};

enum class how_ended : std::uint8_t { finished, stopped };

// A role that has failed. Its text is the message of an error_event without the role's name.
struct role_failure {
  std::string role;  // "worker0/conv1"
  std::string reason;
  std::string text() const { return "role " + role + ": " + reason; }
  static auto fields(auto& s) { return std::tie(s.role, s.reason); }
};

// --- progress

struct step_event {
  double loss = 0;
  std::optional<double> lr = {};
  double examples_per_s = 0;
  double step_seconds = 0;
  std::uint64_t skipped = 0;

  static constexpr event_name kind{"step", "A training step is complete."};
  static void fields(auto& self, auto& f) {
    f("loss", self.loss, "mean loss of the step's examples; not finite for a skipped step");
    f("lr", self.lr, "learning rate of the step");
    f("examples_per_s", self.examples_per_s, "training examples per second, over the last steps");
    f("step_seconds", self.step_seconds, "time since the last step, in seconds");
    f.positive("skipped", self.skipped, "number of steps that were skipped so far, because a gradient was not finite");
  }
};

struct eval_event {
  std::optional<double> accuracy = {};
  named_numbers others = {};
  double loss = 0;

  static constexpr event_name kind{"eval", "An evaluation on the test data is complete."};
  static void fields(auto& self, auto& f) {
    f("accuracy", self.accuracy, "share of the examples that are classified correctly");
    f.numbers(self.others, "values of the net's other metric layers, by layer");
    f("loss", self.loss, "mean loss of the test examples");
  }
};

struct staleness_event {
  std::vector<staleness_entry> parameters = {};

  static constexpr event_name kind{"staleness", "The age, in clocks, of the weights that steps have used, by parameter."};
  static void fields(auto& self, auto& f) { f.numbers(self.parameters, "number of reads, by parameter and age"); }
};

struct histogram_event {
  bool gradient = false;  // false: of the weights
  std::string parameter = {};
  value_histogram values = {};

  static constexpr event_name kind{"histogram",
                                   "A histogram of the weights or the gradient of a parameter; `message` is its name."};
  static void fields(auto& self, auto& f) {
    f("gradient", self.gradient, "1: of the gradient; 0: of the weights");
    f.numbers(self.values, "count, zeros, not_finite, min, max, sum, sum_squares, and \"<LIMIT\" for each bucket");
    f.message(self.parameter, "name of the parameter");
  }
};

struct checkpoint_event {
  std::string file = {};

  static constexpr event_name kind{"checkpoint", "A checkpoint was saved."};
  static void fields(auto& self, auto& f) { f("file", self.file, "path of the checkpoint"); }
};

struct best_event {
  std::optional<double> accuracy = {};
  double loss = 0;

  static constexpr event_name kind{"best", "The weights of this step are the best so far, and were stored."};
  static void fields(auto& self, auto& f) {
    f("accuracy", self.accuracy, "accuracy of these weights");
    f("loss", self.loss, "mean loss of the test examples with these weights");
  }
};

struct begins_event {
  std::string message = {};

  static constexpr event_name kind{"begins", "A note about the state with which the job begins."};
  static void fields(auto& self, auto& f) { f.message(self.message, "the note"); }
};

struct run_resumed_event {
  static constexpr event_name kind{"run_resumed", "`troupe resume` continues the run from this step."};
  static void fields(auto&, auto&) {}
};

// --- answers to commands, and changes of the plan

struct paused_event {
  static constexpr event_name kind{"paused", "The job has paused."};
  static void fields(auto&, auto&) {}
};

struct resumed_event {
  static constexpr event_name kind{"resumed", "The job continues after a pause."};
  static void fields(auto&, auto&) {}
};

struct set_event {
  std::pair<std::string, double> setting = {};  // key as in the job file, and its value
  std::optional<double> rate = {};              // of "train.dynamics.lr", the base: what the schedule makes of it

  // Whether schedule or lr_scale make another rate of the base.
  bool rate_differs() const { return rate && std::abs(*rate - setting.second) > 1e-6 * std::abs(*rate); }

  static constexpr event_name kind{"set", "A setting has a new value from this step on."};
  static void fields(auto& self, auto& f) {
    f("rate", self.rate, "learning rate of the first step with a new train.dynamics.lr, by the schedule and lr_scale");
    f.numbers(self.setting, "the value, by its key in the job file");
  }
};

struct mode_event {
  mode_choice mode = {};

  static constexpr event_name kind{"mode", "The job has switched to another mode."};
  static void fields(auto& self, auto& f) { f.message(self.mode, "the mode and its options"); }
};

struct refused_event {
  std::string message = {};

  static constexpr event_name kind{"refused", "A command was refused."};
  static void fields(auto& self, auto& f) { f.message(self.message, "the reason"); }
};

// The coordinator role refuses to hand over to the next plan. Hosts report it as refused_event.
struct handover_refused_event {
  std::string message = {};

  static constexpr event_name kind{"refused", "The job cannot hand over to its next plan.", "handover_refused"};
  static void fields(auto& self, auto& f) {
    bool handover = true;
    f("handover", handover, "1");
    f.message(self.message, "the reason");
  }
};

struct balance_event {
  std::vector<std::uint32_t> packets = {};  // by worker

  static constexpr event_name kind{"balance", "The coordinator proposes other numbers of packets per worker."};
  static void fields(auto& self, auto& f) {
    f.numbers(self.packets, "number of packets of each worker, as worker0, worker1, ...");
    std::string text = "packets by the speed of the workers:";
    for (std::size_t w = 0; w < self.packets.size(); ++w) text += (w == 0 ? " " : ", ") + std::to_string(self.packets[w]);
    f.message(text, "the numbers");
  }
};

struct moved_event {
  double ms = 0;
  std::string message = {};

  static constexpr event_name kind{"moved", "The job runs with a new plan."};
  static void fields(auto& self, auto& f) {
    f("ms", self.ms, "milliseconds in which no step was computed");
    f.message(self.message, "the change");
  }
};

struct recovered_event {
  double ms = 0;
  std::uint64_t steps_again = 0;
  std::string where = {};
  std::string message = {};
  double planned_ms = 0, ready_ms = 0, state_ms = 0, replaced_ms = 0;  // parts of `ms`
  bool live = false;
  std::uint64_t plans = 1;

  static constexpr event_name kind{"recovered", "The job continues after the failure of a node or role."};
  static void fields(auto& self, auto& f) {
    f("ms", self.ms, "milliseconds since the failure was noticed");
    f("planned_ms", self.planned_ms, "of them, until the last plan without the node was made");
    f("ready_ms", self.ready_ms, "of them, from then until all nodes had prepared it");
    f("state_ms", self.state_ms, "of them, from then until the surviving state was collected");
    f("replaced_ms", self.replaced_ms, "of them, from then until all nodes had replaced their roles");
    f("live", self.live, "true: with the state of the remaining nodes; false: with a checkpoint");
    f("plans", self.plans, "number of plans: more than 1 if further nodes failed meanwhile");
    f("steps_again", self.steps_again, "number of steps that are computed again");
    f("where", self.where, "the failed node");
    f.message(self.message, "the failure, and how the job continues");
  }
};

// --- warnings. Events named "alert" report a problem with which training continues.

struct warning_event {
  std::string message = {};

  static constexpr event_name kind{"warning", "Something that the user should look at."};
  static void fields(auto& self, auto& f) { f.message(self.message, "the warning"); }
};

struct alert_event {
  std::string message = {};

  static constexpr event_name kind{"alert", "A problem with which training continues."};
  static void fields(auto& self, auto& f) { f.message(self.message, "the problem"); }
};

struct step_skipped_event {
  std::uint64_t skipped = 0;
  std::string message = {};

  static constexpr event_name kind{"alert", "A step was skipped, because a gradient is not finite.", "step_skipped"};
  static void fields(auto& self, auto& f) {
    f("skipped", self.skipped, "number of skipped steps so far");
    f.message(self.message, "the parameter and the step");
  }
};

struct checkpoint_lost_event {
  std::string message = {};

  static constexpr event_name kind{"alert", "A checkpoint was not saved where it belongs.", "checkpoint_lost"};
  static void fields(auto& self, auto& f) { f.message(self.message, "the reason, and the place of the checkpoint if it has one"); }
};

struct slow_task_event {
  double running_s = 0;
  std::optional<std::uint64_t> packet = {};
  std::string where = {}, layer = {};
  std::string message = {};

  static constexpr event_name kind{"alert", "A task has been running for too long.", "slow_task"};
  static void fields(auto& self, auto& f) {
    f("running_s", self.running_s, "seconds for which the task has been seen running");
    f("packet", self.packet, "the packet that it computes");
    f("where", self.where, "its node");
    f("layer", self.layer, "its layer");
    f.message(self.message, "the task");
  }
};

struct straggler_event {
  std::string role = {}, where = {};
  double step_ms = 0, peers_ms = 0;
  std::string message = {};

  static constexpr event_name kind{"alert", "A role or worker makes the steps slow.", "straggler"};
  static void fields(auto& self, auto& f) {
    f("role", self.role, "the role, or the worker if all its roles are slow");
    f("where", self.where, "its node");
    f("step_ms", self.step_ms, "milliseconds that its tasks take in a step");
    f("peers_ms", self.peers_ms, "the median of its peers");
    f.message(self.message, "the role, and what it costs");
  }
};

struct fault_injected_event {
  std::string where = {}, by = {}, fault = {}, until = {};
  std::string message = {};

  static constexpr event_name kind{"alert", "A person injects a fault.", "fault_injected"};
  static void fields(auto& self, auto& f) {
    f("where", self.where, "the node");
    f("by", self.by, "the person");
    f("fault", self.fault, "kind of the fault");
    f("until", self.until, "when it ends");
    f.message(self.message, "the fault");
  }
};

// --- ends: a job has exactly one of these events, its last

struct done_event {
  how_ended how = how_ended::finished;
  std::uint64_t steps = 0;
  double epochs = 0;
  std::optional<double> test_accuracy = {};
  double seconds = 0;
  std::string weights_sha256 = {};
  std::uint64_t packets = 0;
  std::optional<std::uint64_t> tcp_bytes = {};
  std::vector<std::string> alerts = {};
  std::string run = {};

  static constexpr event_name kind{"done", "The job has ended."};
  bool stopped() const { return how == how_ended::stopped; }
  static void fields(auto& self, auto& f) {
    f("steps", self.steps, "number of complete steps");
    f("epochs", self.epochs, "number of passes over the training data");
    f("test_accuracy", self.test_accuracy, "accuracy of the final weights");
    f("seconds", self.seconds, "duration of the job");
    f("weights_sha256", self.weights_sha256, "hash of the final weights");
    f("packets", self.packets, "number of packets per step");
    f("tcp_bytes", self.tcp_bytes, "bytes that the nodes have sent to each other");
    f("alert", self.alerts, "what was not saved where it belongs");
    f("run", self.run, "the run folder");
    f.message(self.how, "\"finished\", or \"stopped\" before the last step");
  }
};

struct preempted_event {
  std::string file = {};
  std::vector<std::string> alerts = {};
  std::string goes_on = {};
  std::string message = {};

  static constexpr event_name kind{"preempted", "The job was stopped with a checkpoint, because a node shuts down."};
  static void fields(auto& self, auto& f) {
    f("file", self.file, "path of the checkpoint");
    f("alert", self.alerts, "what was not saved where it belongs");
    f("goes_on", self.goes_on, "when the job continues by itself");
    f.message(self.message, "the reason");
  }
};

struct error_event {
  std::string message = {};
  std::string where = {};
  std::string post_mortem = {};
  std::optional<role_failure> role = {};  // a role has failed, and no more than this role

  static constexpr event_name kind{"error", "The job has failed."};
  static void fields(auto& self, auto& f) {
    f("where", self.where, "node or role of the failure");
    f("post_mortem", self.post_mortem, "the post-mortem folder, or why there is none");
    f.internal("role", self.role);
    f.message(self.message, "the error");
  }
};

// Only in the log of a REPL (runtime/cluster/view/events.hpp): a user's command did not reach the
// job.
struct not_told_event {
  std::string message = {};

  static constexpr event_name kind{"not told", "A command did not reach the job."};
  static void fields(auto& self, auto& f) { f.message(self.message, "the reason"); }
};

// Likewise: the job is already as a user's command wants it, e.g. `pause` of a paused job.
struct unchanged_event {
  static constexpr event_name kind{"unchanged", "A command found the job as it wants it."};
  static void fields(auto&, auto&) {}
};

struct job_event_kinds {
  using variant = std::variant<step_event, eval_event, staleness_event, histogram_event, checkpoint_event, best_event, begins_event,
                               run_resumed_event, paused_event, resumed_event, set_event, mode_event, refused_event,
                               handover_refused_event, balance_event, moved_event, recovered_event, warning_event, alert_event,
                               step_skipped_event, checkpoint_lost_event, slow_task_event, straggler_event, fault_injected_event,
                               done_event, preempted_event, error_event, not_told_event, unchanged_event>;
};
using job_event_kind = one_of<job_event_kinds>;
extern template class one_of<job_event_kinds>;

}  // namespace troupe
