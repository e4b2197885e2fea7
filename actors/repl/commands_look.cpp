// Commands that show a snapshot of the backend: status, nodes, roles, queues, waits, jobs.
#include <algorithm>

#include "actors/repl/command.hpp"
#include "actors/repl/diagnosis.hpp"
#include "actors/repl/text.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

repl_reply run_diagnose(const repl_request& r) {
  if (!r.args.empty()) return r.usage("usage: diagnose");
  const auto v = r.backend.view();
  const auto d = diagnose(v, r.backend.usual_step());
  const auto text = r.json ? repl_text::line_of(diagnosis_object(v, d)) : diagnosis_text(v, d);
  return {d.stuck() ? kind::failed : kind::ok, text, {}};
}

template <std::string (*text)(bool, const repl_view&)>
repl_reply show(const repl_request& r) {
  return {kind::ok, text(r.json, r.backend.view()), {}};
}

repl_reply run_roles(const repl_request& r) {
  auto v = r.backend.view();
  if (r.args.size() > 1) return r.usage("roles [NODE]");
  if (!r.args.empty()) {
    const auto names = repl_choice::nodes({r.args, v});
    if (std::find(names.begin(), names.end(), r.args[0]) == names.end())
      return r.usage("no node " + in_quotes(r.args[0]) + did_you_mean(r.args[0], names));
    std::erase_if(v.roles, [&](const auto& x) { return x.node != r.args[0]; });
  }
  return {kind::ok, repl_roles_text(r.json, v), {}};
}

}  // namespace

std::vector<repl_command> repl_commands_that_look() {
  return {
      {.help = {"status",
                "",
                "show this node, and the current job: step, epoch, loss, accuracy, rate, time left, mode, learning rate, memory",
                {},
                {{"status", "prints one paragraph"}}},
       .run = show<repl_status_text>,
       .needs = right::look},
      {.help = {"nodes",
                "",
                "list the nodes: state, addresses, bytes on the data plane, memory, GPUs",
                {},
                {{"nodes", "prints one line for each node"}}},
       .run = show<repl_nodes_text>,
       .needs = right::look},
      {.help = {"roles",
                "[NODE]",
                "list the roles of the jobs: step, version, messages, dropped messages, busy seconds",
                {{"NODE", "a node; without it, all nodes"}},
                {{"roles", "lists the roles of all nodes"}, {"roles n2", "lists the roles of n2"}}},
       .run = run_roles,
       .completes = {repl_choice::nodes},
       .needs = right::look},
      {.help = {"queues",
                "",
                "show the messages and packets held by each role, and its credit",
                {},
                {{"queues", "prints one line for each role"}}},
       .run = show<repl_queues_text>,
       .needs = right::look},
      {.help = {"waits",
                "",
                "show what each role waits for and for how long, and the chain of waits down to the role or connection that holds "
                "up the others",
                {},
                {{"waits", "prints the roots, then one line for each role that waits"}}},
       .run = show<repl_waits_text>,
       .needs = right::look},
      {.help = {"diagnose",
                "",
                "say whether the job is stuck, and what holds it up; fails if it is stuck",
                {},
                {{"diagnose", "prints the roots that have lasted longer than a job of this speed explains"}}},
       .run = run_diagnose,
       .needs = right::look},
      {.help = {"jobs", "", "list queued, running and finished jobs", {}, {{"jobs", "prints one line for each job"}}},
       .run = show<repl_jobs_text>,
       .needs = right::look},
  };
}

}  // namespace troupe
