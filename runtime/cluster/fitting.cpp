#include "runtime/cluster/fitting.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/printable.hpp"
#include "runtime/base/wording.hpp"

namespace troupe::control {
namespace {

using answer_json = nlohmann::ordered_json;
constexpr std::size_t longest_text = 256 << 10;    // of an error or event in a message that is cut
constexpr std::size_t longest_in_list = 1 << 10;   // of a text that has others beside it
constexpr std::size_t longest_list = 512 << 10;    // texts of one list together
constexpr std::size_t room_for_fields = 64 << 10;  // for the other fields of a message

std::string dumped_answer(const answer_json& o) { return o.dump(-1, ' ', false, answer_json::error_handler_t::replace); }

std::string why_cut(std::size_t bytes, std::size_t most) {
  return "the answer has " + with_commas(bytes) + " bytes, and at most " + with_commas(most) + " are sent";
}

// --- texts

void shorten(std::string& s) { s = shortened(s, longest_text); }
void shorten(std::vector<std::string>& list) {
  std::size_t used = 0, kept = 0;
  for (; kept < list.size(); ++kept) {
    list[kept] = shortened(list[kept], longest_in_list);
    used += list[kept].size();
    if (used > longest_list) break;
  }
  if (kept == list.size()) return;
  const auto left_out = list.size() - kept;
  list.resize(kept);
  list.push_back("... " + with_commas(left_out) + " more");
}
void shorten(std::vector<std::pair<std::string, std::string>>& list) {
  for (auto& [key, text] : list) text = shortened(text, longest_in_list);
}
void shorten(const auto&) {}

// --- answers

void shorten_texts_in(answer_json& o) {
  if (auto* s = o.get_ptr<std::string*>()) *s = shortened(*s, longest_in_list);
  if (o.is_structured())
    for (auto& inner : o) shorten_texts_in(inner);
}

// The largest list in objects below `o`, and its size as text.
std::pair<answer_json*, std::size_t> largest_list(answer_json& o) {
  std::pair<answer_json*, std::size_t> found{nullptr, 0};
  for (auto& inner : o) {
    auto here = inner.is_object() ? largest_list(inner) : std::pair{&inner, std::size_t{0}};
    if (inner.is_array()) here.second = dumped_answer(inner).size();
    if (here.second > found.second) found = here;
  }
  return found;
}

// An object without the last entries of its largest list.
std::string cut_object(const std::string& line, std::size_t most) {
  auto o = answer_json::parse(line, nullptr, false);
  const auto failed = [&] {
    return dumped_answer({{"event", "error"}, {"where", "repl"}, {"message", "no answer: " + why_cut(line.size(), most)}});
  };
  if (!o.is_object()) return failed();
  shorten_texts_in(o);
  o["cut"] = true;
  o["left_out"] = 0;
  auto bytes = dumped_answer(o).size() + 20;  // the digits of left_out
  std::size_t left_out = 0;
  if (auto* list = largest_list(o).first; list && bytes > most) {
    auto entries = list->size();
    for (; entries > 0 && bytes > most; --entries) bytes -= std::min(bytes, dumped_answer((*list)[entries - 1]).size() + 1);
    left_out = list->size() - entries;
    list->erase(list->begin() + static_cast<std::ptrdiff_t>(entries), list->end());
  }
  if (bytes > most) return failed();
  o["left_out"] = left_out;
  return dumped_answer(o);
}

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) all.push_back(std::move(line));
  return all;
}

}  // namespace

std::string fitted_answer(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  const bool json = text.starts_with('{');
  const auto lines = lines_in(text);
  if (json && lines.size() == 1) return cut_object(text, most);
  const auto room = most - std::min<std::size_t>(most, 512);
  std::string cut;
  std::size_t kept = 0;
  for (; kept < lines.size(); ++kept) {
    const auto& whole = lines[kept];
    const auto line = json ? whole.size() > room ? cut_object(whole, room) : whole : shortened(whole, longest_in_list);
    if (cut.size() + line.size() + 1 > room) break;
    cut += line + "\n";
  }
  const auto left_out = lines.size() - kept;
  auto why =
      (left_out > 0 ? with_commas(left_out) + " more lines are left out: " : "long lines are cut: ") + why_cut(text.size(), most);
  return cut + (json ? dumped_answer({{"event", "warning"}, {"message", std::move(why)}}) : "... " + why);
}

namespace {

// --- reports

std::size_t bytes_of(const report& r) { return encode(r).size(); }

// Roles beyond the limit are added up in one entry, so that their progress still counts.
void cut_roles(report& r, std::size_t most) {
  for (auto& role : r.roles) role.waits_for = shortened(role.waits_for, longest_name);
  const auto all = bytes_of(r);
  if (all <= most || r.roles.empty()) return;
  const auto largest = std::max<std::size_t>(all / r.roles.size(), 1);
  auto keep = std::min(most / largest, r.roles.size());
  role_entry rest;
  auto without = r;
  for (;; keep /= 2) {
    without.roles.assign(r.roles.begin(), r.roles.begin() + static_cast<std::ptrdiff_t>(keep));
    if (bytes_of(without) <= most || keep == 0) break;
  }
  for (auto at = r.roles.begin() + static_cast<std::ptrdiff_t>(keep); at != r.roles.end(); ++at) {
    rest.job = at->job;
    rest.messages += at->messages;
    rest.busy += at->busy;
    for (std::size_t i = 0; i < drop_reasons; ++i) rest.dropped[i] += at->dropped[i];
  }
  rest.name = "(" + with_commas(r.roles.size() - keep) + " more roles)";
  without.roles.push_back(std::move(rest));
  r = std::move(without);
}

// --- messages

struct cutter {
  void operator()(answer& a) const {
    a.text = fitted_answer(a.text, max_message - room_for_fields - std::min(a.next.size(), max_message - 2 * room_for_fields));
  }
  void operator()(said& s) const {
    shorten_texts(s);
    if (encode(s).size() <= max_message) return;
    const auto values = s.values.size() + s.texts.size();
    s = {s.job,  "warning", "the event '" + s.kind + "' with " + with_commas(values) + " values is too large for a message",
         s.step, {},        {}};
  }
  void operator()(report& r) const { cut_roles(r, max_message - room_for_fields); }
  void operator()(looked& l) const {
    const auto bytes = encode(l).size();
    l = {.id = l.id,
         .refusal = "what this node knows has " + with_commas(bytes) + " bytes, and a message at most " + with_commas(max_message)};
  }
  void operator()(submitted& m) const { shorten_texts(m); }
  void operator()(joined& m) const { shorten_texts(m); }
  void operator()(prepared& m) const { shorten_texts(m); }
  void operator()(trouble& m) const { shorten_texts(m); }
  void operator()(end_job& m) const { shorten_texts(m); }
  void operator()(ended& m) const { shorten_texts(m); }
  void operator()(piece& m) const { shorten_texts(m); }
  void operator()(revised& m) const { shorten_texts(m); }
  void operator()(swapped& m) const { shorten_texts(m); }
  void operator()(const auto&) const {}

 private:
  template <class M>
  static void shorten_texts(M& m) {
    std::apply([](auto&... field) { (shorten(field), ...); }, M::fields(m));
  }
};

}  // namespace

looked fitted_look(const look& what, const std::function<looked(const look&)>& answer) {
  auto to = answer(what);
  for (auto fewer = what; encode(to).size() > max_message && fewer.most > 1;) {
    fewer.most = std::min(fewer.most, max_activities) / 2;
    to = answer(fewer);
    to.more = true;
  }
  for (; !to.names.empty() && encode(to).size() > max_message; to.more = true) to.names.pop_back();
  return to;
}

message fitted(message m) {
  if (encode(m).size() > max_message) std::visit(cutter(), m);
  return m;
}

}  // namespace troupe::control
