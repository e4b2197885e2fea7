// The command that follows a value of the job: watch.
//
// The session has no state between two lines (command.hpp), so `_watch` has that of the command:
// `_watch JOB EVENT LEFT SERIES EVERY WIDTH DRAW DUE`. LEFT: lines still to print, 0: unlimited.
// EVERY, DUE: milliseconds between lines, and the time of the next one. WIDTH: columns of a
// terminal; each reply is then the whole line, which replaces the one before. 0: plain lines.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "actors/repl/command.hpp"
#include "actors/repl/text.hpp"
#include "runtime/base/sparkline.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/events/event_json.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;
using repl_text::number;

struct watched_series {
  const char* name;
  std::optional<double> (*value)(const event_effect&);  // none: the event has no value of the series
  bool on_request = false;                              // its events are answers to `staleness`
};

template <class Event, auto Member>
std::optional<double> member_of(const event_effect& e) {
  const auto* found = e.as<Event>();
  return found ? std::optional<double>(found->*Member) : std::nullopt;
}

template <class Event, auto Member>
std::optional<double> optional_member_of(const event_effect& e) {
  const auto* found = e.as<Event>();
  return found ? found->*Member : std::nullopt;
}

std::optional<double> skipped_in(const event_effect& e) {
  const auto* s = e.as<step_event>();
  return s && s->skipped > 0 ? std::optional(static_cast<double>(s->skipped)) : std::nullopt;
}

std::optional<double> mean_staleness_in(const event_effect& e) {
  const auto* s = e.as<staleness_event>();
  if (!s) return std::nullopt;
  double sum = 0, reads = 0;
  for (const auto& p : s->parameters) {
    sum += p.mean() * static_cast<double>(p.count());
    reads += static_cast<double>(p.count());
  }
  return reads > 0 ? std::optional(sum / reads) : std::nullopt;
}

constexpr std::array<watched_series, 8> series_list = {{{"loss", member_of<step_event, &step_event::loss>},
                                                        {"accuracy", optional_member_of<eval_event, &eval_event::accuracy>},
                                                        {"eval_loss", member_of<eval_event, &eval_event::loss>},
                                                        {"examples_per_s", member_of<step_event, &step_event::examples_per_s>},
                                                        {"lr", optional_member_of<step_event, &step_event::lr>},
                                                        {"step_seconds", member_of<step_event, &step_event::step_seconds>},
                                                        {"skipped", skipped_in},
                                                        {"staleness", mean_staleness_in, true}}};

std::vector<std::string> series_names() {
  std::vector<std::string> all;
  for (const auto& s : series_list) all.emplace_back(s.name);
  return all;
}

const watched_series* series_named(const std::string& name) {
  const auto at = std::find_if(series_list.begin(), series_list.end(), [&](const auto& s) { return name == s.name; });
  return at == series_list.end() ? nullptr : &*at;
}

std::uint64_t now_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

struct watching {
  std::uint32_t job = 0;
  std::uint64_t from = 0, left = 0;
  const watched_series* what = nullptr;
  std::uint64_t every = 0, width = 0;
  std::string draw = "blocks";
  std::uint64_t due = 0;
  bool asks() const { return what->on_request; }
};

std::string next_line(const watching& w) {
  std::string line = "_watch";
  for (const auto n : {std::uint64_t{w.job}, w.from, w.left}) line += " " + std::to_string(n);
  line += std::string(" ") + w.what->name;
  for (const auto n : {w.every, w.width}) line += " " + std::to_string(n);
  return line + " " + w.draw + " " + std::to_string(w.due);
}

struct watched_point {
  std::uint64_t step = 0;
  double value = 0;
  const repl_event* event = nullptr;
};

std::vector<watched_point> points_in(const std::vector<repl_event>& events, const watched_series& s) {
  std::vector<watched_point> all;
  for (const auto& e : events)
    if (const auto v = s.value(e.what)) all.push_back({e.what.step, *v, &e});
  return all;
}

double mean_of(const std::vector<watched_point>& points) {
  double sum = 0;
  for (const auto& p : points) sum += p.value;
  return sum / static_cast<double>(points.size());
}

// The values of an interval as one line.
std::string interval_line(const watching& w, const std::vector<watched_point>& points, bool json) {
  const auto& last = points.back();
  const auto mean = mean_of(points);
  if (json)
    return repl_text::line_of({{"watch", w.what->name},
                               {"job", w.job},
                               {"first_step", points.front().step},
                               {"step", last.step},
                               {"last", last.value},
                               {"mean", mean},
                               {"values", points.size()}});
  return "steps " + number(points.front().step) + "-" + number(last.step) + "  " + w.what->name + " " + number(last.value) +
         "  mean " + number(mean);
}

std::string point_line(const watching& w, const watched_point& p, bool json) {
  if (json) return event_line(p.event->what, event_form::session);
  return "step " + number(p.step) + "  " + w.what->name + " " + number(p.value);
}

// One line with all values that the log has, for a terminal.
std::string drawn_line(const watching& w, const std::vector<watched_point>& points) {
  constexpr std::size_t least = 8, most = 60;
  const auto& last = points.back();
  const auto head = std::string(w.what->name) + " ";
  const auto tail = "  " + general_text(last.value, 5) + "  mean " + general_text(mean_of(points), 5) + "  steps " +
                    number(points.front().step) + "-" + number(last.step) +
                    (w.every > 0 ? "  every " + repl_duration(static_cast<double>(w.every) / 1e3) : "");
  const auto taken = head.size() + tail.size() + 1;
  const auto room = w.width > taken ? static_cast<std::size_t>(w.width) - taken : 0;
  std::vector<double> values;
  for (const auto& p : points) values.push_back(p.value);
  const auto line = room < least ? std::string() : sparkline(values, std::min(room, most), w.draw == "blocks");
  return (head + line + tail).substr(0, line.empty() ? static_cast<std::size_t>(w.width) : std::string::npos);
}

repl_reply watch_on(const repl_request& r, watching w) {
  const auto view = r.backend.view();
  const auto* j = find_job(view, w.job);
  const bool over = !j || ((j->over() || j->state == job_state::queued) && r.backend.events().last() >= view.events);
  const auto now = now_ms();
  const bool due = now >= w.due;
  if (w.asks() && due && !over) {
    if (const auto told = r.backend.tell(w.job, {staleness_command{}}); !told) return r.fail(told.error().text);
    w.due = now + w.every;
  }
  if (!w.asks() && w.every > 0 && !due && !over) return {kind::ok, {}, next_line(w)};
  const auto events = r.backend.events().after(w.from, w.job);
  const auto points = points_in(events, *w.what);
  if (!events.empty()) w.from = events.back().number;
  std::string lines;
  bool enough = false;
  const auto add = [&](const std::string& line) {
    lines += (lines.empty() ? "" : "\n") + line;
    enough = w.left > 0 && --w.left == 0;
  };
  if (!points.empty() && w.width > 0) {
    const auto all = r.backend.events().after(0, w.job);
    add(drawn_line(w, points_in(all, *w.what)));
  } else if (!points.empty() && w.every > 0 && !w.asks()) {
    add(interval_line(w, points, r.json));
  } else {
    for (std::size_t i = 0; i < points.size() && !enough; ++i) add(point_line(w, points[i], r.json));
  }
  if (!w.asks() && due && w.every > 0) w.due = now + w.every;
  return {kind::ok, std::move(lines), over || enough ? std::string() : next_line(w)};
}

// Takes "every=2s", "width=80" and "draw=ascii" out of the arguments.
expected<void> read_options(repl_arguments& args, watching& w) {
  std::string wrong;
  std::erase_if(args, [&](const std::string& a) {
    const auto is = a.find('=');
    if (is == std::string::npos) return false;
    const auto key = a.substr(0, is), value = a.substr(is + 1);
    if (key == "every") {
      const auto t = repl_time_of(value);
      if (!t || t->count() <= 0) wrong = in_quotes(value) + " is not a time: write e.g. every=500ms, every=2s or every=1min";
      if (t) w.every = static_cast<std::uint64_t>(t->count());
    } else if (key == "width") {
      if (!repl_number(value, w.width) || w.width > 10'000) wrong = in_quotes(value) + " is not a width";
    } else if (key == "draw" && (value == "ascii" || value == "blocks")) {
      w.draw = value;
    } else {
      wrong = "unknown argument " + in_quotes(a) + ": only every=TIME has the form key=value";
    }
    return true;
  });
  if (!wrong.empty()) return unexpected(error(wrong));
  return {};
}

repl_reply run_watch(const repl_request& r) {
  auto args = r.args;
  watching w;
  if (const auto read = read_options(args, w); !read) return r.usage(read.error().text);
  if (args.empty() || args.size() > 3)
    return r.usage("usage: watch SERIES [LINES] [JOB] [every=TIME]; series: " + joined(series_names()));
  w.what = series_named(args[0]);
  if (!w.what)
    return r.usage("no series " + in_quotes(args[0]) + did_you_mean(args[0], series_names()) +
                   " (available: " + joined(series_names()) + ")");
  if (args.size() > 1 && (!repl_number(args[1], w.left) || w.left == 0))
    return r.usage(in_quotes(args[1]) + " is not a number of lines");
  if (w.left > 0) w.width = 0;
  const auto job = repl_job_of(r.backend.view(), args, 2);
  if (!job) return r.fail(job.error().text);
  w.job = *job;
  w.from = r.backend.events().last();
  if (w.asks() && w.every == 0) w.every = 2000;
  w.due = w.asks() ? 0 : now_ms() + w.every;
  return {kind::ok, {}, next_line(w)};
}

std::vector<std::string> what_to_watch(const repl_typed&) { return series_names(); }

}  // namespace

repl_reply repl_watch(const repl_request& r) {
  watching w;
  const auto& a = r.args;
  const bool good = a.size() == 8 && repl_number(a[0], w.job) && repl_number(a[1], w.from) && repl_number(a[2], w.left) &&
                    (w.what = series_named(a[3])) && repl_number(a[4], w.every) && repl_number(a[5], w.width) &&
                    w.width <= 10'000 && repl_number(a[7], w.due);
  if (!good) return r.usage("usage: _watch JOB EVENT LEFT SERIES EVERY WIDTH DRAW DUE (for programs)");
  w.draw = a[6];
  return watch_on(r, std::move(w));
}

std::vector<repl_command> repl_commands_that_watch() {
  return {{.help = {"watch",
                    "SERIES [LINES] [JOB] [every=TIME]",
                    "follow a value of the job: at a terminal as one line that is redrawn, otherwise a line for each value. Ends "
                    "with the job, with Ctrl-C, or when a line is typed",
                    {{"SERIES", joined(series_names())},
                     {"LINES", "print that many lines and end, also at a terminal"},
                     repl_job_argument(),
                     {"every=TIME", "one line per TIME (500ms, 2s, 1min), with the last value and the mean since the line before"}},
                    {{"watch loss", "draws the loss of the last steps"},
                     {"watch examples_per_s every=2s", "redraws the rate every two seconds"},
                     {"watch loss 5", "prints the loss of the next five steps"}}},
           .run = run_watch,
           .completes = {what_to_watch, nullptr, repl_choice::jobs},
           .endless = true,
           .redraws = true,
           .needs = right::look}};
}

}  // namespace troupe
