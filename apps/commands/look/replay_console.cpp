#include "apps/commands/look/replay_console.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "ops/device.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/events/event_json.hpp"

namespace troupe {
namespace {

using console_json = nlohmann::ordered_json;
using reply_kind = repl_reply::kind;

constexpr std::size_t shown_at_most = 12, arrived_at_most = 20;

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

double milliseconds_of(time_point t) { return std::chrono::duration<double, std::milli>(t).count(); }

}  // namespace

// size: the place in the recording
struct replay_console::position {
  std::size_t plan = 0;
  std::unique_ptr<replay::player> player;
  std::uint64_t delivered = 0, step = 0;
  double loss = 0;
  time_point now{};
  bool over = false;
  std::vector<std::pair<role_id, event_effect>> events;  // of the message that was delivered last
};

replay_console::replay_console(std::vector<recorded_plan>& plans, std::shared_ptr<device> dev, const output& out,
                               std::function<bool()> interrupted)
    : plans_(plans), dev_(std::move(dev)), out_(out), interrupted_(std::move(interrupted)) {}

replay_console::~replay_console() = default;

int replay_console::open(std::size_t plan) {
  auto& p = plans_[plan];
  // The roles of an earlier player have taken the state that the job begins with.
  if (const auto code = prepare_to_replay(p, *dev_, out_); code != exit_done) return code;
  auto made = std::make_unique<position>();
  made->plan = plan;
  made->step = p.job->first_step;
  made->player = make_player(p, *dev_);
  made->player->on_event = [now = made.get()](role_id r, const event_effect& e) {
    now->events.emplace_back(r, e);
    if (const auto* s = e.as<step_event>()) {
      now->step = e.step;
      now->loss = s->loss;
    }
  };
  at_ = std::move(made);
  return exit_done;
}

const std::vector<replay_console::command>& replay_console::commands() {
  using c = replay_console;
  static const std::vector<command> all = {
      {"step", "[N]", "deliver the next N messages (default: 1)", 0, 1, &c::step},
      {"back", "[N]", "go back by N messages (default: 1), by a replay from the beginning of the plan", 0, 1, &c::back},
      {"next", "ROLE", "deliver messages up to the next one to this role", 1, 1, &c::next},
      {"to", "STEP", "deliver messages until this step is complete", 1, 1, &c::to},
      {"run", "", "deliver all messages of this plan", 0, 0, &c::to_end},
      {"where", "", "show the place: messages, time, step, loss", 0, 0, &c::where},
      {"role", "ROLE", "show the state of a role: what it waits for, its next message, messages that wait", 1, 1, &c::role},
      {"roles", "", "show all roles, a line each", 0, 0, &c::roles},
      {"plans", "", "show the plans of the recording", 0, 0, &c::list_plans},
      {"plan", "N", "go to the beginning of plan N", 1, 1, &c::go_to_plan},
      {"help", "", "show this list", 0, 0, &c::help},
  };
  return all;
}

repl_reply replay_console::wrong(const std::string& why) const {
  return {reply_kind::usage, out_.json() ? console_json{{"event", "error"}, {"message", why}}.dump() : "error: " + why};
}

repl_reply replay_console::run(const std::string& line) {
  auto args = words_of(line);
  if (args.empty() || args[0][0] == '#') return {};
  const auto name = args[0] == "?" ? "help" : args[0];
  args.erase(args.begin());
  if (name == "_complete") return complete(line.substr(line.find("_complete") + 9));
  if (name == "quit" || name == "exit") return {reply_kind::quit, {}};
  std::vector<std::string> names{"quit"};
  for (const auto& c : commands()) {
    names.emplace_back(c.name);
    if (name != c.name) continue;
    if (args.size() < c.least || args.size() > c.most)
      return wrong("usage: " + std::string(c.name) + (*c.arguments ? " " : "") + c.arguments);
    return (this->*c.run)(args);
  }
  return wrong("unknown command " + in_quotes(name) + did_you_mean(name, names) + "; `help` lists the commands");
}

repl_reply replay_console::complete(const std::string& typed) const {
  const auto all = words_of(typed);
  const bool first = all.empty() || (all.size() == 1 && typed.back() != ' ');
  const auto start = typed.empty() || typed.back() == ' ' ? std::string() : all.back();
  std::string found;
  const auto offer = [&](const std::string& name) {
    if (name.starts_with(start)) found += (found.empty() ? "" : "\n") + name;
  };
  if (first)
    for (const auto& c : commands()) offer(c.name);
  else if (all[0] == "role" || all[0] == "next")
    for (std::uint32_t r = 0; r < at_->player->roles(); ++r) offer(at_->player->name_of(role_id{r}));
  return {reply_kind::ok, found};
}

role_id replay_console::role_named(const std::string& name) const {
  for (std::uint32_t r = 0; r < at_->player->roles(); ++r)
    if (at_->player->name_of(role_id{r}) == name) return role_id{r};
  return no_role;
}

std::string replay_console::message_line(const replay::replayed& m) const {
  const auto& p = *at_->player;
  const bool of_task = m.what.kind == message(finished{}).index() || m.what.kind == replay::task_failed;
  const bool from_role = index_of(m.what.from) < p.roles() && !of_task;
  const auto from = from_role ? p.name_of(m.what.from) : std::string();
  if (out_.json()) {
    console_json o{{"event", "message"},
                   {"number", at_->delivered},
                   {"ms", milliseconds_of(m.what.at)},
                   {"to", p.name_of(m.to)},
                   {"from", from},
                   {"message", replay::kind_name(m.what)},
                   {"step", m.what.step},
                   {"packet", m.what.packet},
                   {"port", m.what.port},
                   {"what", m.what.what}};
    return o.dump();
  }
  return with_commas(at_->delivered) + "  " + fixed(milliseconds_of(m.what.at), 3) + " ms  " + p.name_of(m.to) + " gets " +
         (of_task ? "the end of its task " + std::to_string(m.what.what) : replay::to_text(m.what)) +
         (from.empty() ? "" : " from " + from);
}

std::string replay_console::place_line() const {
  const auto& p = plans_[at_->plan];
  if (out_.json())
    return console_json{{"event", "place"},  {"plan", at_->plan}, {"messages", at_->delivered}, {"ms", milliseconds_of(at_->now)},
                        {"step", at_->step}, {"loss", at_->loss}, {"over", at_->over}}
        .dump();
  return "plan " + std::to_string(at_->plan) + ", message " + with_commas(at_->delivered) + ", " +
         fixed(milliseconds_of(at_->now), 3) + " ms after its start: step " + with_commas(at_->step) + " is complete" +
         (at_->step > p.job->first_step ? ", its loss " + fixed(at_->loss, 4) : "") + (at_->over ? "; the plan is over" : "");
}

repl_reply replay_console::play(const std::function<bool(const replay::replayed&)>& over) {
  std::vector<std::string> shown;
  std::uint64_t left_out = 0;
  for (;;) {
    at_->events.clear();
    const auto m = at_->player->step();
    if (!m) {
      at_->over = true;
      break;
    }
    ++at_->delivered;
    at_->now = m->what.at;
    if (shown.size() >= shown_at_most) {
      shown.erase(shown.begin());
      ++left_out;
    }
    auto text = message_line(*m);
    for (const auto& [who, e] : at_->events)
      text += "\n" + (out_.json() ? event_line(e, event_form::file)
                                  : "  " + std::string(name_of(e).name) + " at step " + with_commas(e.step) + " of " +
                                        at_->player->name_of(who));
    shown.push_back(std::move(text));
    if (over(*m) || (at_->delivered % 256 == 0 && interrupted_())) break;
  }
  std::string text;
  if (left_out > 0 && !out_.json()) text = "(" + with_commas(left_out) + " messages not shown)\n";
  for (const auto& s : shown) text += s + "\n";
  if (at_->over && !out_.json())
    for (const auto& d : at_->player->end().departures) text += "departs from the log at " + d + "\n";
  return {reply_kind::ok, text + place_line()};
}

repl_reply replay_console::step(const words& args) {
  const auto n = args.empty() ? std::optional<std::uint64_t>(1) : whole_number(args[0]);
  if (!n || *n == 0) return wrong("step takes a number of messages, not " + in_quotes(args[0]));
  return play([until = at_->delivered + *n, this](const auto&) { return at_->delivered >= until; });
}

repl_reply replay_console::back(const words& args) {
  const auto n = args.empty() ? std::optional<std::uint64_t>(1) : whole_number(args[0]);
  if (!n || *n == 0) return wrong("back takes a number of messages, not " + in_quotes(args[0]));
  const auto until = at_->delivered - std::min(*n, at_->delivered);
  if (open(at_->plan) != exit_done) return {reply_kind::failed, {}};
  while (at_->delivered < until && !interrupted_()) {
    at_->events.clear();
    const auto m = at_->player->step();
    if (!m) break;
    ++at_->delivered;
    at_->now = m->what.at;
  }
  return {reply_kind::ok, place_line()};
}

repl_reply replay_console::next(const words& args) {
  const auto r = role_named(args[0]);
  if (r == no_role) return wrong("the plan has no role " + in_quotes(args[0]) + "; `roles` lists them");
  return play([r](const replay::replayed& m) { return m.to == r; });
}

repl_reply replay_console::to(const words& args) {
  const auto n = whole_number(args[0]);
  if (!n) return wrong("to takes a step, not " + in_quotes(args[0]));
  if (*n <= at_->step && at_->delivered > 0)
    return wrong("step " + args[0] + " is over; `plan " + std::to_string(at_->plan) + "` begins again");
  return play([n, this](const auto&) { return at_->step >= *n; });
}

repl_reply replay_console::to_end(const words&) {
  return play([](const auto&) { return false; });
}

repl_reply replay_console::where(const words&) { return {reply_kind::ok, place_line()}; }

repl_reply replay_console::role(const words& args) {
  const auto r = role_named(args[0]);
  if (r == no_role) return wrong("the plan has no role " + in_quotes(args[0]) + "; `roles` lists them");
  const auto s = at_->player->look(r);
  const auto& job = *plans_[at_->plan].job;
  const auto source = [&](const replay::delivery& d) {
    return index_of(d.from) < at_->player->roles() && d.from != r ? " from " + at_->player->name_of(d.from) : std::string();
  };
  if (out_.json()) {
    console_json o{{"event", "role"},
                   {"role", args[0]},
                   {"node", job.plan.nodes[job.plan[r].node].name},
                   {"messages", s.handled},
                   {"step", s.status.step},
                   {"version", s.status.version},
                   {"queued", s.status.queued},
                   {"in_flight", s.status.in_flight},
                   {"credit", s.status.credit},
                   {"waits_for", s.status.waits_for},
                   {"ended", s.ended},
                   {"failed", s.failed},
                   {"next", s.next ? console_json(replay::to_text(*s.next) + source(*s.next)) : console_json()}};
    o["arrived"] = console_json::array();
    for (const auto& d : s.arrived) o["arrived"].push_back(replay::to_text(d) + source(d));
    o["tasks_done"] = s.over;
    return {reply_kind::ok, o.dump()};
  }
  std::string text = args[0] + " on " + job.plan.nodes[job.plan[r].node].name + ", after " + with_commas(s.handled) + " messages" +
                     (s.failed  ? ": it has failed"
                      : s.ended ? ": it has ended"
                                : "") +
                     "\n";
  text += "  step " + std::to_string(s.status.step) + ", version " + std::to_string(s.status.version) + ", queued " +
          std::to_string(s.status.queued) + ", in flight " + std::to_string(s.status.in_flight) + ", credit " +
          std::to_string(s.status.credit) + "\n";
  if (!s.status.waits_for.empty()) text += "  waits for " + s.status.waits_for + "\n";
  if (s.next) text += "  next " + replay::to_text(*s.next) + source(*s.next) + "\n";
  if (!s.over.empty()) text += "  tasks done, of which it does not know yet: " + std::to_string(s.over.size()) + "\n";
  for (std::size_t i = 0; i < std::min(s.arrived.size(), arrived_at_most); ++i)
    text += "  arrived: " + replay::to_text(s.arrived[i]) + source(s.arrived[i]) + "\n";
  if (s.arrived.size() > arrived_at_most) text += "  and " + std::to_string(s.arrived.size() - arrived_at_most) + " more\n";
  text.pop_back();
  return {reply_kind::ok, text};
}

repl_reply replay_console::roles(const words&) {
  std::string text;
  const auto& job = *plans_[at_->plan].job;
  for (const auto& r : job.plan.roles) {
    const auto s = at_->player->look(r.id);
    text += text.empty() ? "" : "\n";
    if (out_.json())
      text += console_json{{"event", "role"},
                           {"role", r.name},
                           {"node", job.plan.nodes[r.node].name},
                           {"messages", s.handled},
                           {"step", s.status.step},
                           {"waits_for", s.status.waits_for},
                           {"arrived", s.arrived.size()}}
                  .dump();
    else
      text += left(r.name, 22) + left(job.plan.nodes[r.node].name, 10) + flush_right(with_commas(s.handled), 9) +
              " messages, step " + left(std::to_string(s.status.step) + (s.status.waits_for.empty() ? "" : ","), 8) +
              (s.status.waits_for.empty() ? "" : "waits for " + s.status.waits_for);
  }
  return {reply_kind::ok, text};
}

repl_reply replay_console::list_plans(const words&) {
  std::string text;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const auto& p = plans_[i];
    text += text.empty() ? "" : "\n";
    std::uint64_t messages = 0;
    for (const auto& m : p.nodes)
      for (const auto& r : m.messages.roles) messages += r.handled;
    if (out_.json())
      text += console_json{{"event", "plan"},
                           {"plan", i},
                           {"from_step", p.first().begins.step},
                           {"nodes", p.nodes.size()},
                           {"messages", messages}}
                  .dump();
    else
      text += "plan " + std::to_string(i) + " from step " + with_commas(p.first().begins.step) + ": " + with_commas(messages) +
              " messages on " + std::to_string(p.nodes.size()) + (p.nodes.size() == 1 ? " node" : " nodes");
  }
  return {reply_kind::ok, text};
}

repl_reply replay_console::go_to_plan(const words& args) {
  const auto n = whole_number(args[0]);
  if (!n || *n >= plans_.size()) return wrong("there is no plan " + in_quotes(args[0]) + "; `plans` lists them");
  if (open(*n) != exit_done) return {reply_kind::failed, {}};
  return {reply_kind::ok, place_line()};
}

repl_reply replay_console::help(const words&) {
  std::string text;
  for (const auto& c : commands()) text += left(std::string(c.name) + " " + c.arguments, 12) + c.about + "\n";
  return {reply_kind::ok, text + left("quit", 12) + "leave"};
}

}  // namespace troupe
