// The command that writes a trace of a running job: trace (docs/traces.md).
#include "actors/repl/command.hpp"
#include "actors/repl/text.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

repl_reply reply_of(const repl_request& r, const expected<trace_summary>& written) {
  if (!written) return r.fail(written.error().text);
  if (r.json) {
    repl_text::json_object o{
        {"command", "trace"}, {"file", written->file}, {"activities", written->activities}, {"lost", written->lost}};
    if (!written->notes.empty()) o["notes"] = written->notes;
    return {kind::ok, repl_text::line_of(o), {}};
  }
  return {kind::ok, trace_summary_text(*written), {}};
}

repl_reply run_trace(const repl_request& r) {
  const auto& a = r.args;
  if (a.size() == 1 && a[0] == "stop") return reply_of(r, r.backend.stop_trace());
  if (a.size() == 2 && a[0] == "last") return reply_of(r, r.backend.write_latest(a[1]));
  if (a.size() != 2 || a[0] != "start") return r.usage("usage: trace start FILE | trace stop | trace last FILE");
  if (const auto begun = r.backend.start_trace(a[1]); !begun) return r.fail(begun.error().text);
  if (r.json) return {kind::ok, repl_text::line_of({{"command", "trace"}, {"file", a[1]}}), {}};
  return {kind::ok, "writes a trace to " + a[1] + " until `trace stop`", {}};
}

std::vector<std::string> start_or_stop(const repl_typed&) { return {"start", "stop", "last"}; }

}  // namespace

std::vector<repl_command> repl_commands_that_trace() {
  return {{.help = {"trace",
                    "start FILE | stop | last FILE",
                    "write what the roles do to a trace file, for ui.perfetto.dev",
                    {{"start FILE", "begins; FILE is a path where the job runs, with --cluster a path here"},
                     {"stop", "completes the file"},
                     {"last FILE", "writes what the roles did in the last 30 s, as far as it is still known"}},
                    {{"trace start lenet.pftrace", "writes messages, tasks and queues of all roles from now on"}}},
           .run = run_trace,
           .completes = {start_or_stop},
           .needs = right::run_jobs}};
}

}  // namespace troupe
