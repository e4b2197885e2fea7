#include "actors/repl/complete.hpp"

#include <algorithm>
#include <utility>

#include "actors/repl/command.hpp"
#include "runtime/base/wording.hpp"

namespace troupe {
namespace {

// Index of the first character of the last word of `typed`.
std::size_t word_at(const std::string& typed) { return typed.find_last_of(' ') + 1; }  // npos + 1 is 0

const repl_about* about_of(const repl_view& v) {
  const repl_about* found = nullptr;
  for (const auto& j : v.jobs)
    if (j.about && (!found || j.state == "running" || j.state == "paused")) found = j.about.get();
  return found;
}

std::vector<std::string> choices(const repl_arguments& before, const repl_view& v) {
  const repl_typed typed{before, v};
  if (before.empty()) return repl_choice::commands(typed);
  const auto* entry = find_repl_command(before[0]);
  if (!entry) return {};
  const auto argument = before.size() - 1;
  const auto what = argument < entry->completes.size() ? entry->completes[argument] : entry->completes_rest;
  return what ? what(typed) : std::vector<std::string>{};
}

}  // namespace

namespace repl_choice {

std::vector<std::string> commands(const repl_typed&) {
  std::vector<std::string> all;
  for (const auto& c : repl_table()) all.push_back(c.help.name);
  return all;
}

std::vector<std::string> jobs(const repl_typed& t) {
  std::vector<std::string> all;
  for (const auto& j : t.view.jobs)
    if (!j.over()) all.push_back(std::to_string(j.id));
  return all;
}

std::vector<std::string> layers(const repl_typed& t) {
  std::vector<std::string> all;
  if (const auto* about = about_of(t.view))
    for (const auto& l : about->layers) all.push_back(l.name);
  return all;
}

std::vector<std::string> nodes(const repl_typed& t) {
  std::vector<std::string> all;
  for (const auto& n : t.view.nodes) all.push_back(n.name);
  if (all.empty()) all.push_back(t.view.node);
  return all;
}

const std::vector<repl_mode>& known_modes(const repl_view& v) {
  static const auto stock = [] {
    mode_registry r;
    add_stock_modes(r);
    return repl_modes(r);
  }();
  const auto* about = about_of(v);
  return about ? about->modes : stock;
}

std::vector<std::string> modes(const repl_typed& t) {
  std::vector<std::string> all;
  for (const auto& m : known_modes(t.view)) all.push_back(m.name);
  return all;
}

}  // namespace repl_choice

std::vector<std::string> repl_complete(const std::string& typed, const repl_view& view) {
  const auto word = typed.substr(word_at(typed));
  auto fits = choices(repl_split(typed.substr(0, word_at(typed))), view);
  std::erase_if(fits, [&](const auto& c) { return !c.starts_with(word); });
  std::sort(fits.begin(), fits.end());
  fits.erase(std::unique(fits.begin(), fits.end()), fits.end());
  return fits;
}

repl_reply repl_completed(const repl_request& r) {
  constexpr std::string_view name = "_complete ";
  const auto at = r.line.find(name);
  const auto fits = repl_complete(at == std::string::npos ? std::string() : r.line.substr(at + name.size()), r.backend.view());
  return {repl_reply::kind::ok, joined(fits, "\n"), {}};
}

repl_tab repl_press_tab(const std::string& typed, std::vector<std::string> fits) {
  const auto word = typed.substr(word_at(typed));
  std::erase_if(fits, [&](const auto& f) { return !f.starts_with(word); });
  if (fits.empty()) return {};
  auto common = fits.front();
  for (const auto& f : fits)
    common.resize(static_cast<std::size_t>(std::mismatch(common.begin(), common.end(), f.begin(), f.end()).first - common.begin()));
  auto more = common.substr(word.size());
  if (fits.size() == 1 && !common.ends_with('=')) more += ' ';
  if (!more.empty()) return {more, {}};
  return {{}, std::move(fits)};
}

}  // namespace troupe
