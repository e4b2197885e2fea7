// The session: parses a line into command and arguments, checks the client's right, and runs the
// command. A reply shows one snapshot of the backend.
#include <algorithm>
#include <utility>

#include "actors/repl/command.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

const std::vector<std::pair<std::string, repl_reply (*)(const repl_request&)>>& hidden() {
  static const std::vector<std::pair<std::string, repl_reply (*)(const repl_request&)>> entries = {{"_follow", repl_follow},
                                                                                                   {"_complete", repl_completed}};
  return entries;
}

}  // namespace

repl_arguments repl_split(const std::string& line) {
  repl_arguments out;
  std::string argument;
  bool quoted = false, any = false;
  for (char c : line) {
    if (c == '"') {
      quoted = !quoted;
      any = true;
    } else if (!quoted && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
      if (any) out.push_back(std::exchange(argument, {}));
      any = false;
    } else {
      argument += c;
      any = true;
    }
  }
  if (any) out.push_back(argument);
  return out;
}

std::optional<std::uint32_t> repl_job_of(const repl_view& v, const repl_arguments& args, std::size_t at, std::string& error) {
  if (args.size() > at) {
    std::uint32_t n = 0;
    const bool known = repl_number(args[at], n) && find_job(v, n);
    if (!known) error = "there is no job " + in_quotes(args[at]);
    if (!known) return std::nullopt;
    return n;
  }
  for (const auto& j : v.jobs)
    if (j.state == "running" || j.state == "paused" || j.state == "stopping") return j.id;
  error = "no job is running";
  return std::nullopt;
}

const repl_job* find_job(const repl_view& v, std::uint32_t id) {
  const auto at = std::find_if(v.jobs.begin(), v.jobs.end(), [&](const auto& j) { return j.id == id; });
  return at == v.jobs.end() ? nullptr : &*at;
}

repl_reply repl_session::run(const std::string& line, const std::string* text) {
  auto args = repl_split(line);
  if (args.empty() || args[0].starts_with('#')) return {};
  auto name = args[0];
  if (name == "exit") name = "quit";
  repl_request r{backend_, json_, {args.begin() + 1, args.end()}, text, line, find_repl_command(name)};
  if (r.command) {
    if (const auto why = backend_.why_not(r.command->needs, name); !why.empty()) return r.fail(why);
    return r.command->run(r);
  }
  for (const auto& [argument, run] : hidden()) {
    if (argument != name) continue;
    const auto why = backend_.why_not(right::look, "ask");
    return why.empty() ? run(r) : r.fail(why);
  }
  return r.usage("unknown command " + in_quotes(name) + did_you_mean(name, repl_choice::commands({{}, {}})));
}

repl_answers session_answers() {
  return {[](repl_backend& of, bool json, const std::string& line, const std::string* text) {
            return repl_session(of, json).run(line, text);
          },
          submitted_reply};
}

}  // namespace troupe
