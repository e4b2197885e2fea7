// The command that injects a fault into a node: inject (docs/failures.md, "Injecting faults").
#include <algorithm>

#include "actors/repl/command.hpp"
#include "actors/repl/text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/cluster/view/injection.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

std::string inject_usage() {
  return "usage: inject " + joined(fault_words(), "|") + " NODE [by TIME] [for TIME]; a TIME is e.g. 50ms, 10s or 2min";
}

expected<injection> read_injection(const repl_arguments& arguments) {
  const auto wrong = [](std::string why) { return unexpected(error(std::move(why))); };
  if (arguments.size() < 2) return wrong(inject_usage());
  const auto what = fault_named(arguments[0]);
  if (!what)
    return wrong(in_quotes(arguments[0]) + " is not a fault" + did_you_mean(arguments[0], fault_words()) +
                 " (available: " + joined(fault_words()) + ")");
  injection i{*what, arguments[1], fault_lasts(*what) ? usual_fault_time : fault_time{0}, usual_fault_amount(*what)};
  bool said_for = false, said_by = false;
  for (std::size_t at = 2; at < arguments.size(); at += 2) {
    const auto& argument = arguments[at];
    if (argument != "for" && argument != "by") return wrong(in_quotes(argument) + " is neither 'by' nor 'for'; " + inject_usage());
    if (at + 1 == arguments.size()) return wrong("'" + argument + "' needs a time, e.g. " + argument + " 10s");
    auto& said = argument == "for" ? said_for : said_by;
    if (said) return wrong("'" + argument + "' is given twice");
    said = true;
    const auto time = repl_time_of(arguments[at + 1]);
    if (!time) return wrong(in_quotes(arguments[at + 1]) + " is not a time: write e.g. 50ms, 10s or 2min");
    (argument == "for" ? i.lasts : i.by) = *time;
  }
  if (said_for && !fault_lasts(*what))
    return wrong(arguments[0] + " takes no 'for': a killed daemon stays down until it is started again");
  if (said_by && usual_fault_amount(*what).count() == 0) return wrong(arguments[0] + " takes no 'by': only delay and slow-disk do");
  return check_fault_times(i).transform([&] { return i; });
}

repl_reply run_inject(const repl_request& r) {
  const auto read = read_injection(r.args);
  if (!read) return r.usage(read.error().text);
  const auto& i = *read;
  if (const auto done = r.backend.inject(i); !done) return r.fail(done.error().text);
  if (!r.json) return {kind::ok, "injected at " + i.node + ": " + text_of(i), {}};
  return {kind::ok,
          repl_text::line_of({{"command", "inject"},
                              {"fault", text_of(i.what)},
                              {"node", i.node},
                              {"lasts_ms", i.lasts.count()},
                              {"by_ms", i.by.count()}}),
          {}};
}

std::vector<std::string> faults(const repl_typed&) { return fault_words(); }
std::vector<std::string> for_and_by(const repl_typed& t) {
  if (t.before.back() == "for") return {"10s"};
  if (t.before.back() == "by") return {"50ms", "200ms"};
  return {"by", "for"};
}

}  // namespace

std::vector<repl_command> repl_commands_that_harm() {
  using namespace repl_choice;
  return {{.help = {"inject",
                    "FAULT NODE [by TIME] [for TIME]",
                    "inject a fault into a node of a cluster; needs inject = true in the cluster file and the role admin",
                    {{"FAULT", "kill; stop, drop (for 10s); delay (by 50ms), slow-disk (by 200ms)"},
                     {"NODE", "a node of the cluster"},
                     {"by TIME", "how long each message or write is delayed"},
                     {"for TIME", "how long the fault lasts"}},
                    {{"inject kill n2", "ends the daemon of n2 as kill -9 does"},
                     {"inject delay n2 by 20ms for 1min", "delays the messages that n2 receives"}}},
           .run = run_inject,
           .completes = {faults, nodes},
           .completes_rest = for_and_by}};
}

}  // namespace troupe
