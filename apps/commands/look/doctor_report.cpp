#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/cli/screen.hpp"
#include "apps/commands/look/doctor.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/text_table.hpp"

namespace troupe {
namespace {

constexpr std::size_t name_from = 6, value_from = 25;  // columns
constexpr std::size_t most_links_shown = 12;

// `text` in lines that begin at column `from` and end before column `width`; the first continues a
// line that is already there.
std::string wrapped(const std::string& text, std::size_t from, std::size_t width) {
  std::istringstream words(text);
  std::string lines, word;
  std::size_t at = from;
  while (words >> word) {
    const auto size = shown_width(word);
    if (at > from && at + 1 + size > width) {
      lines += "\n" + std::string(from, ' ');
      at = from;
    } else if (at > from) {
      lines += " ";
      ++at;
    }
    lines += word;
    at += size;
  }
  return lines;
}

std::string coloured_word(machine::verdict v) {
  const std::string word = v == machine::verdict::fail ? "FAIL" : machine::name_of(v);
  if (v == machine::verdict::ok || !terminal_colour()) return left(word, name_from);
  return (v == machine::verdict::warn ? "\033[33m" : "\033[31m") + word + "\033[0m" + std::string(name_from - word.size(), ' ');
}

std::string text_of_check(const machine::check& c) {
  const auto width = static_cast<std::size_t>(std::clamp(terminal_width(), 60, 100));
  const std::string indent(value_from, ' ');
  auto name = left(printable(c.name), value_from - name_from);
  if (name.size() > value_from - name_from) name += "\n" + indent;
  std::vector<std::string> parts;
  if (!c.value.empty()) parts.push_back(c.value);
  if (!c.text.empty()) parts.push_back(c.text);
  if (!c.next.empty()) parts.push_back("try: " + c.next);
  std::string text = coloured_word(c.state) + name;
  for (std::size_t i = 0; i < parts.size(); ++i)
    text += (i == 0 ? "" : indent) + wrapped(printable(parts[i], line_breaks::kept), value_from, width) + "\n";
  return text;
}

}  // namespace

void doctor_report::heading(const std::string& text) const { out_.text("\n" + text + "\n"); }

void doctor_report::show(const machine::check& c) {
  ++(c.state == machine::verdict::ok ? ok_ : c.state == machine::verdict::warn ? warnings_ : failures_);
  if (out_.json())
    out_.object({{"event", "check"},
                 {"name", c.name},
                 {"state", machine::name_of(c.state)},
                 {"node", c.node},
                 {"value", c.value},
                 {"text", c.text},
                 {"try", c.next}});
  out_.drawn(text_of_check(c));
}

void doctor_report::show(const std::vector<machine::check>& list) {
  for (const auto& c : list) show(c);
}

void doctor_report::show_links(const std::vector<machine::check>& list, const std::vector<machine::link>& links) {
  if (out_.json() || list.size() <= most_links_shown) return show(list);
  double least = 0, most = 0;
  for (const auto& l : links) {
    if (l.rate <= 0) continue;
    least = least == 0 ? l.rate : std::min(least, l.rate);
    most = std::max(most, l.rate);
  }
  unsigned fine = 0;
  for (const auto& c : list) {
    if (c.state != machine::verdict::ok)
      show(c);
    else
      ++fine;
  }
  if (fine == 0) return;
  machine::check all{"links", machine::verdict::ok, std::to_string(fine) + " links are fine"};
  if (most > 0) all.value += "; all carry " + machine::bits_text(least) + " to " + machine::bits_text(most);
  show(all);
  ok_ += fine - 1;
}

int doctor_report::end() const {
  const auto all = ok_ + warnings_ + failures_;
  if (out_.json()) out_.object({{"event", "done"}, {"checks", all}, {"ok", ok_}, {"warn", warnings_}, {"fail", failures_}});
  const auto of = [](unsigned n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); };
  out_.text("\n" + of(all, "check") + ": " + std::to_string(ok_) + " ok, " + of(warnings_, "warning") + ", " +
            of(failures_, "failure") + "\n");
  return failures_ > 0 ? exit_failed : exit_done;
}

}  // namespace troupe
