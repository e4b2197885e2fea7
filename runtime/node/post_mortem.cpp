#include "runtime/node/post_mortem.hpp"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "runtime/base/number_text.hpp"
#include "runtime/base/printable.hpp"
#include "runtime/base/version.hpp"
#include "runtime/job/plan_hash.hpp"
#include "runtime/node/events/event_json.hpp"
#include "runtime/record/file_io.hpp"
#include "runtime/record/job_owner.hpp"
#include "runtime/replay/log_stream.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using mortem_json = nlohmann::ordered_json;

// A hard link to the file that the plan began with; the original may be removed.
constexpr const char* beginning_name = "begins-with.safetensors";
constexpr const char* trace_name = "last.pftrace";
constexpr const char* stream_name = "messages.stream";
constexpr const char* file_names[] = {"report.txt", "job.toml", "plan.json", "events.jsonl", "roles.json", "messages.bin"};

std::string dumped(const mortem_json& o, int indent) { return o.dump(indent, ' ', false, mortem_json::error_handler_t::replace); }

const char* word_of(plan_beginning::with w) {
  switch (w) {
    case plan_beginning::with::weights: return "weights";
    case plan_beginning::with::checkpoint: return "checkpoint";
    case plan_beginning::with::handover: return "handover";
    case plan_beginning::with::recorded: return "recorded";
    default: return "fillers";
  }
}

mortem_json changes_json(const amendments& a) {
  auto layers = mortem_json::array();
  for (const auto& l : a.layers) layers.push_back({{"layer", l.layer}, {"place", l.place}, {"whole", l.whole}});
  auto options = mortem_json::array();
  for (const auto& [k, v] : a.mode_options) options.push_back({k, v});
  return {{"layers", layers}, {"without", a.without}, {"packets", a.packets}, {"mode", a.mode}, {"mode_options", options}};
}

std::string plan_json(const post_mortem& m, const prepared_job& made) {
  auto nodes = mortem_json::array();
  for (const auto& n : m.nodes)
    nodes.push_back(
        {{"name", n.name}, {"devices", n.devices}, {"tflops", n.tflops}, {"roles", n.roles}, {"memory_limit", n.memory_limit}});
  const auto chosen = m.chosen.value_or(host_choices{});
  const mortem_json o{
      {"format", 1},
      {"job", m.job},
      {"name", made.spec.name},
      {"seed", made.spec.seed},
      {"file", m.what.file},
      {"overrides", m.what.overrides},
      {"nodes", nodes},
      {"leg", m.plan_generation},
      {"words", changes_json(m.changes)},
      {"mode", mode_text(made)},
      {"run",
       {{"keeps_best", chosen.keeps_best},
        {"histograms_every", chosen.histograms_every},
        {"checkpoint_seconds", chosen.checkpoint_seconds}}},
      {"plan_sha256", m.messages.job},
      {"begins", {{"with", word_of(m.begins.kind)}, {"file", m.begins.file}, {"sha256", m.begins.sha256}, {"step", m.begins.step}}},
      {"node", m.messages.node},
      {"where", m.where},
      {"error", m.error},
      {"step", m.step},
      {"began_ms", m.milliseconds},
  };
  return dumped(o, 2) + "\n";
}

std::string events_jsonl(const post_mortem_facts& f) {
  std::string all;
  for (const auto& e : f.events) all += event_line(e, event_form::file) + "\n";
  return all;
}

std::string roles_json(const post_mortem_facts& f) {
  auto list = mortem_json::array();
  for (const auto& r : f.roles)
    list.push_back({{"role", r.name},
                    {"step", r.status.step},
                    {"version", r.status.version},
                    {"waits_for", r.status.waits_for},
                    {"task", r.task},
                    {"queued", r.status.queued},
                    {"in_flight", r.status.in_flight},
                    {"credit", r.status.credit},
                    {"messages", r.messages},
                    {"busy_seconds", r.busy_seconds}});
  return dumped(list, 1) + "\n";
}

std::string when_text(std::int64_t seconds, const char* form) {
  const auto t = static_cast<std::time_t>(seconds);
  std::tm utc{};
  gmtime_r(&t, &utc);
  char text[40] = "";
  return {text, std::strftime(text, sizeof text, form, &utc)};
}

// Writes the trace, if there is one. Returns what the report says of it.
std::string trace_text(const post_mortem_facts& f, const fs::path& folder) {
  if (!f.write_trace) return "none";
  const auto file = folder / trace_name;
  if (const auto written = f.write_trace(file); !written) return "none: " + written.error().text;
  std::error_code ec;
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write, ec);
  return std::string(trace_name) + ": what the roles did in the last seconds, for ui.perfetto.dev";
}

std::string report_text(const post_mortem_facts& f, const fs::path& folder) {
  const auto& m = f.mortem;
  std::uint64_t messages = 0;
  for (const auto& r : m.messages.roles) messages += r.handled;
  std::string s = f.made.spec.name + " failed" + (m.where.empty() ? "" : " at " + m.where) + ": " + m.error + "\n\n";
  s += "when       " + when_text(f.seconds_since_1970, "%Y-%m-%d %H:%M:%S UTC") + ", after step " + std::to_string(m.step) + "\n";
  s += "node       " + m.messages.node + "\n";
  s += "job file   " + m.what.file + "\n";
  for (const auto& o : m.what.overrides) s += "           --set " + o + "\n";
  s += "seed       " + std::to_string(f.made.spec.seed) + "\n";
  s += "mode       " + mode_text(f.made) + "\n";
  s += "plan       " + m.messages.job +
       (m.plan_generation > 0 ? ", generation " + std::to_string(m.plan_generation) + " of the job" : "") + "\n";
  s += "begins     with " + std::string(word_of(m.begins.kind)) + (m.begins.file.empty() ? "" : " " + m.begins.file) + "\n";
  s += std::string("build      troupe ") + troupe_version + ", " __VERSION__ "\n";
  s += "messages   " + std::to_string(messages) + " of " + std::to_string(m.messages.roles.size()) + " roles\n";
  const auto& heard_by = f.made.plan.nodes[f.made.plan.roles.front().node].name;
  s += "events     " + (heard_by == m.messages.node ? "events.jsonl" : "on node " + heard_by + ", with the job's coordinator") +
       "\n";
  s += "trace      " + trace_text(f, folder) + "\n\n";
  const auto fine = check_replay(m);
  s += fine ? "To replay it: troupe sim --replay " + folder.string() +
                  (m.nodes.size() > 1 ? " (and the folders of the other nodes)" : "")
            : "It cannot be replayed: " + fine.error().text;
  s += "\n\nroles that wait or compute\n";
  for (const auto& r : f.roles) {
    if (!r.task.empty()) s += "  " + r.name + ": " + r.task + "\n";
    if (!r.status.waits_for.empty()) s += "  " + r.name + " waits for " + r.status.waits_for + "\n";
  }
  return s;
}

expected<void, record_error> written_file(const fs::path& file, const std::string& bytes) {
  if (auto written = write_file_atomically(file.string(), {{bytes.data(), bytes.size()}}); !written)
    return unexpected(record_error{file.string(), {}, std::move(written).error().text});
  std::error_code ec;
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write, ec);
  if (ec) return unexpected(record_error{file.string(), {}, ec.message()});
  return {};
}

bool is_post_mortem(const fs::path& folder) {
  std::error_code ec;
  return !fs::is_symlink(folder, ec) && fs::is_regular_file(folder / "plan.json", ec) &&
         fs::is_regular_file(folder / "messages.bin", ec);
}

// Removes the surplus; names begin with the time. Removes only files that write_post_mortem()
// writes.
void remove_old(const fs::path& home) {
  std::vector<fs::path> found;
  std::error_code ec;
  for (fs::directory_iterator i(home, ec), end; !ec && i != end; i.increment(ec))
    if (is_post_mortem(i->path())) found.push_back(i->path());
  std::sort(found.begin(), found.end(), std::greater<>());
  std::vector<std::string> owners;
  for (const auto& f : found) owners.push_back(owner_of_folder(f));
  for (const auto n : surplus(owners, keep_post_mortems)) {
    for (const auto* name : file_names) fs::remove(found[n] / name, ec);
    for (const auto* name : {beginning_name, trace_name, job_owner_file}) fs::remove(found[n] / name, ec);
    fs::remove(found[n], ec);
  }
}

std::string word_for_path(const std::string& name) {
  std::string s;
  for (char c : name.substr(0, 64)) s += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ? c : '_';
  return s;
}

}  // namespace

expected<void> check_replay(const post_mortem& m) {
  if (m.messages.roles.empty()) return unexpected(error("no log of messages was kept"));
  if (!m.messages.complete()) return unexpected(error("the log of messages is incomplete: it had no room for the first ones"));
  if (m.begins.kind == plan_beginning::with::handover)
    return unexpected(error("this plan began with state handed over by running nodes, which is not saved"));
  return {};
}

expected<std::string, record_error> write_post_mortem(const fs::path& home, const post_mortem_facts& f) {
  std::error_code ec;
  fs::create_directories(home, ec);
  if (ec) return unexpected(record_error{home.string(), {}, ec.message()});
  const auto name = when_text(f.seconds_since_1970, "%Y%m%d-%H%M%S-") + word_for_path(f.made.spec.name);
  auto folder = home / name;
  for (int n = 2; !fs::create_directory(folder, ec); ++n) {
    if (ec || n > 1000)
      return unexpected(record_error{folder.string(), {}, ec ? ec.message() : "too many folders with this name exist"});
    folder = home / (name + "-" + std::to_string(n));
  }
  fs::permissions(folder, fs::perms::owner_all, ec);
  if (ec) return unexpected(record_error{folder.string(), {}, ec.message()});
  if (auto ok = set_owner(folder, f.mortem.owner); !ok) return unexpected(std::move(ok).error());
  const std::string texts[] = {printable(report_text(f, folder), line_breaks::kept),
                               f.mortem.what.text,
                               plan_json(f.mortem, f.made),
                               events_jsonl(f),
                               roles_json(f),
                               replay::to_bytes(f.mortem.messages)};
  for (std::size_t i = 0; i < std::size(file_names); ++i)
    if (auto ok = written_file(folder / file_names[i], texts[i]); !ok) return unexpected(std::move(ok).error());
  // Not possible across file systems; the original is used then.
  if (!f.mortem.begins.sha256.empty()) fs::create_hard_link(f.mortem.begins.file, folder / beginning_name, ec);
  remove_old(home);
  return folder.string();
}

// --- recordings

std::string recording_name(std::uint32_t plan_generation, std::uint64_t step) {
  return "plan-" + std::to_string(plan_generation) + "-from-step-" + std::to_string(step);
}

bool is_recording_name(const std::string& name) {
  constexpr std::string_view begin = "plan-", middle = "-from-step-";
  const auto at = name.find(middle);
  std::uint32_t plan_generation = 0;
  std::uint64_t step = 0;
  return name.starts_with(begin) && at != std::string::npos &&
         read_number(name.substr(begin.size(), at - begin.size()), plan_generation) &&
         read_number(name.substr(at + middle.size()), step) && name == recording_name(plan_generation, step);
}

fs::path recorded_messages(const fs::path& folder) { return folder / stream_name; }

expected<void, record_error> write_recording(const fs::path& folder, const post_mortem& m, const prepared_job& made,
                                             const checkpoint* beginning) {
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (!ec) fs::permissions(folder, fs::perms::owner_all, ec);
  for (const auto* name : {stream_name, beginning_name})
    if (!ec) fs::remove(folder / name, ec);
  if (ec) return unexpected(record_error{folder.string(), {}, ec.message()});
  if (beginning)
    if (auto ok = write_checkpoint((folder / beginning_name).string(), *beginning); !ok) return ok;
  if (auto ok = written_file(folder / "job.toml", m.what.text); !ok) return ok;
  return written_file(folder / "plan.json", plan_json(m, made));
}

std::vector<fs::path> recordings_in(const fs::path& where) {
  std::vector<fs::path> found, level{where};
  for (int depth = 0; depth < 4 && !level.empty(); ++depth) {
    std::vector<fs::path> next;
    for (const auto& folder : level) {
      std::error_code ec;
      if (fs::is_regular_file(folder / stream_name, ec)) {
        found.push_back(folder);
        continue;
      }
      for (fs::directory_iterator i(folder, ec), end; !ec && i != end; i.increment(ec))
        if (std::error_code no; i->is_directory(no)) next.push_back(i->path());
    }
    level = std::move(next);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// --- reading

namespace {

expected<std::string, record_error> text_of(const fs::path& file) {
  auto read = read_file(file.string());
  if (!read) return unexpected(record_error{file.string(), {}, std::move(read).error().text});
  const auto& b = *read;
  return std::string(static_cast<const char*>(b.data.get()), b.bytes);
}

plan_beginning::with beginning_of(const std::string& word) {
  using with = plan_beginning::with;
  for (auto w : {with::weights, with::checkpoint, with::handover, with::recorded})
    if (word == word_of(w)) return w;
  return with::fillers;
}

void take_plan(post_mortem& m, const mortem_json& o) {
  m.job = o.at("job");
  m.what.file = o.at("file");
  m.what.overrides = o.at("overrides").get<std::vector<std::string>>();
  for (const auto& n : o.at("nodes")) {
    node_spec s;
    s.name = n.at("name");
    s.devices = n.at("devices").get<std::vector<std::string>>();
    if (n.contains("tflops")) s.tflops = n.at("tflops").get<std::vector<double>>();
    s.roles = n.at("roles").get<std::vector<std::string>>();
    s.memory_limit = n.at("memory_limit");
    m.nodes.push_back(std::move(s));
  }
  m.plan_generation = o.at("leg");
  const auto& w = o.at("words");
  for (const auto& l : w.at("layers"))
    m.changes.layers.push_back({l.at("layer"), l.at("place").get<std::vector<std::string>>(), l.at("whole")});
  m.changes.without = w.at("without").get<std::set<std::string>>();
  if (w.contains("packets")) m.changes.packets = w.at("packets").get<std::vector<std::uint32_t>>();
  m.changes.mode = w.at("mode");
  for (const auto& p : w.at("mode_options")) m.changes.mode_options.emplace_back(p.at(0), p.at(1));
  if (o.contains("run")) {  // not in files of older versions
    const auto& run = o.at("run");
    m.chosen = host_choices{run.at("keeps_best"), run.at("histograms_every"), run.at("checkpoint_seconds")};
  }
  const auto& b = o.at("begins");
  m.begins = {beginning_of(b.at("with")), b.at("file"), b.at("sha256"), b.at("step")};
  m.where = o.at("where");
  m.error = o.at("error");
  m.step = o.at("step");
  m.milliseconds = o.value("began_ms", std::int64_t{0});
}

// The messages of a post-mortem or of a recording.
expected<replay::node_part, post_mortem_error> messages_of(const fs::path& folder, const mortem_json& plan) {
  std::error_code ec;
  const bool streamed = fs::is_regular_file(folder / stream_name, ec);
  const auto file = folder / (streamed ? stream_name : "messages.bin");
  auto bytes = text_of(file);
  if (!bytes) return unexpected(post_mortem_error{std::move(bytes).error()});
  const auto wrong = [&](const error& e) { return unexpected(post_mortem_error{{file.string(), {}, e.text}, true}); };
  if (streamed) {
    auto roles = replay::read_stream(*bytes);
    if (!roles) return wrong(roles.error());
    return replay::node_part{plan.at("plan_sha256"), plan.at("node"), *std::move(roles)};
  }
  auto part = replay::from_bytes(*bytes);
  if (!part) return wrong(part.error());
  return *std::move(part);
}

}  // namespace

host_choices choices_of(const prepared_job& j) { return {j.keeps_best, j.histograms_every, j.spec.checkpoint.every_seconds}; }

void choose(prepared_job& j, const host_choices& c) {
  j.keeps_best = c.keeps_best;
  j.histograms_every = c.histograms_every;
  j.spec.checkpoint.every_seconds = c.checkpoint_seconds;
}

expected<post_mortem, post_mortem_error> read_post_mortem(const fs::path& folder) {
  std::error_code ec;
  const auto wrong = [](record_error e) { return unexpected(post_mortem_error{std::move(e)}); };
  if (!fs::is_directory(folder, ec)) return wrong({folder.string(), {}, "no such folder"});
  auto text = text_of(folder / "job.toml");
  if (!text) return wrong(std::move(text).error());
  const auto plan = folder / "plan.json";
  const auto plan_text = text_of(plan);
  if (!plan_text) return wrong(plan_text.error());
  post_mortem m;
  m.what.text = *std::move(text);
  try {
    const auto o = mortem_json::parse(*plan_text);
    if (o.at("format") != 1) return wrong({plan.string(), {}, "it was written by another version of Troupe"});
    take_plan(m, o);
    auto messages = messages_of(folder, o);
    if (!messages) return unexpected(std::move(messages).error());
    m.messages = *std::move(messages);
  } catch (const mortem_json::exception& e) {
    return unexpected(post_mortem_error{{plan.string(), {}, std::string("it is damaged: ") + e.what()}, true});
  }
  if (fs::is_regular_file(folder / beginning_name, ec)) m.begins.file = (folder / beginning_name).string();
  return m;
}

}  // namespace troupe
