// The lines of the protocol of run_socket.hpp.
#include <array>
#include <nlohmann/json.hpp>

#include "actors/repl/run_socket.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 4> reply_kinds = {"ok", "failed", "usage", "quit"};  // by repl_reply::kind

std::string line_with(const json& o) { return o.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

const std::string* text_in(const json& o, const char* name) {
  const auto at = o.find(name);
  return at == o.end() ? nullptr : at->get_ptr<const std::string*>();
}

std::optional<json> object_in(std::string_view line) {
  auto o = json::parse(line, nullptr, false);
  if (!o.is_object()) return std::nullopt;
  return o;
}

}  // namespace

std::string to_line(const run_request& r) { return line_with({{"line", r.line}, {"json", r.json}}); }

std::string to_line(const repl_reply& r) {
  const auto how = std::min(static_cast<std::size_t>(r.how), reply_kinds.size() - 1);
  return line_with({{"how", reply_kinds[how]}, {"text", r.text}, {"next", r.next}});
}

std::optional<run_request> read_run_request(std::string_view line) {
  const auto o = object_in(line);
  const auto* text = o ? text_in(*o, "line") : nullptr;
  if (!text) return std::nullopt;
  run_request r{*text, false};
  if (const auto at = o->find("json"); at != o->end()) {
    if (!at->is_boolean()) return std::nullopt;
    r.json = at->get<bool>();
  }
  return r;
}

std::optional<repl_reply> read_run_reply(std::string_view line) {
  const auto o = object_in(line);
  const auto* how = o ? text_in(*o, "how") : nullptr;
  const auto* text = o ? text_in(*o, "text") : nullptr;
  const auto* next = o ? text_in(*o, "next") : nullptr;
  if (!how || !text || !next) return std::nullopt;
  for (std::size_t i = 0; i < reply_kinds.size(); ++i)
    if (*how == reply_kinds[i]) return repl_reply{static_cast<repl_reply::kind>(i), *text, *next};
  return std::nullopt;
}

}  // namespace troupe
