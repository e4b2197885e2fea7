#include "actors/page/server.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "actors/page/files.hpp"
#include "actors/page/state.hpp"
#include "actors/repl/tables.hpp"
#include "runtime/node/config/flat_keys.hpp"
#include "runtime/node/http/access.hpp"
#include "runtime/node/pki/certificates.hpp"
#include "runtime/node/runs/run_curve.hpp"
#include "runtime/node/runs/run_info.hpp"

namespace troupe {
namespace {

// What the page shows of run folders (runtime/node/runs/run_info.hpp): curves from metrics.csv,
// settings from job.toml. The text of responses, as JSON.

constexpr std::size_t max_runs_listed = 200;

using json = nlohmann::json;

std::string text_of(const json& o) { return o.dump(-1, ' ', false, json::error_handler_t::replace); }

// run.json with the folder's name; null if it cannot be read.
json info_of(const std::filesystem::path& folder) {
  const auto info = read_run_info(folder);
  if (!info) return {};
  auto o = json::parse(run_info_text(*info), nullptr, false);
  if (!o.is_object()) return {};
  o["folder"] = folder.filename().string();
  return o;
}

json curve_of(const metric_curve& c) {
  json o{{"x", json::array()}, {"mean", json::array()}, {"low", json::array()}, {"high", json::array()}};
  for (const auto& b : c.raw.bands()) {
    const auto mean = shown_number(b.mean), low = shown_number(b.low), high = shown_number(b.high);
    if (!mean || !low || !high) continue;
    o["x"].push_back(b.x), o["mean"].push_back(*mean), o["low"].push_back(*low), o["high"].push_back(*high);
  }
  return o;
}

json curves_of(const std::filesystem::path& folder) {
  auto all = json::object();
  const auto read = read_run_curves(run_metrics_file(folder), {metric::step, 0});
  if (!read) return all;
  for (const auto m : {metric::loss, metric::accuracy, metric::lr, metric::examples_per_s, metric::test_loss})
    if (const auto& c = (*read)[m]; !c.raw.empty()) all[metric_names[static_cast<std::size_t>(m)]] = curve_of(c);
  return all;
}

// {"runs":[{"folder":"7-lenet", ...}],"total":312}: runs of a folder, the newest first, without the
// `offset` newest ones; at most `limit` and `max_runs_listed`. Members as in run.json. Those whose
// run.json cannot be read are left out; `total` counts them.
std::string page_runs(const std::filesystem::path& runs, std::size_t offset, std::size_t limit) {
  const auto folders = run_folders(runs);  // the oldest first
  const auto end = folders.size() - std::min(offset, folders.size());
  const auto begin = end - std::min({limit, max_runs_listed, end});
  auto list = json::array();
  for (auto i = end; i-- > begin;)
    if (auto o = info_of(folders[i]); !o.is_null()) list.push_back(std::move(o));
  return text_of({{"runs", std::move(list)}, {"total", folders.size()}});
}

// {"run":{...}, "curves":{"loss":{"x":[...],"mean":[...],"low":[...],"high":[...]}, ...},
// "keys":{"train.dynamics.lr":"0.01", ...}}. `name`: of the folder in `runs`. x: steps. A long
// curve has one element for several steps: their mean, lowest and highest value.
std::string page_run(const std::filesystem::path& runs, const std::string& name) {
  const auto folders = run_folders(runs);
  const auto at = std::find_if(folders.begin(), folders.end(), [&](const auto& f) { return f.filename() == name; });
  auto info = at == folders.end() ? json() : info_of(*at);
  if (info.is_null()) return "null";
  json o{{"run", std::move(info)}, {"curves", curves_of(*at)}, {"keys", json::object()}};
  if (const auto keys = read_flat_keys(run_job_file(*at).string()))
    for (const auto& [key, value] : *keys) o["keys"][key] = value;
  return text_of(o);
}

constexpr std::uint64_t news_every = 5;  // ticks
constexpr const char* json_type = "application/json; charset=utf-8";

http::sessions::clock now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

http::response json_page(std::string text) { return {200, json_type, std::move(text)}; }

// The number `name` of a query; `usual` without it; nullopt: it is no number.
std::optional<std::size_t> count_in(std::string_view query, std::string_view name, std::size_t usual) {
  const auto text = http::form_value(query, name);
  if (text.empty()) return usual;
  std::size_t n = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
  return ec == std::errc{} && end == text.data() + text.size() ? std::optional(n) : std::nullopt;
}

}  // namespace

void page_server::add_routes(http::server_options& h, const page_options& o) {
  for (const auto& f : page_files())
    h.routes[f.path] = [&f](const http::request&) { return http::response{200, f.type, std::string(f.bytes)}; };
  h.routes["/api/session"] = [](const http::request&) { return json_page("{}"); };
  h.routes["/api/help"] = [](const http::request&) { return json_page(repl_help_text(true, {})); };
  h.routes["/api/runs"] = [runs = o.runs](const http::request& r) {
    const auto offset = count_in(r.query, "offset", 0), limit = count_in(r.query, "limit", max_runs_listed);
    return offset && limit ? json_page(page_runs(runs, *offset, *limit)) : http::response{400, json_type, "{}"};
  };
  h.routes["/api/run"] = [runs = o.runs](const http::request& r) {
    auto text = page_run(runs, http::form_value(r.query, "name"));
    return text == "null" ? http::response{404, json_type, "{}"} : json_page(std::move(text));
  };
  h.posts["/login"] = [this](const http::request& r) { return sessions_.log_in(r, now()); };
  h.posts["/logout"] = [this](const http::request& r) { return sessions_.log_out(r); };
  h.sockets["/api/feed"] = {[this](const auto& s, const http::request&) { feed_.opened(s); },
                            [this](const auto& s, const std::string& text) { feed_.received(s, text); },
                            [this](const auto& s) { feed_.closed(s); }};
  h.gate = [this](const http::request& r) { return sessions_.refusal(r, now()); };
}

void page_server::read_expiries() {
  std::map<std::string, std::int64_t> expiries;
  for (const auto& [name, file] : {std::pair("node", &certificate_), std::pair("CA", &ca_)}) {
    if (file->empty()) continue;
    if (const auto c = read_certificate(*file))
      expiries[name] = std::chrono::duration_cast<std::chrono::seconds>(c->until.time_since_epoch()).count();
  }
  feed_.show_expiries(std::move(expiries));
}

expected<void, coded_error> page_server::reload_certificates() {
  read_expiries();
  return server_->reload_certificates();
}

void page_server::tick() {
  feed_.answer_lines();
  bool last = false;
  {
    std::lock_guard guard(lock_);
    last = finishing_;
  }
  if (++ticks_ % news_every == 0 || last) feed_.send_news();
  if (!last || !feed_.settled()) return;
  std::lock_guard guard(lock_);
  finished_ = true;
  changed_.notify_all();
}

void page_server::finish(std::chrono::milliseconds patience) {
  std::unique_lock guard(lock_);
  finishing_ = true;
  changed_.wait_for(guard, patience, [this] { return finished_; });
}

expected<std::unique_ptr<page_server>, coded_error> page_server::open(const page_options& o, repl_backend& backend) {
  auto token = http::page_token(o.token_file);
  if (!token) return unexpected(token.error());
  auto p = std::unique_ptr<page_server>(new page_server(o, *std::move(token), backend));
  p->read_expiries();
  http::server_options h;
  h.where = o.where;
  h.certificate = o.certificate;
  h.key = o.key;
  h.headers = {{"Content-Security-Policy", http::sessions::content_policy()},
               {"Referrer-Policy", "same-origin"},
               {"X-Frame-Options", "DENY"},
               {"Cross-Origin-Opener-Policy", "same-origin"},
               {"Cross-Origin-Resource-Policy", "same-origin"}};
  h.limits.max_connections = 256;
  h.log = o.log;
  h.tick_every = repl_ask_every;
  h.tick = [q = p.get()] { q->tick(); };
  p->add_routes(h, o);
  auto server = http::server::open(std::move(h));
  if (!server) return unexpected(server.error());
  p->server_ = std::move(*server);
  return p;
}

}  // namespace troupe
