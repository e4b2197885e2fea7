#include "apps/cli/command.hpp"

#include <CLI/CLI.hpp>

namespace troupe {

void json_option(CLI::App& c) {
  const std::string text = "Print events as JSON on stdout, one object per line";
  c.add_flag("--json", text);
}

void job_options(CLI::App& c, job_arguments& a) {
  c.add_option("JOB", a.file, "Job file (TOML), or a run: its number, name or folder")->required()->option_text("(required)");
  c.add_option("--set", a.overrides,
               "Override a key of the job file, e.g. --set train.finish.epochs=1 or\n--set layer.conv1.outputs=10; may be repeated")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false);
  load_plugins_option(c, a.load_of_run, "a run's job.toml");
  runs_folder_option(c, a.run_dir);
  json_option(c);
}

void runs_folder_option(CLI::App& c, std::string& into) {
  c.add_option("--run-dir", into, "Folder of runs (default: $TROUPE_RUNS, or runs/)")->option_text("DIR");
}

CLI::Option* file_option(CLI::App& c, const std::string& name, std::string& into, const std::string& text) {
  return c.add_option(name, into, text)->option_text("FILE");
}

CLI::Option* load_plugins_option(CLI::App& c, bool& into, const std::string& of) {
  return c.add_flag("--load-plugins", into, "Load the plugins that " + of + " names, which runs their code");
}

void threads_option(CLI::App& c, unsigned& into, const std::string& fallback) {
  c.add_option("--threads", into, "Threads shared by all actors (default: " + fallback + ")")
      ->option_text("N")
      ->check(CLI::Range(0u, 4096u));
}

}  // namespace troupe
