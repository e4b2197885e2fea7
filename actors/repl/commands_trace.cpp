// The command that writes a trace of a running job: trace (docs/traces.md).
#include "actors/repl/command.hpp"
#include "actors/repl/text.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

repl_reply stop_trace(const repl_request& r) {
  const auto written = r.backend.stop_trace();
  if (!written) return r.fail(written.error().text);
  if (r.json)
    return {kind::ok,
            repl_text::line_of(
                {{"command", "trace"}, {"file", written->file}, {"activities", written->activities}, {"lost", written->lost}}),
            {}};
  auto text =
      written->file + ": " + std::to_string(written->activities) + " messages, tasks and states; open it in ui.perfetto.dev";
  if (written->lost > 0)
    text += "\n" + std::to_string(written->lost) + " are missing: roles were faster than the trace could be written";
  return {kind::ok, std::move(text), {}};
}

repl_reply run_trace(const repl_request& r) {
  const bool starts = r.args.size() == 2 && r.args[0] == "start";
  if (!starts && !(r.args.size() == 1 && r.args[0] == "stop")) return r.usage("usage: trace start FILE | trace stop");
  if (!starts) return stop_trace(r);
  if (const auto begun = r.backend.start_trace(r.args[1]); !begun) return r.fail(begun.error().text);
  if (r.json) return {kind::ok, repl_text::line_of({{"command", "trace"}, {"file", r.args[1]}}), {}};
  return {kind::ok, "writes a trace to " + r.args[1] + " until `trace stop`", {}};
}

std::vector<std::string> start_or_stop(const repl_typed&) { return {"start", "stop"}; }

}  // namespace

std::vector<repl_command> repl_commands_that_trace() {
  return {{.help = {"trace",
                    "start FILE | stop",
                    "write what the roles do to a trace file, for ui.perfetto.dev",
                    {{"start FILE", "begins; FILE is a path where the job runs"}, {"stop", "completes the file"}},
                    {{"trace start lenet.pftrace", "writes messages, tasks and queues of all roles from now on"}}},
           .run = run_trace,
           .completes = {start_or_stop},
           .needs = right::run_jobs}};
}

}  // namespace troupe
