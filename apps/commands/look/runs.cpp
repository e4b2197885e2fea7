// `troupe runs`: lists the runs of a folder, shows and compares them, and removes them.
#include "apps/commands/look/runs.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/cli/screen.hpp"
#include "apps/commands/commands.hpp"
#include "apps/commands/named_run.hpp"
#include "runtime/base/text_table.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/node/runs/run_query.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> run_actions{"show", "compare", "diff", "rm"};
const std::vector<std::string> run_states{"running", "done", "stopped", "failed", "interrupted"};

struct runs_arguments {
  std::vector<std::string> words;  // action and runs
  run_dir_argument dir;
  std::string state;
  std::size_t last = 0;  // 0: all
  bool yes = false;
};

std::vector<std::string> row_of(const known_run& r, std::time_t now) {
  const auto& i = r.info;
  return {std::to_string(i.number),
          printable(i.name),
          i.state,
          started_text(i.started, now),
          i.seconds > 0 ? clock_text(i.seconds) : "-",
          steps_text(i),
          i.steps > 0 ? number_or_dash(i.loss, 4) : "-",
          accuracy_text(i.best_accuracy),
          printable(i.mode),
          i.weights_sha256.empty() ? "-" : printable(i.weights_sha256.substr(0, 12))};
}

text_table table_of_runs() {
  text_table t({"run", "name", "state", "started", "time", "steps", "loss", "accuracy", "mode", "weights"});
  for (const std::size_t number : {0, 4, 5, 6, 7}) t.right(number);
  return t;
}

int list_runs(const runs_arguments& a, const output& out) {
  const auto dir = a.dir.folder();
  std::error_code ec;
  if (!a.dir.given.empty() && !fs::is_directory(dir, ec))
    return out.wrong("--run-dir",
                     in_quotes(dir.string()) + " is not a folder; try: troupe runs (the runs of $TROUPE_RUNS, or of runs/)");
  if (const auto readable = check_runs_folder(dir); !readable) return out.wrong(dir.string(), readable.error().message);
  auto folders = run_folders(dir);
  std::reverse(folders.begin(), folders.end());
  auto table = table_of_runs();
  const auto now = std::time(nullptr);
  std::size_t listed = 0;
  for (const auto& folder : folders) {
    if (a.last > 0 && listed == a.last) break;
    const auto read = read_run_info(folder);
    if (!read) {
      if (out.json())
        out.object({{"event", "warning"}, {"where", read.error().file}, {"message", read.error().message}});
      else
        out.remark(read.error().to_string());
      continue;
    }
    const known_run r{folder, *read};
    if (!a.state.empty() && r.info.state != a.state) continue;
    ++listed;
    if (out.json())
      out.object(run_object("run", r));
    else
      table.add(row_of(r, now));
  }
  if (out.json()) return exit_done;
  if (listed > 0)
    out.text(table.text() + "\n");
  else
    out.text("no runs in " + dir.string() +
             (a.state.empty() ? ": `troupe train JOB` makes one\n" : " with the state " + a.state + "\n"));
  return exit_done;
}

// Removes the run. Holds the run's lock meanwhile, so that no process resumes it.
expected<void> remove_run(const known_run& r, const output& out) {
  const int lock = ::open(run_lock_file(r.folder).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  const bool held = lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const auto remove = [&]() -> expected<void> {
    if (held) return unexpected(error("a process writes this run; stop it first"));
    const auto database = run_database_file(fs::absolute(r.folder).lexically_normal().parent_path());
    if (const auto deleted = delete_run_rows(database, r.info.number, noticed_on(out)); !deleted)
      return unexpected(error(deleted.error().to_string()));
    std::error_code ec;
    if (fs::remove_all(r.folder, ec) == static_cast<std::uintmax_t>(-1))
      return unexpected(error("cannot be removed: " + ec.message()));
    return {};
  };
  auto removed = remove();
  if (lock >= 0) ::close(lock);
  return removed;
}

// Only folders of a name NUMBER-NAME are removed: a user may name any path.
expected<void> check_removable(const known_run& r) {
  const auto name = fs::absolute(r.folder).lexically_normal().filename().string();
  if (r.info.state == "running") return unexpected(error("the run is running; stop it first (Ctrl-C, or `stop` in the REPL)"));
  if (!name.starts_with(std::to_string(r.info.number) + "-"))
    return unexpected(error("the folder's name does not begin with the run's number " + std::to_string(r.info.number) +
                            ": it was renamed; remove it with rm -r"));
  if (fs::is_symlink(r.folder))
    return unexpected(error("this is a symbolic link; remove the link with rm, or name the folder that it points to"));
  return {};
}

int remove_runs(const runs_arguments& a, std::vector<known_run> runs, const output& out) {
  std::sort(runs.begin(), runs.end(), [](const auto& x, const auto& y) { return x.folder < y.folder; });
  runs.erase(std::unique(runs.begin(), runs.end(), [](const auto& x, const auto& y) { return x.folder == y.folder; }), runs.end());
  std::string question = "remove ";
  for (const auto& r : runs) {
    if (const auto fine = check_removable(r); !fine) return out.wrong(r.folder.string(), fine.error().text);
    question += (question == "remove " ? "" : ", ") + printable(r.folder.string());
  }
  if (!a.yes && (out.json() || !can_ask())) return out.wrong("command line", "runs rm needs --yes where no question can be asked");
  if (!a.yes && !ask_yes(question + " with all of their weights?")) return out.failed("runs rm", "nothing was removed");
  int code = exit_done;
  for (const auto& r : runs) {
    if (const auto removed = remove_run(r, out); !removed)
      code = out.failed(r.folder.string(), removed.error().text);
    else if (out.json())
      out.object({{"event", "removed"}, {"number", r.info.number}, {"folder", r.folder.string()}});
    else
      out.text("removed " + printable(r.folder.string()) + "\n");
  }
  return code;
}

int run_runs(const runs_arguments& a, const output& out) {
  if (a.words.empty()) return list_runs(a, out);
  if (a.last > 0 || !a.state.empty())
    return out.wrong("command line", "--last and --state are options of `troupe runs` without an action");
  auto action = a.words[0];
  std::vector<std::string> words(a.words.begin() + 1, a.words.end());
  if (std::find(run_actions.begin(), run_actions.end(), action) == run_actions.end()) {
    const auto near = did_you_mean(action, run_actions);
    if (a.words.size() > 1 || (!near.empty() && !find_run(a.dir.folder(), action)))
      return out.wrong("command line", "unknown action " + in_quotes(action) + near + " (actions: " + joined(run_actions) + ")");
    words = {action}, action = "show";
  }
  if (action == "show" && words.empty()) words = {"last"};
  if (a.yes && action != "rm") return out.wrong("command line", "--yes is an option of `troupe runs rm`");
  const std::size_t least = action == "compare" || action == "diff" ? 2 : 1, most = action == "diff"   ? 2
                                                                                    : action == "show" ? 1
                                                                                                       : words.size();
  if (words.size() < least || words.size() > most)
    return out.wrong("command line", "runs " + action + " takes " +
                                         (action == "show"   ? "one RUN"
                                          : action == "diff" ? "two runs"
                                          : least == 2       ? "two or more runs"
                                                             : "at least one RUN") +
                                         " (try: troupe runs --help)");
  const auto runs = known_runs(a.dir, words, out);
  if (!runs) return exit_wrong;
  if (action == "show") return show_run((*runs)[0], out);
  if (action == "compare") return compare_runs(*runs, out);
  return action == "diff" ? diff_runs((*runs)[0], (*runs)[1], out) : remove_runs(a, *runs, out);
}

void add_options(CLI::App& c, runs_arguments& a) {
  c.add_option(
       "ACTION", a.words,
       "Without: list the runs, newest first\nshow [RUN]: all of a run (default: last)\ncompare RUN RUN...: results side by side\n"
       "diff RUN RUN: keys of the job files that differ\nrm RUN...: remove runs with their weights\n"
       "RUN is a number, a folder's name, a job's name (its newest run), a path, or last")
      ->option_text("[ACTION RUN...]");
  run_dir_option(c, a.dir);
  c.add_option("--last", a.last, "List only the newest N runs")->option_text("N")->check(CLI::PositiveNumber);
  c.add_option("--state", a.state, "List only runs in this state: " + joined(run_states))
      ->option_text("STATE")
      ->check(CLI::IsMember(run_states));
  c.add_flag("--yes", a.yes, "rm: do not ask");
  json_option(c);
}

}  // namespace

cli_command runs_command() {
  return make_command<runs_arguments>(
      "runs", "List, show, compare and remove the runs that `troupe train` has recorded",
      "  troupe runs --last 10\n  troupe runs show 7\n  troupe runs compare 6 7\n  troupe runs diff 6 7\n"
      "  troupe runs rm 3 4 --yes",
      add_options, run_runs);
}

std::filesystem::path run_dir_argument::folder() const {
  if (!given.empty()) return given;
  const auto usual = default_runs_folder();
  return usual.empty() ? std::filesystem::path("runs") : usual;  // TROUPE_RUNS=off concerns only new runs
}

void run_dir_option(CLI::App& c, run_dir_argument& d) {
  c.add_option("--run-dir", d.given, "Folder of the runs (default: $TROUPE_RUNS, else runs)")->option_text("DIR");
}

std::optional<std::vector<known_run>> known_runs(const run_dir_argument& d, const std::vector<std::string>& words,
                                                 const output& out) {
  std::vector<known_run> all;
  for (const auto& word : words) {
    const auto found = find_run(d.folder(), word);
    if (!found) {
      out.wrong(found.error().file, found.error().message);
      return std::nullopt;
    }
    const auto& folder = *found;
    const auto read = read_run_info(folder);
    if (!read) {
      out.wrong(read.error().file, read.error().message);
      return std::nullopt;
    }
    all.push_back({folder, *read});
  }
  return all;
}

nlohmann::ordered_json run_object(const char* event, const known_run& r) {
  nlohmann::ordered_json o{{"event", event}, {"folder", r.folder.string()}};
  o.update(nlohmann::ordered_json::parse(run_info_text(r.info)));
  return o;
}

std::string started_text(const std::string& utc, std::time_t now) {
  std::tm parts{};
  if (::strptime(utc.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr) return utc.empty() ? "-" : printable(utc);
  const auto seconds = std::max<std::time_t>(0, now - ::timegm(&parts));
  const auto ago = [](std::time_t n, const char* unit) {
    return std::to_string(n) + " " + unit + (n == 1 || unit[1] == '\0' ? "" : "s") + " ago";
  };
  if (seconds < 60) return ago(seconds, "s");
  if (seconds < 3600) return std::to_string(seconds / 60) + " min ago";
  if (seconds < 86400) return ago(seconds / 3600, "hour");
  if (seconds < 30 * 86400) return ago(seconds / 86400, "day");
  return utc.substr(0, 10);
}

std::string steps_text(const run_info& r) {
  const auto steps = std::to_string(r.steps);
  return r.last_step > 0 && r.steps != r.last_step ? steps + "/" + std::to_string(r.last_step) : steps;
}

std::string accuracy_text(double accuracy) { return accuracy >= 0 ? fixed(accuracy, 4) : "-"; }
std::string number_or_dash(double value, int digits) { return std::isfinite(value) ? fixed(value, digits) : "-"; }

double mean_rate(const run_info& r) {
  return r.seconds > 0 ? static_cast<double>(r.steps) * static_cast<double>(r.batch) / r.seconds : 0;
}

}  // namespace troupe
