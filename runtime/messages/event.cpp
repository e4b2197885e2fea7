#include "runtime/messages/event.hpp"

#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <type_traits>

#include "runtime/base/number_text.hpp"

namespace troupe {
namespace {

constexpr double largest_count = 9007199254740992.0;  // 2^53: larger counts are not exact as numbers of JSON

bool is_count(double v) { return v >= 0 && v <= largest_count && v == std::floor(v); }

// --- members that stand for several named numbers

void take_numbers(named_numbers list, named_numbers& into) { into = std::move(list); }
void take_numbers(named_numbers list, std::pair<std::string, double>& into) {
  if (!list.empty()) into = std::move(list.front());
}
void take_numbers(const named_numbers& list, value_histogram& into) {
  if (auto h = histogram_of(list)) into = std::move(*h);
}
void take_numbers(const named_numbers& list, std::vector<std::uint32_t>& by_worker) {
  for (const auto& [name, n] : list)
    if (is_count(n) && n <= std::numeric_limits<std::uint32_t>::max()) by_worker.push_back(static_cast<std::uint32_t>(n));
}
void take_numbers(const named_numbers& list, std::vector<staleness_entry>& entries) {
  for (const auto& [key, value] : list) {
    const auto blank = key.rfind(' ');
    if (blank == std::string::npos || !is_count(value)) continue;
    std::uint64_t clocks = 0;
    const auto* end = key.data() + key.size();
    const auto read = std::from_chars(key.data() + blank + 1, end, clocks);
    if (read.ec != std::errc() || read.ptr != end) continue;
    const auto name = key.substr(0, blank);
    if (entries.empty() || entries.back().parameter != name) entries.push_back({name, {}});
    entries.back().reads[clocks] += static_cast<std::uint64_t>(value);
  }
}

// --- members that are the event's text

std::string text_of(const std::string& s) { return s; }
std::string text_of(const mode_choice& m) { return m.text(); }

void take_text(const std::string& text, std::string& into) { into = text; }
void take_text(const std::string& text, mode_choice& into) { into = mode_choice::of(text); }
void take_text(const std::string& text, how_ended& into) { into = text == "stopped" ? how_ended::stopped : how_ended::finished; }

// --- visitors of `fields`

struct flattener {
  flat_event& out;

  void operator()(const char* name, double v, const char*) { out.values.emplace_back(name, v); }
  void operator()(const char* name, std::same_as<bool> auto v, const char*) { out.values.emplace_back(name, v ? 1 : 0); }
  void operator()(const char* name, std::same_as<std::uint64_t> auto v, const char*) {
    out.values.emplace_back(name, static_cast<double>(v));
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& v, const char* about) {
    if (v) (*this)(name, *v, about);
  }
  void operator()(const char* name, const std::string& text, const char*) {
    if (!text.empty()) out.texts.emplace_back(name, text);
  }
  void operator()(const char* name, const std::vector<std::string>& list, const char*) {
    for (const auto& text : list) out.texts.emplace_back(name, text);
  }
  void positive(const char* name, std::uint64_t n, const char* about) {
    if (n > 0) (*this)(name, n, about);
  }
  void numbers(const auto& member, const char*) {
    for (auto& n : numbers_of(member)) out.values.push_back(std::move(n));
  }
  void message(const auto& member, const char*) { out.message = text_of(member); }
  void internal(const char* name, const std::optional<role_failure>& f) {
    if (!f) return;
    out.texts.emplace_back(name, f->role);
    out.texts.emplace_back("reason", f->reason);
  }
};

struct unflattener {
  const flat_event& in;
  std::string& wrong;
  std::vector<bool> taken = std::vector<bool>(in.values.size(), false);

  const double* find(const char* name) {
    for (std::size_t i = 0; i < in.values.size(); ++i)
      if (in.values[i].first == name) return taken[i] = true, &in.values[i].second;
    return nullptr;
  }
  const std::string* find_text(const char* name) const {
    for (const auto& [n, text] : in.texts)
      if (n == name) return &text;
    return nullptr;
  }

  void operator()(const char* name, double& v, const char*) {
    if (const auto* found = find(name)) v = *found;
  }
  void operator()(const char* name, std::same_as<bool> auto& v, const char*) {
    if (const auto* found = find(name)) v = *found != 0;
  }
  void operator()(const char* name, std::same_as<std::uint64_t> auto& v, const char*) {
    const auto* found = find(name);
    if (!found) return;
    if (is_count(*found))
      v = static_cast<std::uint64_t>(*found);
    else
      wrong = std::string("'") + name + "' of the event '" + in.kind + "' is not a whole number: " + number_text(*found);
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& v, const char* about) {
    if (find(name)) (*this)(name, v.emplace(), about);
  }
  void operator()(const char* name, std::string& text, const char*) {
    if (const auto* found = find_text(name)) text = *found;
  }
  void operator()(const char* name, std::vector<std::string>& list, const char*) {
    for (const auto& [n, text] : in.texts)
      if (n == name) list.push_back(text);
  }
  void positive(const char* name, std::uint64_t& n, const char* about) { (*this)(name, n, about); }
  // Numbers of fields that follow are not known yet: eval_event lists `loss` last.
  void numbers(auto& member, const char*) {
    later = [this, &member] {
      named_numbers rest;
      for (std::size_t i = 0; i < in.values.size(); ++i)
        if (!taken[i]) rest.push_back(in.values[i]);
      take_numbers(std::move(rest), member);
    };
  }
  void message(auto& member, const char*) { take_text(in.message, member); }
  void internal(const char* name, std::optional<role_failure>& f) {
    const auto *role = find_text(name), *reason = find_text("reason");
    if (role) f = role_failure{*role, reason ? *reason : std::string()};
  }
  std::function<void()> later = [] {};
};

template <std::size_t I = 0>
bool emplace_kind(const std::string& id, job_event_kind& into) {
  if constexpr (I == std::variant_size_v<job_event_kind>) {
    return false;
  } else {
    if (std::variant_alternative_t<I, job_event_kind>::kind.id != id) return emplace_kind<I + 1>(id, into);
    into.emplace<I>();
    return true;
  }
}

}  // namespace

named_numbers numbers_of(const named_numbers& list) { return list; }
named_numbers numbers_of(const std::pair<std::string, double>& one) { return {one}; }
named_numbers numbers_of(const value_histogram& h) { return histogram_values(h); }
named_numbers numbers_of(const std::vector<std::uint32_t>& by_worker) {
  named_numbers list;
  for (std::size_t w = 0; w < by_worker.size(); ++w) list.emplace_back("worker" + std::to_string(w), by_worker[w]);
  return list;
}
named_numbers numbers_of(const std::vector<staleness_entry>& entries) {
  named_numbers list;
  for (const auto& e : entries)
    for (const auto& [clocks, times] : e.reads)
      list.emplace_back(e.parameter + " " + std::to_string(clocks), static_cast<double>(times));
  return list;
}

const char* text_of(how_ended how) { return how == how_ended::stopped ? "stopped" : "finished"; }

std::uint64_t staleness_entry::count() const {
  std::uint64_t n = 0;
  for (const auto& [clocks, times] : reads) n += times;
  return n;
}

double staleness_entry::mean() const {
  double sum = 0;
  for (const auto& [clocks, times] : reads) sum += static_cast<double>(clocks) * static_cast<double>(times);
  const auto n = count();
  return n > 0 ? sum / static_cast<double>(n) : 0.0;
}

const event_name& name_of(const event_effect& e) {
  return std::visit([](const auto& k) -> const event_name& { return std::remove_cvref_t<decltype(k)>::kind; }, e.what);
}

bool ends_job(const event_effect& e) { return e.is<done_event>() || e.is<preempted_event>() || e.is<error_event>(); }

bool only_answers(const event_effect& e) { return e.is<not_told_event>() || e.is<unchanged_event>(); }

std::string message_of(const event_effect& e) { return flatten(e).message; }

flat_event flatten(const event_effect& e) {
  flat_event flat{name_of(e).id, e.step};
  flattener f{flat};
  std::visit([&](const auto& k) { k.fields(k, f); }, e.what);
  return flat;
}

expected<event_effect> event_of(const flat_event& flat) {
  event_effect e{flat.step};
  if (!emplace_kind(flat.kind, e.what)) return unexpected(error("unknown kind of event '" + flat.kind + "'"));
  std::string wrong;
  unflattener f{flat, wrong};
  std::visit([&](auto& k) { k.fields(k, f); }, e.what);
  f.later();
  if (!wrong.empty()) return unexpected(wrong);
  return e;
}

template class one_of<job_event_kinds>;

}  // namespace troupe
