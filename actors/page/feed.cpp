#include "actors/page/feed.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "actors/page/delta.hpp"
#include "actors/page/state.hpp"
#include "actors/repl/command.hpp"
#include "runtime/node/events/event_json.hpp"

namespace troupe {
namespace {

using json = nlohmann::json;

std::shared_ptr<const std::string> packed(const json& o) {
  return std::make_shared<const std::string>(o.dump(-1, ' ', false, json::error_handler_t::replace));
}

const json* member(const json& o, const char* key) {
  const auto at = o.find(key);
  return at == o.end() ? nullptr : &*at;
}

// The reason why a page may not send the line; nullptr: it may.
const char* unfit(const std::string& line) {
  const auto words = repl_split(line);
  const auto* c = words.empty() ? nullptr : find_repl_command(words[0]);
  if (c && c->takes_file) return "jobs cannot be submitted from the page";
  if (c && c->endless) return "the page shows events by itself";
  return nullptr;
}

// Events for pages, oldest first. Of many steps, every k-th and the last.
void add_events(json& list, const std::vector<repl_event>& events) {
  const auto is_step = [](const repl_event& e) { return e.what.is<step_event>(); };
  const auto steps = static_cast<std::size_t>(std::count_if(events.begin(), events.end(), is_step));
  const auto every = steps / page_feed::max_steps_at_once + 1;
  std::size_t step = 0;
  for (const auto& e : events) {
    if (e.what.is<histogram_event>() || e.what.is<staleness_event>()) continue;
    if (is_step(e) && ++step % every != 0 && step != steps) continue;
    auto o = event_object(e.what, event_form::file);
    o["job"] = e.job;
    o["n"] = e.number;
    list.push_back(json(o));
  }
}

}  // namespace

page_feed::page* page_feed::page_of(const std::shared_ptr<http::socket>& s) {
  const auto at = std::find_if(pages_.begin(), pages_.end(), [&](const page& p) { return p.socket == s; });
  return at == pages_.end() ? nullptr : &*at;
}

void page_feed::closed(const std::shared_ptr<http::socket>& s) {
  std::erase_if(pages_, [&](const page& p) { return p.socket == s; });
}

void page_feed::received(const std::shared_ptr<http::socket>& s, const std::string& sent) {
  auto* p = page_of(s);
  if (!p) return;
  const auto o = json::parse(sent, nullptr, false);
  const auto* id = o.is_object() ? member(o, "id") : nullptr;
  const auto* line = o.is_object() ? member(o, "line") : nullptr;
  const auto* cancel = o.is_object() ? member(o, "cancel") : nullptr;
  const auto* as_json = o.is_object() ? member(o, "json") : nullptr;
  if (cancel && cancel->is_number_unsigned()) {
    std::erase_if(p->lines, [&](const asked_line& a) { return a.id == cancel->get<std::uint64_t>(); });
    return;
  }
  const bool sound = id && id->is_number_unsigned() && line && line->is_string() && (!as_json || as_json->is_boolean());
  if (!sound) return s->close();
  asked_line a{id->get<std::uint64_t>(), as_json && as_json->get<bool>(), line->get<std::string>()};
  const char* why = p->lines.size() >= max_lines ? "too many commands wait for their answers" : unfit(a.line);
  if (why) return s->send(packed({{"t", "reply"}, {"id", a.id}, {"how", "usage"}, {"text", why}, {"more", false}}));
  if (run(*p, a)) p->lines.push_back(std::move(a));
}

// Runs the line and sends the reply. Returns true if another one follows.
bool page_feed::run(page& p, asked_line& a) {
  static constexpr std::array<const char*, 5> kinds = {"ok", "failed", "usage", "quit", "failed"};  // by repl_reply::kind
  repl_reply r;
  try {
    r = repl_session(backend_, a.json).run(a.line);
  } catch (const std::exception& e) {
    r = {repl_reply::kind::failed, e.what(), {}};
  }
  a.line = r.next;
  const bool more = !r.next.empty();
  if (!r.text.empty() || !more)
    p.socket->send(
        packed({{"t", "reply"}, {"id", a.id}, {"how", kinds[static_cast<std::size_t>(r.how)]}, {"text", r.text}, {"more", more}}));
  return more;
}

void page_feed::answer_lines() {
  for (auto& p : pages_) {
    if (p.lines.empty() || p.socket->queued() > 0) continue;
    std::erase_if(p.lines, [&](asked_line& a) { return !run(p, a); });
  }
}

page_feed::text page_feed::state_text(const page& p, const state& newest) const {
  if (!p.seen) return packed({{"t", "state"}, {"state", *newest}});
  const auto patch = delta_of(*p.seen, *newest);
  return patch.empty() ? nullptr : packed({{"t", "patch"}, {"patch", patch}});
}

page_feed::news page_feed::events_after(std::uint64_t number, const std::vector<repl_job>& jobs) const {
  news n{nullptr, backend_.events().last()};
  auto list = json::array();
  for (const auto& j : jobs) {
    auto events = backend_.events().after(number, j.id);
    std::erase_if(events, [&](const auto& e) { return e.number > n.newest; });  // came since last(): for the next message
    add_events(list, events);
  }
  if (!list.empty()) n.events = packed({{"t", "events"}, {"events", std::move(list)}});
  return n;
}

bool page_feed::settled() const {
  return std::all_of(pages_.begin(), pages_.end(), [](const page& p) { return p.socket->queued() == 0; });
}

void page_feed::show_expiries(std::map<std::string, std::int64_t> expiries) {
  std::lock_guard guard(lock_);
  expiries_ = std::move(expiries);
}

page_feed::state page_feed::newest_state(const repl_view& v) {
  auto s = page_state(v, role_);
  std::lock_guard guard(lock_);
  if (!expiries_.empty()) s["about"]["certificates"] = expiries_;
  return std::make_shared<const json>(std::move(s));
}

void page_feed::send_news() {
  const auto idle = [](const page& p) { return p.socket->queued() == 0; };
  if (std::none_of(pages_.begin(), pages_.end(), idle)) return;
  const auto view = backend_.view();
  const auto newest = newest_state(view);
  // Pages that have taken all messages have the same state, and get the same text.
  std::map<const json*, text> states;
  std::map<std::uint64_t, news> events;
  for (auto& p : pages_) {
    if (!idle(p)) continue;
    const auto [state_at, fresh] = states.try_emplace(p.seen.get());
    if (fresh) state_at->second = state_text(p, newest);
    const auto [events_at, first] = events.try_emplace(p.events);
    if (first) events_at->second = events_after(p.events, view.jobs);
    if (state_at->second) p.socket->send(state_at->second);
    p.seen = newest;
    p.events = events_at->second.newest;
    if (events_at->second.events) p.socket->send(events_at->second.events);
  }
}

}  // namespace troupe
