#include "actors/repl/complete.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "actors/repl/command.hpp"
#include "actors/repl/words.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/config/key_places.hpp"
#include "runtime/node/node_tables.hpp"

namespace troupe {
namespace {

// The words before the last one of a line, and the last one as it is written.
struct typed_words {
  repl_arguments before;
  std::string word;
};
typed_words read_typed(const std::string& typed) {
  auto words = repl_read_words(typed);
  auto word = typed.substr(words.last_at);
  if (!word.empty()) words.list.pop_back();
  return {std::move(words.list), std::move(word)};
}

const repl_about* about_of(const repl_view& v) {
  const repl_about* found = nullptr;
  for (const auto& j : v.jobs)
    if (j.about && (!found || j.state == job_state::running || j.state == job_state::paused)) found = j.about.get();
  return found;
}

std::vector<std::string> choices(const repl_arguments& before, const repl_view& v) {
  const repl_typed typed{before, v};
  if (before.empty()) return repl_choice::commands(typed);
  const auto* entry = find_repl_command(before[0] == "?" ? "help" : before[0]);
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

std::vector<std::string> job_keys(const repl_typed&) {
  static const auto all = [] {
    auto keys = job_key_paths(node_tables());
    for (auto& k : keys) k += "=";
    return keys;
  }();
  return all;
}

}  // namespace repl_choice

std::vector<std::string> repl_complete(const std::string& typed, const repl_view& view) {
  const auto [before, word] = read_typed(typed);
  auto fits = choices(before, view);
  std::erase_if(fits, [&w = word](const auto& c) { return !c.starts_with(w); });
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

repl_tab repl_press_tab(const std::string& typed, std::vector<std::string> fits, bool replaces) {
  const auto word = replaces ? std::string() : read_typed(typed).word;
  std::erase_if(fits, [&](const auto& f) { return !f.starts_with(word); });
  if (fits.empty()) return {};
  auto common = fits.front();
  for (const auto& f : fits)
    common.resize(static_cast<std::size_t>(std::mismatch(common.begin(), common.end(), f.begin(), f.end()).first - common.begin()));
  auto more = common.substr(word.size());
  const auto erase = replaces ? read_typed(typed).word.size() : 0;
  const bool complete =
      fits.size() == 1 && !common.ends_with('=') && !common.ends_with('/') && repl_read_words(common).error.empty();
  if (complete) more += ' ';
  const bool is_there = replaces && more == read_typed(typed).word;
  if (!more.empty() && !is_there) return {more, {}, erase};
  return {{}, std::move(fits)};
}

// --- files

namespace {

constexpr std::size_t max_listed = 4096;

// Names in the folder of `start` that begin with the rest of it.
std::vector<std::string> files_that_begin(const std::string& start) {
  const auto slash = start.find_last_of('/') + 1;  // npos + 1 is 0
  const auto folder = start.substr(0, slash), name = start.substr(slash);
  std::vector<std::string> all;
  std::error_code ec;
  for (std::filesystem::directory_iterator at(folder.empty() ? "." : folder, ec), end; !ec && at != end; at.increment(ec)) {
    auto found = at->path().filename().string();
    if (!found.starts_with(name) || (found[0] == '.' && name.empty())) continue;
    std::error_code unknown;
    if (at->is_directory(unknown)) found += '/';
    all.push_back(folder + found);
    if (all.size() == max_listed) break;
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

}  // namespace

std::optional<repl_file_fits> repl_complete_file(const std::string& typed) {
  const auto [before, word] = read_typed(typed);
  const auto* entry = before.empty() ? nullptr : find_repl_command(before[0]);
  if (!entry || !entry->takes_file) return std::nullopt;
  repl_file_fits out;
  if (before.size() > 1) {  // key=FILE, key="FILE", key=["FILE", "FILE"
    if (word.find('=') == std::string::npos) return std::nullopt;
    const auto at = word.find_last_of("=[\"',") + 1;
    for (const auto& f : files_that_begin(word.substr(at))) out.fits.push_back(word.substr(0, at) + f);
    return out;
  }
  const bool quoted = !word.empty() && (word[0] == '"' || word[0] == '\'');
  const auto names = files_that_begin(repl_read_words(word).list.empty() ? std::string() : repl_read_words(word).list[0]);
  const auto odd = [](const std::string& n) { return n.find_first_of(" \t\"'\\") != std::string::npos; };
  if (!quoted && std::none_of(names.begin(), names.end(), odd)) {
    out.fits = names;
    return out;
  }
  out.replaces = true;
  for (const auto& n : names) out.fits.push_back("\"" + escaped(n) + (names.size() == 1 && !n.ends_with('/') ? "\"" : ""));
  return out;
}

}  // namespace troupe
