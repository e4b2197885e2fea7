#include "runtime/cluster/controller/journal.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/access/names.hpp"
#include "runtime/checksum/crc32c.hpp"
#include "runtime/record/job_owner.hpp"

namespace troupe::control {
namespace {

using json = nlohmann::json;

std::string checksum_of(const std::string& text) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "%08x", crc32c(0, text.data(), text.size()));
  return digits;
}

// Texts are UTF-8, since job files are checked. A byte that is not is replaced instead of throwing
// an exception.
std::string line_of(const json& o) {
  const auto text = o.dump(-1, ' ', false, json::error_handler_t::replace);
  return checksum_of(text) + " " + text + "\n";
}

std::optional<json> object_of(const std::string& line) {
  if (line.size() < 10 || line[8] != ' ') return std::nullopt;
  const auto text = line.substr(9);
  if (checksum_of(text) != line.substr(0, 8)) return std::nullopt;
  auto o = json::parse(text, nullptr, false);
  return o.is_object() ? std::optional(std::move(o)) : std::nullopt;
}

// A whole number that fits T. Throws otherwise: the line is then not one of this program.
template <class T>
T whole(const json& o) {
  if (!o.is_number_unsigned() || o.get<std::uint64_t>() > std::numeric_limits<T>::max())
    throw json::other_error::create(501, "no such number", nullptr);
  return static_cast<T>(o.get<std::uint64_t>());
}

class reading {
 public:
  // Returns false if the line is not one of this program.
  bool take(const json& o) try {
    const auto is = o.at("is").get<std::string>();
    const auto number = whole<std::uint32_t>(o.at("job"));
    out_.last_number = std::max(out_.last_number, number);
    if (is == "number") return true;
    if (is == "queued") return queued(number, o), true;
    if (is == "over" && o.contains("state")) finished(number, o);
    const auto at = std::find_if(out_.jobs.begin(), out_.jobs.end(), [&](const auto& j) { return j.number == number; });
    if (at == out_.jobs.end()) return true;
    if (is == "begun") ++at->begun;
    if (is == "kept") at->kept = o.at("file"), at->begun = 0;
    if (is == "over") out_.jobs.erase(at);
    if (is == "changed") at->changes = changes_in(o);
    if (is == "set") {
      at->paused = o.at("paused");
      at->settings.clear();
      for (const auto& s : o.at("settings")) at->settings.push_back({s.at(0), s.at(1), whole<std::uint64_t>(s.at(2))});
    }
    return true;
  } catch (const json::exception&) {
    return false;
  }
  journal_content done(bool damaged) {
    out_.damaged = damaged;
    return std::move(out_);
  }

 private:
  static amendments changes_in(const json& o) {
    amendments a;
    for (const auto& l : o.at("layers")) a.layers.push_back({l.at(0), l.at(1), l.at(2)});
    a.without = o.at("without").get<std::set<std::string>>();
    a.packets = o.value("packets", std::vector<std::uint32_t>{});  // absent in lines of earlier versions
    a.mode = o.at("mode");
    for (const auto& v : o.at("mode_options")) a.mode_options.emplace_back(v.at(0), v.at(1));
    return a;
  }
  void queued(std::uint32_t number, const json& o) {
    unfinished_job j;
    j.number = number;
    j.what = {o.at("file"), o.at("text"), o.at("overrides")};
    j.given.kind = whole<std::uint8_t>(o.at("given_kind"));
    j.given.file = o.at("given");
    j.given.bytes = whole<std::uint64_t>(o.at("given_bytes"));
    j.owner = o.value("owner", std::string(client_name));  // lines of versions without owners
    std::erase_if(out_.jobs, [&](const auto& x) { return x.number == number; });
    out_.jobs.push_back(std::move(j));
  }
  static event_effect last_event_in(const json& o) {
    flat_event flat{o.at("kind"), whole<std::uint64_t>(o.at("step")), {}, {}, o.at("text")};
    for (const auto& v : o.at("values"))
      flat.values.emplace_back(v.at(0), v.at(1).is_null() ? std::numeric_limits<double>::quiet_NaN() : v.at(1).get<double>());
    for (const auto& t : o.at("texts")) flat.texts.emplace_back(t.at(0), t.at(1));
    auto read = event_of(flat);
    if (!read) throw std::runtime_error(read.error().text);
    return *std::move(read);
  }
  void finished(std::uint32_t number, const json& o) {
    finished_job j;
    j.number = number;
    j.name = o.at("name");
    j.owner = o.at("owner");
    const auto state = job_state_named(o.at("state").get<std::string>());
    if (!state) throw json::other_error::create(501, "no such state", nullptr);
    j.state = *state;
    j.weights = o.at("weights");
    j.last_step = whole<std::uint64_t>(o.at("last_step"));
    j.last.event = last_event_in(o);
    const auto number_of = [&](const char* key, double& into) {
      if (const auto at = o.find(key); at != o.end() && at->is_number()) into = at->get<double>();
    };
    number_of("loss", j.loss);
    number_of("accuracy", j.accuracy);
    number_of("examples_per_s", j.examples_per_s);
    if (o.contains("skipped")) j.skipped = whole<std::uint64_t>(o.at("skipped"));
    std::erase_if(out_.finished, [&](const auto& x) { return x.number == number; });
    out_.finished.push_back(std::move(j));
    std::vector<std::string> owners;  // the newest first
    for (auto at = out_.finished.rbegin(); at != out_.finished.rend(); ++at) owners.push_back(at->owner);
    if (const auto gone = surplus(owners, finished_kept); !gone.empty())
      out_.finished.erase(out_.finished.end() - 1 - static_cast<std::ptrdiff_t>(gone.front()));
  }
  journal_content out_;
};

// Takes the line of reached(). If there is none, or it is damaged, the steps stay unknown.
void take_step(const std::string& line, std::vector<unfinished_job>& jobs) {
  const auto o = object_of(line.substr(0, line.find_last_not_of(" \n") + 1));
  if (!o || !o->contains("job") || !o->contains("step")) return;
  for (auto& j : jobs)
    if ((*o)["job"] == j.number && (*o)["step"].is_number_unsigned()) j.reached = (*o)["step"];
}

std::string written_again(const journal_content& c) {
  std::string text = line_of({{"is", "number"}, {"job", c.last_number}});
  for (const auto& j : c.finished) text += journal_over(j);
  for (const auto& j : c.jobs) {
    text += journal_queued(j);
    if (!j.kept.empty()) text += journal_kept(j.number, j.kept);
    if (!j.settings.empty() || j.paused) text += journal_set(j.number, j.settings, j.paused);
    if (!(j.changes == amendments{})) text += journal_changed(j.number, j.changes);
    for (std::uint32_t i = 0; i < j.begun; ++i) text += journal_begun(j.number);
  }
  return text;
}

}  // namespace

given_file begins_with(const unfinished_job& j) { return j.kept.empty() ? j.given : given_file{given_file::checkpoint, j.kept, 1}; }

std::string journal_queued(const unfinished_job& j) {
  return line_of({{"is", "queued"},
                  {"job", j.number},
                  {"file", j.what.file},
                  {"text", j.what.text},
                  {"overrides", j.what.overrides},
                  {"given", j.given.file},
                  {"given_kind", j.given.kind},
                  {"given_bytes", j.given.bytes},
                  {"owner", j.owner}});
}
std::string journal_begun(std::uint32_t number) { return line_of({{"is", "begun"}, {"job", number}}); }
std::string journal_kept(std::uint32_t number, const std::string& file) {
  return line_of({{"is", "kept"}, {"job", number}, {"file", file}});
}
std::string journal_set(std::uint32_t number, const std::vector<set_value>& settings, bool paused) {
  auto list = json::array();
  for (const auto& s : settings) list.push_back({s.key, s.value, s.from});
  return line_of({{"is", "set"}, {"job", number}, {"settings", std::move(list)}, {"paused", paused}});
}
std::string journal_changed(std::uint32_t number, const amendments& changes) {
  auto layers = json::array(), options = json::array();
  for (const auto& l : changes.layers) layers.push_back({l.layer, l.place, l.whole});
  for (const auto& [key, value] : changes.mode_options) options.push_back({key, value});
  return line_of({{"is", "changed"},
                  {"job", number},
                  {"layers", std::move(layers)},
                  {"without", changes.without},
                  {"packets", changes.packets},
                  {"mode", changes.mode},
                  {"mode_options", std::move(options)}});
}
std::string journal_over(const finished_job& j) {
  auto values = json::array(), texts = json::array();
  const auto flat = flatten(j.last.event);
  for (const auto& [key, value] : flat.values) values.push_back({key, value});
  for (const auto& [key, text] : flat.texts) texts.push_back({key, text});
  return line_of({{"is", "over"},
                  {"job", j.number},
                  {"name", j.name},
                  {"owner", j.owner},
                  {"state", text_of(j.state)},
                  {"weights", j.weights},
                  {"last_step", j.last_step},
                  {"kind", flat.kind},
                  {"step", flat.step},
                  {"text", flat.message},
                  {"values", std::move(values)},
                  {"texts", std::move(texts)},
                  {"loss", j.loss},
                  {"accuracy", j.accuracy},
                  {"examples_per_s", j.examples_per_s},
                  {"skipped", j.skipped}});
}

journal_content read_journal(const std::string& text) {
  reading r;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto end = text.find('\n', at);
    const auto o = end == std::string::npos ? std::nullopt : object_of(text.substr(at, end - at));
    if (!o || !r.take(*o)) return r.done(true);
    at = end + 1;
  }
  return r.done(false);
}

journal::journal(std::filesystem::path file) : journal(std::make_shared<file_journal>(std::move(file))) {}

journal::journal(std::shared_ptr<journal_storage> in) : in_(std::move(in)) {
  const auto say = [&](const error& what) {
    if (opened_) opened_ = unexpected(what.in(in_->name()));
  };
  if (const auto read = in_->read()) {
    found_ = read_journal(read->lines);
    if (found_.damaged) say(error("its last lines are damaged and were ignored"));
    take_step(read->step, found_.jobs);
  } else {
    say(read.error());
  }
  const auto written = in_->replace(written_again(found_));
  if (!written) say(written.error());
  if (!written && found_.damaged) return;  // lines after a damaged one would not be read
  if (const auto open = in_->open())
    open_ = true;
  else
    say(open.error());
}

void journal::reached(std::uint32_t job, std::uint64_t step) {
  if (!open_) return;
  (void)write_owed();
  char text[64], line[96];
  std::snprintf(text, sizeof text, R"({"job":%u,"step":%llu})", job, static_cast<unsigned long long>(step));
  std::snprintf(line, sizeof line, "%s %-56s\n", checksum_of(text).c_str(), text);  // fixed length: overwrites the last one
  in_->put_step(line);
}

expected<void> journal::append(const std::string& line) {
  if (!open_) return unexpected(error("the journal is not open").in(in_->name()));
  owed_ += line;
  return write_owed();
}

expected<void> journal::write_owed() {
  if (owed_.empty()) return {};
  if (const auto kept = in_->append(owed_); !kept) return unexpected(kept.error().in(in_->name()));
  owed_.clear();
  return {};
}

}  // namespace troupe::control
