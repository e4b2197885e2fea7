#include "runtime/node/runs/run_info.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "runtime/base/number_text.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/record/file_io.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using info_json = nlohmann::ordered_json;

constexpr std::uintmax_t most_info_bytes = 1u << 20;
constexpr std::size_t most_names_in_error = 8;
constexpr const char* checkpoints_name = "checkpoints";  // folder in a run folder

// Visits the fields in the order of run.json. `fraction` is a double for which -1 means "none".
template <class Info, class Visitor>
void visit_run_info(Info& r, Visitor& v) {
  v.field("number", r.number), v.field("name", r.name), v.field("state", r.state);
  v.field("job_file", r.job_file), v.field("overrides", r.overrides), v.field("seed", r.seed), v.field("mode", r.mode);
  v.field("workers", r.workers), v.field("packets", r.packets), v.field("parameters", r.parameters), v.field("batch", r.batch);
  v.field("last_step", r.last_step), v.field("steps_per_epoch", r.steps_per_epoch);
  v.field("version", r.version), v.field("host", r.host), v.field("cpu", r.cpu), v.field("blas_kernel", r.blas_kernel);
  v.field("cores", r.cores), v.field("devices", r.devices), v.field("started", r.started), v.field("ended", r.ended);
  v.field("seconds", r.seconds), v.field("steps", r.steps), v.field("loss", r.loss);
  v.fraction("accuracy", r.accuracy), v.fraction("best_accuracy", r.best_accuracy), v.field("best_step", r.best_step);
  v.field("best_loss", r.best_loss);
  v.field("weights_sha256", r.weights_sha256), v.field("error", r.error), v.field("resumed_at", r.resumed_at);
  v.field("checkpoints", r.checkpoints), v.field("begun_from", r.begun_from);
  v.field("begun_from_checkpoint", r.begun_from_checkpoint), v.field("not_recorded", r.not_recorded);
}

struct info_writer {
  info_json out = info_json::object();
  template <class T>
  void field(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, double>) {
      out[name] = std::isfinite(value) ? info_json(value) : info_json(nullptr);
    } else {
      out[name] = value;
    }
  }
  void fraction(const char* name, double value) { out[name] = value >= 0 ? info_json(value) : info_json(nullptr); }
};

bool take_json(const info_json& j, std::string& into) {
  if (j.is_string()) into = j.get<std::string>();
  return j.is_string();
}
bool take_json(const info_json& j, std::uint64_t& into) {
  if (!j.is_number_unsigned()) return false;
  into = j.get<std::uint64_t>();
  return true;
}
bool take_json(const info_json& j, std::uint32_t& into) {
  std::uint64_t wide = 0;
  if (!take_json(j, wide) || wide > std::numeric_limits<std::uint32_t>::max()) return false;
  into = static_cast<std::uint32_t>(wide);
  return true;
}
bool take_json(const info_json& j, bool& into) {
  if (j.is_boolean()) into = j.get<bool>();
  return j.is_boolean();
}
bool take_json(const info_json& j, double& into) {
  if (!j.is_number() && !j.is_null()) return false;
  into = j.is_null() ? std::numeric_limits<double>::quiet_NaN() : j.get<double>();
  return true;
}
template <class T>
bool take_json(const info_json& j, std::vector<T>& into) {
  if (!j.is_array()) return false;
  into.resize(j.size());
  for (std::size_t i = 0; i < j.size(); ++i)
    if (!take_json(j[i], into[i])) return false;
  return true;
}

template <class T>
constexpr const char* json_kind() {
  if constexpr (std::is_same_v<T, std::string>) return "a text";
  if constexpr (std::is_same_v<T, double>) return "a number";
  if constexpr (std::is_integral_v<T>) return "a whole number that is not negative";
  return "a list of texts or of whole numbers";
}

// Keys that are missing keep their defaults, so that files of other versions can be read.
struct info_reader {
  const info_json& in;
  std::string problem;  // of the first field that cannot be used
  template <class T>
  void field(const char* name, T& value) {
    const auto at = in.find(name);
    if (at != in.end() && !take_json(*at, value) && problem.empty())
      problem = "the value of " + in_quotes(name) + " must be " + json_kind<T>();
  }
  void fraction(const char* name, double& value) {
    field(name, value);
    if (std::isnan(value)) value = -1;
  }
};

expected<std::string> read_small_text(const fs::path& file) {
  std::error_code ec;
  if (!fs::exists(file, ec)) return unexpected(error(ec ? ec.message() : "there is no such file; a run folder has one"));
  if (fs::is_regular_file(file, ec) && fs::file_size(file, ec) > most_info_bytes)
    return unexpected(error("it is larger than 1 MiB, and not of Troupe"));
  return read_file(file.string()).transform([](const file_bytes& b) {
    return std::string(static_cast<const char*>(b.data.get()), b.bytes);
  });
}

// The number of NUMBER-NAME; 0 if the name has another form.
std::uint32_t number_of_folder(const std::string& name) {
  const auto dash = name.find('-');
  std::uint32_t number = 0;
  if (dash == std::string::npos || dash + 1 == name.size() || !read_number(name.substr(0, dash), number)) return 0;
  return number;
}

// The newest run with this job's name, by run.json or by the folder's name.
std::optional<fs::path> newest_named(const std::vector<fs::path>& folders, const std::string& word) {
  for (auto f = folders.rbegin(); f != folders.rend(); ++f) {
    const auto name = f->filename().string();
    if (name.substr(name.find('-') + 1) == word) return *f;
    const auto info = read_run_info(*f);
    if (info && info->name == word) return *f;
  }
  return std::nullopt;
}

record_error no_such_run(const fs::path& runs, const std::vector<fs::path>& folders, const std::string& word) {
  std::error_code ec;
  if (folders.empty())
    return {runs.string(),
            {},
            (fs::is_directory(runs, ec) ? "there is no run in this folder" : "there is no such folder") +
                std::string("; `troupe train` makes a run, --run-dir DIR names the folder of runs")};
  std::vector<std::string> words, shown;
  for (auto f = folders.rbegin(); f != folders.rend(); ++f) {
    words.push_back(f->filename().string());
    if (shown.size() < most_names_in_error) shown.push_back(words.back());
    const auto name = words.back().substr(words.back().find('-') + 1);
    if (std::find(words.begin(), words.end(), name) == words.end()) words.push_back(name);
  }
  const auto more = folders.size() > shown.size() ? ", and " + std::to_string(folders.size() - shown.size()) + " older" : "";
  return {runs.string(),
          {},
          "there is no run " + in_quotes(word) + did_you_mean(word, words) + " (runs: " + joined(shown) + more + ")"};
}

}  // namespace

std::optional<best_evaluation> best_of(const run_info& r) {
  if (r.best_accuracy < 0 && std::isnan(r.best_loss)) return std::nullopt;
  return best_evaluation{r.best_step, r.best_accuracy < 0 ? std::nullopt : std::optional(r.best_accuracy), r.best_loss};
}

void set_best(run_info& r, const std::optional<best_evaluation>& best) {
  const auto b = best.value_or(best_evaluation{0, std::nullopt, std::numeric_limits<double>::quiet_NaN()});
  r.best_step = b.step;
  r.best_accuracy = b.accuracy.value_or(-1);
  r.best_loss = b.loss;
}

fs::path run_job_file(const fs::path& folder) { return folder / "job.toml"; }
fs::path run_info_file(const fs::path& folder) { return folder / "run.json"; }
fs::path run_metrics_file(const fs::path& folder) { return folder / "metrics.csv"; }
fs::path run_events_file(const fs::path& folder) { return folder / "events.jsonl"; }
fs::path run_lock_file(const fs::path& folder) { return folder / "lock"; }
fs::path run_database_file(const fs::path& runs) { return runs / "runs.db"; }

fs::path checkpoints_of_run(const fs::path& folder, const run_info& info) {
  const fs::path named = info.checkpoints;
  const bool own = named.filename() == checkpoints_name && number_of_folder(named.parent_path().filename().string()) == info.number;
  return own || named.empty() ? folder / checkpoints_name : named;
}

std::string run_info_text(const run_info& r) {
  info_writer writer;
  visit_run_info(r, writer);
  return writer.out.dump(2, ' ', false, info_json::error_handler_t::replace) + "\n";
}

expected<run_info> parse_run_info(const std::string& text) {
  const auto damaged = [](const std::string& why) { return unexpected(error("it is damaged: " + why)); };
  const auto all = info_json::parse(text, nullptr, false);
  if (!all.is_object()) return damaged("not a JSON object");
  for (const char* needed : {"number", "name", "state"})
    if (!all.contains(needed)) return damaged("there is no " + in_quotes(needed));
  run_info r;
  info_reader reader{all, {}};
  visit_run_info(r, reader);
  if (!reader.problem.empty()) return damaged(reader.problem);
  const std::vector<std::string> states{"running", "done", "stopped", "failed", "interrupted"};
  if (std::find(states.begin(), states.end(), r.state) == states.end())
    return unexpected(error("the state " + in_quotes(r.state) + " is not one of " + joined(states)));
  return r;
}

bool run_is_locked(const fs::path& folder) {
  const int lock = ::open(run_lock_file(folder).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (lock < 0) return false;
  const bool held = ::flock(lock, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(lock);
  return held;
}

expected<run_info, record_error> read_run_info(const fs::path& folder) {
  const auto file = run_info_file(folder);
  auto r = read_small_text(file).and_then(parse_run_info);
  if (!r) return unexpected(record_error{file.string(), {}, r.error().text});
  if (r->state == "running" && !run_is_locked(folder)) {
    // The run may have ended between the two reads.
    if (auto again = read_small_text(file).and_then(parse_run_info)) r = std::move(again);
    if (r->state == "running") r->state = "interrupted";
  }
  return *std::move(r);
}

fs::path default_runs_folder() {
  const char* set = std::getenv("TROUPE_RUNS");
  if (set == nullptr || *set == '\0') return "runs";
  return std::string(set) == "off" ? fs::path() : fs::path(set);
}

std::vector<fs::path> run_folders(const fs::path& runs) {
  std::vector<std::pair<std::uint32_t, fs::path>> found;
  std::error_code ec, odd;
  for (fs::directory_iterator i(runs, ec), end; !ec && i != end; i.increment(ec))
    if (const auto number = number_of_folder(i->path().filename().string()); number > 0 && i->is_directory(odd))
      found.emplace_back(number, i->path());
  std::sort(found.begin(), found.end());
  std::vector<fs::path> folders;
  for (auto& f : found) folders.push_back(std::move(f.second));
  return folders;
}

expected<void, record_error> check_runs_folder(const fs::path& runs) {
  std::error_code ec;
  const fs::directory_iterator first(runs, ec);
  if (!ec || ec == std::errc::no_such_file_or_directory) return {};
  return unexpected(
      record_error{runs.string(), {}, "cannot read the folder of the runs: " + ec.message() + "; --run-dir DIR names another"});
}

expected<fs::path, record_error> find_run(const fs::path& runs, const std::string& word) {
  const auto folders = run_folders(runs);
  std::uint32_t number = 0;
  const bool is_number = read_number(word, number);
  for (const auto& f : folders) {
    const auto name = f.filename().string();
    if (name == word || (is_number && number_of_folder(name) == number)) return f;
  }
  std::error_code ec;
  if (!word.empty() && fs::exists(run_info_file(word), ec)) {
    const auto path = fs::absolute(word, ec).lexically_normal();  // has a parent, and a name after "7-lenet/" and "."
    return path.has_filename() ? path : path.parent_path();
  }
  if (word.find('/') != std::string::npos)
    return unexpected(record_error{
        word, {}, fs::exists(word, ec) ? "this is no run folder: there is no run.json in it" : "there is no such folder"});
  if (auto named = newest_named(folders, word)) return *named;
  if (word == "last" && !folders.empty()) return folders.back();
  if (auto readable = check_runs_folder(runs); !readable) return unexpected(std::move(readable).error());
  return unexpected(no_such_run(runs, folders, word));
}

}  // namespace troupe
