// The session: parses a line into command and arguments, checks the client's right, and runs the
// command. A reply shows one snapshot of the backend.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "actors/repl/command.hpp"
#include "actors/repl/words.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

const std::vector<std::pair<std::string, repl_reply (*)(const repl_request&)>>& hidden() {
  static const std::vector<std::pair<std::string, repl_reply (*)(const repl_request&)>> entries = {{"_follow", repl_follow},
                                                                                                   {"_watch", repl_watch},
                                                                                                   {"_complete", repl_completed},
                                                                                                   {"_machine", repl_machine},
                                                                                                   {"_link", repl_link_to}};
  return entries;
}

bool waits_for_its_turn(const repl_job& j) { return j.state <= job_state::queued; }

}  // namespace

repl_arguments repl_split(const std::string& line) { return repl_read_words(line).list; }

std::optional<std::chrono::milliseconds> repl_time_of(const std::string& text) {
  const auto unit_at = std::min(text.find_first_not_of("0123456789."), text.size());
  double n = 0;
  if (unit_at == 0 || !repl_number(text.substr(0, unit_at), n)) return std::nullopt;
  static const std::array<std::pair<std::string, double>, 3> units = {{{"ms", 1}, {"s", 1e3}, {"min", 6e4}}};
  for (const auto& [unit, ms] : units) {
    if (text.substr(unit_at) != unit) continue;
    const double all = std::round(n * ms);
    return all <= 1e12 ? std::optional(std::chrono::milliseconds{static_cast<std::int64_t>(all)}) : std::nullopt;
  }
  return std::nullopt;
}

expected<std::uint32_t> repl_job_of(const repl_view& v, const repl_arguments& args, std::size_t at) {
  if (args.size() > at) {
    std::uint32_t n = 0;
    if (!repl_number(args[at], n) || !find_job(v, n)) return unexpected(error("there is no job " + in_quotes(args[at])));
    return n;
  }
  if (const auto* j = active_job(v)) return j->id;
  return unexpected(error("no job is running" + waiting_jobs_text(v)));
}

const repl_job* active_job(const repl_view& v) {
  const auto at = std::find_if(v.jobs.begin(), v.jobs.end(), [](const auto& j) { return !j.over() && !waits_for_its_turn(j); });
  return at == v.jobs.end() ? nullptr : &*at;
}

std::string waiting_jobs_text(const repl_view& v) {
  std::string text;
  for (const auto& j : v.jobs)
    if (waits_for_its_turn(j)) text += "; " + repl_named(j.id) + " is " + text_of(j.state);
  return text;
}

const repl_job* find_job(const repl_view& v, std::uint32_t id) {
  const auto at = std::find_if(v.jobs.begin(), v.jobs.end(), [&](const auto& j) { return j.id == id; });
  return at == v.jobs.end() ? nullptr : &*at;
}

repl_reply repl_session::run(const std::string& line, const std::string* text) {
  const auto begin = line.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || line[begin] == '#') return {};
  const auto words = repl_read_words(line);
  const auto& args = words.list;
  const auto name = repl_command_name(args[0]);
  repl_request r{backend_, json_, {args.begin() + 1, args.end()}, text, line, find_repl_command(name)};
  if (!words.error.empty() && name != "_complete") return r.usage(words.error);
  if (r.command) {
    if (const auto fine = backend_.check(r.command->needs, name); !fine) return r.fail(fine.error().text);
    return r.command->run(r);
  }
  for (const auto& [argument, run] : hidden()) {
    if (argument != name) continue;
    const auto fine = backend_.check(right::look, "ask");
    return fine ? run(r) : r.fail(fine.error().text);
  }
  return r.usage(repl_unknown_command(name));
}

repl_answers session_answers() {
  return {[](repl_backend& of, bool json, const std::string& line, const std::string* text) {
            return repl_session(of, json).run(line, text);
          },
          submitted_reply};
}

}  // namespace troupe
