#include "apps/commands/develop/sim_console.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "actors/repl/repl.hpp"
#include "actors/repl/signals.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/cluster/view/injection.hpp"

namespace troupe {
namespace {

using console_json = nlohmann::ordered_json;
using reply_kind = repl_reply::kind;

constexpr const char* operator_name = "operator";
constexpr std::size_t shown_at_most = 20;

std::optional<std::uint64_t> whole_number(const std::string& text) {
  std::uint64_t n = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (bad != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return n;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> all;
  for (std::string w; in >> w;) all.push_back(w);
  return all;
}

std::optional<std::uint32_t> node_named(const sim::sim_cluster& c, const std::string& name) {
  for (std::uint32_t n = 0; n < c.nodes(); ++n)
    if (c.name_of(n) == name) return n;
  return std::nullopt;
}

// As the backend of a daemon (actors/control/host/repl.cpp).
class sim_backend final : public repl_backend {
 public:
  sim_backend(sim::sim_cluster& c, sim::sim_daemon& d) : cluster_(c), daemon_(d) {}
  repl_view view() const override { return daemon_.published(); }
  const repl_events& events() const override { return daemon_.said(); }
  expected<command_id> tell(std::uint32_t job, command c) override {
    return daemon_.command_of({operator_name, certificate_role::admin}, job, std::move(c));
  }
  expected<std::uint32_t> submit(const repl_submission&) override {
    return unexpected(error("submit: a simulation runs the job that it was started with"));
  }
  expected<void> inject(const injection& i) override {
    const auto node = node_named(cluster_, i.node);
    if (!node) return unexpected(error("inject: there is no node " + in_quotes(i.node)));
    sim::happening h;
    h.nodes = {*node};
    h.length = i.lasts;
    switch (i.what) {
      case fault_kind::kill:
        h.kind = sim::fault_kind::kill;
        h.length = duration(-1);
        break;
      case fault_kind::stop: h.kind = sim::fault_kind::stop; break;
      case fault_kind::drop: h.kind = sim::fault_kind::partition; break;
      case fault_kind::slow_disk:
        h.kind = sim::fault_kind::slow_disk;
        h.factor = 10;
        break;
      case fault_kind::delay:
        return unexpected(error("inject: delay is not simulated here; use a faults file with kind = \"delay\""));
    }
    cluster_.suffer(h);
    return {};
  }

 private:
  sim::sim_cluster& cluster_;
  sim::sim_daemon& daemon_;
};

}  // namespace

sim_console::sim_console(sim::sim_cluster& cluster, const output& out, std::function<bool()> interrupted)
    : cluster_(cluster), out_(out), interrupted_(std::move(interrupted)) {}

const std::vector<sim_console::command>& sim_console::commands() {
  using c = sim_console;
  static const std::vector<command> all = {
      {"time", "", "show the virtual time and the step", 0, 0, &c::time},
      {"step", "[N]", "run until N more steps are complete (default: 1)", 0, 1, &c::step},
      {"until", "TIME", "run until this virtual time, in seconds since the start of the cluster, e.g. 12.5", 1, 1, &c::until},
      {"run", "", "run until the job is over", 0, 0, &c::to_end},
      {"lose", "NODE", "power off the machine of this node", 1, 1, &c::lose},
      {"start", "NODE", "start the daemon of this node again", 1, 1, &c::start},
      {"waits", "", "show which roles wait, and for what", 0, 0, &c::waits},
      {"help", "", "show this list, and the commands of a cluster", 0, 0, &c::help},
  };
  return all;
}

repl_reply sim_console::wrong(const std::string& why) const {
  return {reply_kind::usage, out_.json() ? console_json{{"event", "error"}, {"message", why}}.dump() : "error: " + why};
}

repl_reply sim_console::run(const std::string& line) {
  auto args = words_of(line);
  if (args.empty() || args[0][0] == '#') return {};
  const auto name = args[0];
  args.erase(args.begin());
  if (name == "quit" || name == "exit") return {reply_kind::quit, {}};
  for (const auto& c : commands()) {
    if (name != c.name) continue;
    if (args.size() < c.least || args.size() > c.most)
      return wrong("usage: " + std::string(c.name) + (*c.arguments ? " " : "") + c.arguments);
    return (this->*c.run)(args);
  }
  return of_cluster(line);
}

// A command of the cluster's REPL. Time passes while its outcome is awaited.
repl_reply sim_console::of_cluster(const std::string& line) {
  if (!next_.empty() && line == next_) {
    const auto until = cluster_.hosts().now() + repl_ask_every;
    while (cluster_.hosts().now() < until && cluster_.step()) {
    }
  }
  auto* d = cluster_.at(cluster_.coordinator());
  if (!d) return wrong("the daemon of " + cluster_.name_of(cluster_.coordinator()) + " does not run; `start` starts it");
  sim_backend here(cluster_, *d);
  auto reply = repl_session(here, out_.json()).run(line);
  next_ = reply.next;
  return reply;
}

std::uint64_t sim_console::steps() const {
  const auto& all = cluster_.events();
  const auto last = std::find_if(all.rbegin(), all.rend(), [](const sim::heard_event& e) { return e.kind == "step"; });
  return last == all.rend() ? 0 : last->step;
}

repl_reply sim_console::play(const std::function<bool()>& over) {
  for (std::uint64_t n = 0; !over() && !cluster_.ended(); ++n)
    if (!cluster_.step() || (n % 256 == 0 && interrupted_())) break;
  std::vector<std::string> lines;
  for (; told_ < cluster_.events().size(); ++told_) {
    const auto& e = cluster_.events()[told_];
    if (out_.json())
      lines.push_back(
          console_json{{"event", e.kind}, {"step", e.step}, {"message", e.text}, {"virtual_seconds", seconds_of(e.when)}}.dump());
    else
      lines.push_back(fixed(seconds_of(e.when), 3) + " s  " + e.kind + " " + with_commas(e.step) +
                      (e.text.empty() ? "" : ": " + e.text));
  }
  std::string text;
  const auto skipped = lines.size() > shown_at_most && !out_.json() ? lines.size() - shown_at_most : 0;
  if (skipped > 0) text = "(" + with_commas(skipped) + " events not shown)\n";
  for (auto i = skipped; i < lines.size(); ++i) text += lines[i] + "\n";
  return {reply_kind::ok, text + time({}).text};
}

repl_reply sim_console::time(const words&) {
  const auto now = seconds_of(cluster_.hosts().now());
  if (out_.json())
    return {reply_kind::ok,
            console_json{{"event", "time"}, {"virtual_seconds", now}, {"step", steps()}, {"over", cluster_.ended()}}.dump()};
  return {reply_kind::ok,
          fixed(now, 3) + " s (virtual), step " + with_commas(steps()) + (cluster_.ended() ? "; the job is over" : "")};
}

repl_reply sim_console::step(const words& args) {
  const auto n = args.empty() ? std::optional<std::uint64_t>(1) : whole_number(args[0]);
  if (!n || *n == 0) return wrong("step takes a number of steps, not " + in_quotes(args[0]));
  const auto begun = cluster_.events().size();
  return play([this, begun, n = *n] {
    const auto& all = cluster_.events();
    const auto made = std::count_if(all.begin() + static_cast<std::ptrdiff_t>(begun), all.end(),
                                    [](const sim::heard_event& e) { return e.kind == "step"; });
    return static_cast<std::uint64_t>(made) >= n;
  });
}

repl_reply sim_console::until(const words& args) {
  double seconds = 0;
  const auto [end, bad] = std::from_chars(args[0].data(), args[0].data() + args[0].size(), seconds);
  const bool whole = end == args[0].data() + args[0].size() || std::string_view(end) == "s";
  if (bad != std::errc() || !whole || !(seconds >= 0 && seconds < 1e9))
    return wrong("until takes a time in seconds, not " + in_quotes(args[0]));
  const time_point when(static_cast<std::int64_t>(1e9 * seconds));
  return play([this, when] { return cluster_.hosts().now() >= when; });
}

repl_reply sim_console::to_end(const words&) {
  return play([] { return false; });
}

repl_reply sim_console::on_node(const std::string& node, void (sim::sim_cluster::*what)(std::uint32_t)) {
  const auto n = node_named(cluster_, node);
  if (!n) return wrong("there is no node " + in_quotes(node));
  (cluster_.*what)(*n);
  return time({});
}
repl_reply sim_console::lose(const words& args) { return on_node(args[0], &sim::sim_cluster::lose); }
repl_reply sim_console::start(const words& args) { return on_node(args[0], &sim::sim_cluster::start); }
repl_reply sim_console::waits(const words&) { return {reply_kind::ok, cluster_.waits()}; }

repl_reply sim_console::help(const words&) {
  std::string text;
  for (const auto& c : commands()) {
    auto usage = std::string(c.name) + (*c.arguments ? " " : "") + c.arguments;
    text += left(usage, 16) + c.about + "\n";
  }
  return {reply_kind::ok, text + "quit            end\n\nand those of a cluster:\n" + of_cluster("help").text};
}

int run_sim_console(const sim::cluster_config& c, const std::string* commands, const output& out) {
  repl_signals signals;
  sim::sim_cluster cluster(c);
  sim_console console(cluster, out, [] { return repl_signals::ends() != 0; });
  repl_options o;
  o.prompt = "sim> ";
  o.has_commands = commands != nullptr;
  if (commands) o.commands = *commands;
  o.json = out.json();
  return run_repl([&](const std::string& line, const std::string*) { return console.run(line); }, o, signals);
}

}  // namespace troupe
